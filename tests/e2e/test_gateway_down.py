"""A wake that falls due while the gateway is down is kept, and arrives later."""

from __future__ import annotations

import pytest

from tests.e2e.agent import Deployer, packets_in
from tests.e2e.gateway import Gateway
from tests.e2e.room import until
from tests.e2e.scripted_model import ScriptedModel
from tests.e2e.taskmem import Taskmem

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAME = "Index the archive"
PLAN = ("Read the shelves", "Write the index")


@pytest.fixture
def settings():
    """No task is stuck until the test says so."""
    return {
        "TASKMEM_STUCK_THRESHOLD_SECONDS": "3600",
        "TASKMEM_STUCK_INTERVAL_SECONDS": "1",
        "TASKMEM_STUCK_COOLDOWN_SECONDS": "600",
    }


def test_a_wake_outlives_a_gateway_that_is_down(
    model: ScriptedModel, gateway: Gateway, taskmem: Taskmem
):
    model.decide = Deployer(NAME, PLAN)
    gateway.take_turn(f"Please do this: {NAME}")
    model.wait_for(lambda request: len(request.turn.results) == 3, 10)
    [listed] = taskmem.call("task_list")["tasks"]
    task_id = listed["task_id"]

    # The gateway goes; the daemon outlives it, and then calls the task stuck.
    gateway.stop()
    assert taskmem.is_running
    taskmem.restart({"TASKMEM_STUCK_THRESHOLD_SECONDS": "1"})

    def list_failed():
        return [wake for wake in taskmem.wakes(task_id) if wake["last_error"]]

    [kept] = until(list_failed, "the wake has been tried in vain")
    assert kept["state"] == "due"
    assert kept["attempts"] >= 1
    assert kept["sent_at"] is None
    assert "gateway" in kept["last_error"].lower()

    # The gateway comes back, and so does the wake: once.
    gateway.start()
    woken = model.wait_for(lambda request: packets_in(request.turn.text), 240)
    [packet] = packets_in(woken.turn.text)
    assert (packet["task_id"], packet["wake_id"]) == (task_id, kept["wake_id"])

    def list_acknowledged():
        return [wake for wake in taskmem.wakes(task_id) if wake["state"] == "acknowledged"]

    [wake] = until(list_acknowledged, "the wake is acknowledged")
    assert wake["attempts"] >= kept["attempts"]
    assert wake["session_key"] is None
    assert all(step["done"] for step in taskmem.show(task_id)["steps"])
    assert len(taskmem.wakes(task_id)) == 1
    turns = [each for each in model.requests if each.opens_turn]
    assert sum(len(packets_in(each.turn.text)) for each in turns) == 1
