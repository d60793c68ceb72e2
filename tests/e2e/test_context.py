"""What an agent has forgotten comes back by itself: once, and only where it belongs."""

from __future__ import annotations

import json

import pytest

from tests.e2e.agent import reminders_in
from tests.e2e.gateway import MAIN_SESSION
from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

OTHER_SESSION = "agent:main:elsewhere"


SETTINGS = {"TASKMEM_CARRY_ON": "off", "TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}
"""No silence of this test's length counts as stuck, and nobody is told to go on."""
SHARES_GATEWAY = True


def registrar(request: ModelRequest) -> Reply:
    """Register a task when asked to, and answer everything else with a word."""
    turn = request.turn
    if "Please register" in turn.words and not turn.results:
        return [Call("task_register", {"name": "Bake", "plan": ["Knead", "Proof"]})]
    return "All is well."


def test_open_task_precedes_the_prompt_once_while_it_is_news(house: House):
    model, at_home, taskmem = house.model, house.gateway, house.taskmem
    model.decide = registrar

    def list_reminded_tasks(message: str, session: str = MAIN_SESSION) -> list[str]:
        """Which tasks a turn was reminded of."""
        before = len(model.requests)
        at_home.say(message, session)
        first = model.requests[before]
        return [each["task_id"] for each in reminders_in(first.turn.text)]

    assert list_reminded_tasks("Please register it.") == []
    # A compaction may repeat those words: the task is registered once only.
    model.decide = lambda _: "All is well."
    [task] = taskmem.call("task_list")["tasks"]
    task_id = task["task_id"]
    assert taskmem.show(task_id)["session_key"] == MAIN_SESSION

    # An ordinary turn is left alone; the bare word brings it back, each time.
    assert list_reminded_tasks("How is the weather?") == []
    assert list_reminded_tasks("Continue") == [task_id]
    assert list_reminded_tasks("Shall I continue with the bread?") == []
    assert list_reminded_tasks("continue", OTHER_SESSION) == []

    # After a compaction, once.
    at_home.compact()
    assert list_reminded_tasks("And now?") == [task_id]
    assert list_reminded_tasks("And then?") == []

    # What the agent has reported since is no news.
    at_home.compact()
    taskmem.call("task_update", task_id=task_id, message="Kneaded.")
    assert list_reminded_tasks("And now?") == []

    # The command brings it, and names what there is not.
    at_home.wait_until_idle(MAIN_SESSION)
    before = len(model.requests)
    with at_home.rpc() as rpc:  # as a browser's page, it stays connected
        rpc.call("chat.send", sessionKey=MAIN_SESSION, message="/resume", idempotencyKey="1")
        until(
            lambda: len(model.requests) > before,
            "the command's turn has begun",
            shown=lambda: at_home.lines(MAIN_SESSION),
        )
    found = reminders_in(model.requests[before].turn.text)
    assert [each["task_id"] for each in found] == [task_id]
    assert found[0]["recent_messages"][-1]["content"] == "Kneaded."

    # All of that was reported.
    [known] = json.loads(taskmem.run("status", "--json"))["gateways"]
    assert known["reported"]["compacted"] == 2
    assert known["reported"]["tool_called"] >= 1
    # The main session may have begun in a module before.
    assert known["reported"]["session_started"] >= 1

    # A task that has ended is nobody's news.
    taskmem.call("task_update", task_id=task_id, status="completed")
    assert list_reminded_tasks("continue") == []
