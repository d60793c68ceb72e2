"""An agent that forgets everything finishes from the packets alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.agent import packets_in
from tests.e2e.gateway import MAIN_SESSION
from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, text_of, without_packets

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PLAN = ["Measure the flour", "Knead the dough", "Bake the bread"]


SETTINGS = {
    "TASKMEM_CARRY_ON": "off",
    "TASKMEM_STUCK_THRESHOLD_SECONDS": "6",
    "TASKMEM_STUCK_INTERVAL_SECONDS": "1",
    "TASKMEM_STUCK_COOLDOWN_SECONDS": "2",
}
"""Silences that are short, but longer than a pause; nobody is told to go on."""
SHARES_GATEWAY = True


def forgetful(request: ModelRequest) -> Reply:
    """Do what the packet in this very turn says, and nothing that is not in it."""
    turn = request.turn
    if "Please bake" in turn.words:
        register = Call("task_register", {"name": "Bread", "plan": PLAN})
        return "I shall go on later." if turn.results else [register]
    packets = packets_in(turn.text)
    if not packets or turn.results:
        return "That was all I knew."
    return [Call("task_update", next_report(packets[-1]))]


def next_report(packet: dict[str, Any]) -> dict[str, Any]:
    """The report on the step that a packet calls current."""
    current = packet["progress"]["current"]
    report = {"task_id": packet["task_id"]}
    if current is None:
        return {**report, "message": "All is done.", "status": "completed"}
    return {**report, "message": f"Step {current + 1} done - {packet['plan'][current]}"}


def test_forgetful_agent_finishes_its_task_from_packets_alone(house: House):
    house.model.decide = forgetful
    house.gateway.say("Please bake a loaf of bread.")
    [listed] = house.call("task_list")["tasks"]
    task_id = listed["task_id"]

    def steps() -> list[bool]:
        return [step["done"] for step in house.ask("show", id=task_id)["steps"]]

    # In the middle its whole history is thrown away.
    until(lambda: steps()[0], "the first step is done")

    def forget() -> None:
        with house.gateway.rpc() as rpc:
            rpc.call("sessions.reset", key=MAIN_SESSION)

    forget()
    until(lambda: house.ask("show", id=task_id)["status"] == "completed", "it is done")
    assert all(steps())
    task = house.ask("show", id=task_id)
    own = [m["content"] for m in task["messages"] if m["role"] == "agent"]
    said = [f"Step {n} done - {step}" for n, step in enumerate(PLAN, 1)]
    assert own == [*said, "All is done."]
    last = house.model.requests[-1].messages
    known = [without_packets(text_of(message)) for message in last]
    assert not any("Please bake" in text for text in known)
