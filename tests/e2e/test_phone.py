"""A user on a phone is told there what concerns them, once and in order."""

from __future__ import annotations

from itertools import count
from threading import Thread

import pytest

from tests.e2e import phone as channel
from tests.e2e.house import House
from tests.e2e.phone import Phone
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, Fault, ModelRequest, Reply
from tests.e2e.shared_house import Scripts, Story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {
    "TASKMEM_STUCK_THRESHOLD_SECONDS": "3600",
    "TASKMEM_PROVIDER_RETRIES": "0",
}
configure = channel.connect
_NUMBERS = count(1)


@pytest.fixture
def phone(home: tuple[House, Scripts]) -> Phone:
    """A number of the test's own."""
    house, _ = home
    phone = Phone(house.gateway, house.folder, f"49{next(_NUMBERS)}")
    phone.fails("")
    return phone


@pytest.fixture
def story(home: tuple[House, Scripts], phone: Phone) -> Story:
    """The session of that number."""
    house, scripts = home
    return Story(house, scripts, phone.session)


def test_the_phone_reads_milestones_and_the_last_words(phone: Phone, story: Story):
    steps = count(1)

    def one_step_a_turn(request: ModelRequest) -> Reply:
        if "Please count" in request.turn.text and not request.turn.results:
            plan = {"name": "Count", "plan": ["One", "Two", "Three"]}
            return [Call("task_register", plan)]
        if "task_continue" not in request.turn.text:
            return "I have begun."
        if request.turn.results:
            return f"All is counted.\n\n{'1 2 3 ' * 300}" if over else "More to come."
        step = next(steps)
        report = {"task_id": story.task["task_id"], "completed_steps": [step]}
        over.extend([step] if step == 3 else [])
        return [
            Call("task_update", {**report, **({"status": "completed"} if over else {})})
        ]

    over: list[int] = []
    story.follow(one_step_a_turn)
    phone.write("Please count to three.")
    story.ends()
    words = phone.reads("All is counted.")
    assert words.endswith("1 2 3")
    assert phone.messages[-1] == words
    lines = [line for message in phone.messages[:-1] for line in message.splitlines()]
    assert lines == [
        "I have begun.",
        "Count: accepted, 3 steps.",
        "Count: completed; nothing was written.",
    ]


def registers(request: ModelRequest, name: str) -> Reply | None:
    """Register a task of one step in the turn in which the person asks for it."""
    if "Please" in request.turn.text and not request.turn.results:
        return [Call("task_register", {"name": name, "plan": ["Do it"]})]
    return None


def test_a_question_of_a_round_of_ours_is_asked_on_the_phone(
    phone: Phone, story: Story
):
    def asks(request: ModelRequest) -> Reply:
        if first := registers(request, "Tidy"):
            return first
        if "task_question" in request.turn.text:
            answers.append(request.turn.text)
            return "Then I leave them where they are."
        if "task_continue" not in request.turn.text:
            return "I have begun."
        if request.turn.results:
            return "I wait for your word."
        ask = "Shall I delete the old drafts for good?"
        return [Call("task_update", {"task_id": story.task["task_id"], "ask": ask})]

    answers: list[str] = []
    story.follow(asks)
    phone.write("Please tidy up.")
    story.run(state="blocked")
    phone.reads("I wait for your word.")
    assert phone.messages == [
        "I have begun.",
        "Tidy: accepted, 1 step.",
        "Tidy: Shall I delete the old drafts for good?",
        "I wait for your word.",
    ]
    # What is said next may or may not be the answer, so nobody takes it for consent.
    phone.write("No, do not delete them.")
    phone.reads("Then I leave them where they are.")
    [answer] = answers
    assert 'had asked the user: "Shall I delete the old drafts for good?"' in answer
    assert story.run(state="blocked")["why"] == "question"


def test_a_failure_is_told_on_the_phone(phone: Phone, story: Story):
    def fails(request: ModelRequest) -> Reply:
        if first := registers(request, "Bake"):
            return first
        if "task_continue" in request.turn.text:
            return Fault(400)
        return "I have begun."

    story.follow(fails)
    phone.write("Please bake.")
    story.ends("failed")
    line = phone.reads("Bake: failed.")
    assert "The model's provider failed" in line
    assert "/resume tries again" in line


@pytest.mark.parametrize("how", ["off", "hang"])
def test_what_the_phone_cannot_take_comes_later_once(
    phone: Phone, story: Story, how: str
):
    def brief(request: ModelRequest) -> Reply:
        if first := registers(request, "Nap"):
            return first
        if len(request.turn.results) == 1:
            report = {"task_id": story.task["task_id"], "status": "completed"}
            return [Call("task_update", {**report, "message": "Slept."})]
        return "NO_REPLY"

    story.follow(brief)
    phone.fails(how)
    # While its channel hangs, the gateway keeps the person's own turn waiting, too.
    writing = Thread(target=phone.write, args=("Please nap.",))
    writing.start()
    try:
        story.ends()
        until(lambda: phone.tries, "the channel has failed")
    finally:
        phone.fails("")
        writing.join()
    phone.reads("Nap: completed")
    assert sum("Nap: completed" in message for message in phone.messages) == 1
