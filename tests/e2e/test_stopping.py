"""A gateway that is told to stop ends, whatever of ours goes on in it; the next start goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from tests.e2e.agent import reminders_in
from tests.e2e.house import House
from tests.e2e.interruptions import around_a_stop
from tests.e2e.phone import Phone
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import Story
from tests.e2e.test_cards import ASK, registers, update, wait_for_card

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600", "TASKMEM_IDLE_PAUSES": "1,240,900"}
SHARES_GATEWAY = True
LEAVES_IT_STOPPED = True


@around_a_stop
def test_next_start_is_news_for_a_session_with_an_open_task(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    def bakes(request: ModelRequest) -> Reply:
        if first := registers(request, "Knead"):
            return first
        return "All is well."

    def list_reminded_tasks(message: str) -> list[str]:
        """Which tasks a turn was reminded of."""
        before = len(story.requests)
        story.say(message)
        return [each["task_id"] for each in reminders_in(story.requests[before].turn.text)]

    story.follow(bakes)
    story.say("Please bake.")
    task_id = story.task["task_id"]
    # It is told to go on once; the next time is far off.
    story.run(rounds=1, lease_until=None)
    assert list_reminded_tasks("How is the weather?") == []
    yield
    yield
    assert list_reminded_tasks("Good morning.") == [task_id]
    assert list_reminded_tasks("Good day.") == []


@around_a_stop
def test_question_outlives_its_gateway_and_answer_resumes_task(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    def asks(request: ModelRequest) -> Reply:
        turn = request.turn
        if first := registers(request, "Delete the drafts"):
            return first
        if "task_answer" in turn.text:
            answers.append(turn.text)
            report = {"completed_steps": [1], "status": "completed"}
            return "Done." if turn.results else update(story, **report)
        if len(turn.results) == 1:
            return update(story, ask=ASK)
        return "I wait for your word."

    answers: list[str] = []
    story.follow(asks)
    story.say("Please tidy up.")
    first = story.wait_for_question(f"Tidy: {ASK}")
    wait_for_card(story, f"Waits for your answer: {ASK}", "pending")
    # Its button stands for the line, which is told nowhere besides.
    assert not [line for line in story.lines if line.startswith("[taskmem] Tidy: Shall")]

    yield
    yield
    again = story.wait_for_question(f"Tidy: {ASK}")
    assert again["id"] != first["id"]
    assert story.run(state="blocked")["why"] == "question"

    story.press(ASK, "Yes, but not the one of May.")
    story.ends()
    assert 'The user answered: "Yes, but not the one of May."' in answers[0]
    assert story.questions == []
    wait_for_card(story, "Done.", "completed")


@around_a_stop
def test_turn_cut_by_a_gateway_stop_goes_on_after_the_next_start(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    asked, go = Event(), Event()
    resumed: list[str] = []

    def works_on(request: ModelRequest) -> Reply:
        """Do a step in a turn of its own, which waits for the test; then do nothing."""
        results = len(request.turn.results)
        if "Please work" in request.turn.words:
            plan = {"name": "Work", "plan": ["One", "Two", "Three"]}
            return "I have begun." if results else [Call("task_register", plan)]
        if results or resumed:
            return "More to come."
        if go.is_set():
            resumed.append(request.turn.text)
        asked.set()
        assert go.wait(240)
        return update(story, completed_steps=[1])

    story.follow(works_on)
    story.say("Please work.")
    try:
        assert asked.wait(240)
        yield
        # Its model has not answered yet.
        assert len([each for each in story.requests if each.opens_turn]) == 2
        assert story.run()["state"] == "running"
    finally:
        go.set()
    yield
    until(lambda: resumed, "it has gone on")
    assert story.task["task_id"] in resumed[0]


@around_a_stop
def test_notice_due_during_gateway_stop_is_sent_once_after_start(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    # It begins last: what is due now is sent a moment later.
    phone = Phone(story.house.gateway, "48")
    mine = Story(story.house, story.scripts, phone.session)

    def brief(request: ModelRequest) -> Reply:
        if not request.turn.results:
            return [Call("task_register", {"name": "Nap", "plan": ["Sleep"]})]
        if len(request.turn.results) == 1:
            done = {"task_id": mine.task["task_id"], "status": "completed"}
            return [Call("task_update", done)]
        return "NO_REPLY"

    mine.follow(brief)
    until(lambda: phone.is_connected, "the channel is there")
    phone.write("Please nap.")
    yield
    yield
    phone.reads("Nap: completed")
    assert sum("Nap: completed" in each for each in phone.messages) == 1


def test_it_ends_while_the_daemon_leaves_a_call_unanswered(house: House, story: Story):
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
