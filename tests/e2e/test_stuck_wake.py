"""A task falls silent, and its agent is woken with what it needs to carry on.

Nothing is faked but the model: the gateway, its MCP client, the daemon and the
`openclaw` command are the real ones.
"""

from __future__ import annotations

import pytest

from tests.e2e.agent import Deployer, packet_size, packets_in
from tests.e2e.gateway import MAIN_SESSION, Gateway
from tests.e2e.room import until
from tests.e2e.scripted_model import ModelRequest, ScriptedModel
from tests.e2e.taskmem import Taskmem

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAME = "Deploy the bakery's site"
PLAN = ("Build the image", "Push the image", "Verify the site")


@pytest.fixture
def settings():
    """A silence that is short, but longer than a pause within a turn."""
    return {
        "TASKMEM_STUCK_THRESHOLD_SECONDS": "8",
        "TASKMEM_STUCK_INTERVAL_SECONDS": "1",
        "TASKMEM_STUCK_COOLDOWN_SECONDS": "600",
    }


def has_narrated(request: ModelRequest) -> bool:
    """Whether the turn has searched, registered, and narrated a step."""
    return len(request.turn.results) == 3


def woken_for(task_id: str):
    """Whether a request begins a turn with the packet of that task."""

    def begins(request: ModelRequest) -> bool:
        packets = packets_in(request.turn.text)
        return request.opens_turn and task_id in [each["task_id"] for each in packets]

    return begins


def done_steps(task: dict) -> list[bool]:
    """Which steps of a task are done, in order."""
    return [step["done"] for step in task["steps"]]


def test_a_silent_task_wakes_its_agent_once_and_is_carried_on(
    model: ScriptedModel, gateway: Gateway, taskmem: Taskmem
):
    model.decide = Deployer(NAME, PLAN, MAIN_SESSION)

    # A turn registers a task, narrates its first step, and ends.
    gateway.take_turn(f"Please do this: {NAME}")
    model.wait_for(has_narrated, 10)
    [listed] = taskmem.call("task_list")["tasks"]
    task_id = listed["task_id"]
    task = taskmem.show(task_id)
    assert (task["name"], task["plan"]) == (NAME, list(PLAN))
    assert done_steps(task) == [True, False, False]

    # It falls silent, and the wake arrives with all that is needed.
    woken = model.wait_for(woken_for(task_id), 180)
    [packet] = packets_in(woken.turn.text)
    assert packet["status"] == "active"
    assert packet["progress"] == {"completed": [0], "current": 1, "remaining": [2], "pct": 33}
    assert packet["plan"] == list(PLAN)
    assert "Step 1 done - Build the image" in [
        message["content"] for message in packet["recent_messages"]
    ]
    assert packet["suggested_next_action"].strip()
    assert packet_size(packet) <= 4096

    # The agent, which knows only the packet, does the next step.
    def list_acknowledged():
        return [wake for wake in taskmem.wakes(task_id) if wake["state"] == "acknowledged"]

    [wake] = until(list_acknowledged, "the wake is acknowledged")
    assert wake["wake_id"] == packet["wake_id"]
    assert packets_in(wake["text"]) == [packet]
    assert wake["session_key"] == MAIN_SESSION
    assert wake["transport"] == "openclaw-cli"
    assert done_steps(taskmem.show(task_id)) == [True, True, False]

    # It falls silent again. Another task, registered now, becomes stuck after
    # it would: the cooldown is all that keeps its second wake back.
    later = taskmem.call("task_register", name="Water", plan=["Pour"], session_key=MAIN_SESSION)[
        "task_id"
    ]
    model.wait_for(woken_for(later), 180)
    assert len(taskmem.wakes(task_id)) == 1
    assert len([each for each in model.requests if woken_for(task_id)(each)]) == 1

    # Completed, it is left alone, whatever the threshold and the cooldown.
    gateway.take_turn("Please wrap up.")
    assert taskmem.show(task_id)["status"] == "completed"
    gateway.stop()
    taskmem.restart(
        {
            "TASKMEM_STUCK_THRESHOLD_SECONDS": "1",
            "TASKMEM_STUCK_COOLDOWN_SECONDS": "1",
            "TASKMEM_WAKE_TRANSPORT": "stdout",
        }
    )
    last = taskmem.call("task_register", name="Sweep", plan=["Brush"])["task_id"]
    until(lambda: taskmem.wakes(last), "the loop has looked again")
    assert [each["wake_id"] for each in taskmem.wakes(task_id)] == [wake["wake_id"]]
