"""A gateway that is told to stop ends, whatever of ours goes on in it."""

from __future__ import annotations

import os
import signal
from itertools import count
from threading import Event

import pytest

from tests.e2e.house import House
from tests.e2e.phone import Phone
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import Scripts, Story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600", "TASKMEM_IDLE_PAUSES": "1,1,1"}
SHARES_GATEWAY = True


def test_turn_cut_by_a_gateway_stop_goes_on_after_the_next_start(house: House, story: Story):
    steps, asked, go = count(1), Event(), Event()

    def works_on(request: ModelRequest) -> Reply:
        """Do a step in each turn; in the second wait for the test."""
        results = len(request.turn.results)
        if "Please work" in request.turn.words:
            plan = {"name": "Work", "plan": [f"Step {n}" for n in range(1, 100)]}
            return "I have begun." if results else [Call("task_register", plan)]
        if results:
            return "More to come."
        asked.set()
        assert go.wait(60)
        step = {"task_id": story.task["task_id"], "completed_steps": [next(steps)]}
        return [Call("task_update", step)]

    story.follow(works_on)
    story.say("Please work.")
    try:
        assert asked.wait(120)
        house.gateway.tell_to_stop()
        # Its model has not answered yet.
        assert house.gateway.ends() == 0
        assert len([each for each in story.requests if each.opens_turn]) == 2
        assert story.run()["state"] == "running"
        asked.clear()
    finally:
        go.set()
    house.gateway.start()
    assert asked.wait(120)
    assert story.task["task_id"] in story.requests[-1].turn.text
    # It is not to ask a daemon that another test holds still.
    story.follow(lambda _: "NO_REPLY")


def test_it_ends_while_our_daemon_is_started(house: House):
    house.taskmem.stop()

    def is_starting() -> bool:
        return any("--detach" in each for each in house.gateway.room.processes().values())

    until(is_starting, "the plug-in starts a daemon")
    house.gateway.tell_to_stop()
    assert house.gateway.ends() == 0


def test_it_ends_while_the_daemon_leaves_a_call_unanswered(house: House, story: Story):
    house.taskmem.run("daemon", "--detach")
    until(lambda: house.ask("status")["gateways"], "the plug-in has come")
    answered: list[str] = []

    def asks(request: ModelRequest) -> Reply:
        if not request.turn.results:
            os.kill(pid, signal.SIGSTOP)
            return [Call("task_update", {"task_id": "task_x", "query": "?"})]
        answered.extend(request.turn.results)
        return "It does not answer."

    pid = house.ask("status")["pid"]
    story.follow(asks)
    story.chat("What is there to do?")
    try:
        until(lambda: story.requests, "the model was asked")
        house.gateway.tell_to_stop()
        assert house.gateway.ends() == 0
    finally:
        os.kill(pid, signal.SIGCONT)
    [said] = answered
    assert "did not answer" in said


def test_notice_due_during_gateway_stop_is_sent_once_after_start(
    house: House, home: tuple[House, Scripts]
):
    _, scripts = home
    phone = Phone(house.gateway, "48")
    story = Story(house, scripts, phone.session)

    def brief(request: ModelRequest) -> Reply:
        if not request.turn.results:
            return [Call("task_register", {"name": "Nap", "plan": ["Sleep"]})]
        if len(request.turn.results) == 1:
            done = {"task_id": story.task["task_id"], "status": "completed"}
            return [Call("task_update", done)]
        return "NO_REPLY"

    story.follow(brief)
    until(lambda: phone.is_connected, "the channel is there")
    phone.write("Please nap.")
    house.gateway.tell_to_stop()
    assert house.gateway.ends() == 0
    house.gateway.start()
    phone.reads("Nap: completed")
    assert sum("Nap: completed" in each for each in phone.messages) == 1
