"""What a user of the Control UI sees besides the chat: a card, and buttons."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import Story, use

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}
SHARES_GATEWAY = True
ASK = "Shall I delete the old drafts for good?"


def card(story: Story) -> dict[str, Any] | None:
    """The card that the session's user sees."""
    with story.house.gateway.rpc() as rpc:
        found: dict[str, Any] = rpc.call("progressCard.get", sessionKey=story.session)
    return found["card"]


def wait_for_card(story: Story, note: str, *states: str) -> None:
    """Wait until the card says this of its task, and of each of the steps."""

    def is_card_shown() -> bool:
        found = card(story) or {"markdown": ""}
        steps = tuple(step["status"] for step in found.get("steps", ()))
        return found["markdown"].endswith(note) and steps == states

    until(is_card_shown, f"the card says {note!r}: {states}")


def options_of(asked: dict[str, Any]) -> list[str]:
    """The buttons of a question."""
    return [each["label"] for each in asked["questions"][0]["options"]]


def update(story: Story, **report: Any) -> Reply:
    """Report on the session's task."""
    return [Call("task_update", {"task_id": story.task["task_id"], **report})]


def registers(request: ModelRequest, *plan: str) -> Reply | None:
    """Register a task in the turn in which the user asks for it."""
    if "Please" in request.turn.words and not request.turn.results:
        return [Call("task_register", {"name": "Tidy", "plan": [*plan]})]
    return None


def test_a_card_shows_the_steps_what_is_awaited_and_the_end(story: Story):
    def waits(request: ModelRequest) -> Reply:
        turn = request.turn
        if first := registers(request, "Sort", "Sweep"):
            return first
        if "smart_wait resolved" in turn.text and not turn.results:
            return update(story, completed_steps=[2], status="completed")
        if len(turn.results) == 1 and "Please" in turn.words:
            return update(story, completed_steps=[1])
        return "So be it."

    story.follow(waits)
    story.say("Please tidy up.")
    task_id = story.task["task_id"]
    wait_for_card(story, "**Tidy**", "completed", "in_progress")

    wait = {"target": f"pty:file:{story.house.folder / 'watched.log'}"}
    story.call("smart_wait", task_id=task_id, wake_when='"swept" appears', **wait)
    wait_for_card(story, 'until ""swept" appears".', "completed", "in_progress")

    story.house.end("swept")
    story.ends()
    wait_for_card(story, "Done.", "completed", "completed")


def test_options_and_a_review_are_answered_by_buttons(story: Story):
    def asks(request: ModelRequest) -> Reply:
        turn = request.turn
        if first := registers(request, "Paint the door"):
            return first
        if "task_answer" in turn.text and len(turn.results) < 2:
            if not turn.results:
                answers.append(turn.text)
            if len(answers) == 2:
                return "Done." if turn.results else update(story, status="completed")
            if not turn.results:
                return update(story, status="active", completed_steps=[1])
            return [use("task_handoff", task_id=story.task["task_id"], **review)]
        if len(turn.results) == 1 and "Please" in turn.words:
            return update(story, ask=colour, ask_options=["Red", "Blue"])
        return "So be it."

    answers: list[str] = []
    review = {"to": "user", "note": "Is the red right?"}
    colour = "Which colour?"
    story.follow(asks)
    story.say("Please paint the door.")
    assert options_of(story.wait_for_question(colour)) == ["Red", "Blue"]
    story.press(colour, "Red")

    assert options_of(story.wait_for_question("Is the red right?")) == ["Accept", "Send back"]
    story.press("Is the red right?", "Accept")
    story.ends()
    told = [text.partition("The user answered: ")[2].split()[0] for text in answers]
    assert told == ['"Red"', '"Accept"']
    assert story.questions == []


def test_a_task_whose_turn_was_stopped_goes_on_by_a_button(story: Story):
    def works(request: ModelRequest) -> Reply:
        turn = request.turn
        if first := registers(request, "Sweep"):
            return first
        if "Please" in turn.words and len(turn.results) == 1:
            reached.set()
            stopped.wait(240)
        return "Done." if turn.results else update(story, status="completed")

    reached, stopped = Event(), Event()
    story.follow(works)
    story.chat("Please sweep.")
    assert reached.wait(240)
    with story.house.gateway.rpc() as rpc:
        rpc.call("chat.abort", sessionKey=story.session)
    asked = story.wait_for_question("Tidy: stopped. /resume lets it go on.")
    stopped.set()
    assert options_of(asked) == ["Resume", "Leave it"]
    story.press("Tidy: stopped", "Resume")
    story.ends()


def test_doctor_says_that_users_see_cards_and_buttons(story: Story):
    said = story.house.taskmem.try_run("doctor", "-v").stdout
    assert "Users see progress cards, and buttons for questions." in said
