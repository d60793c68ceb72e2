"""A user on a phone is told there what concerns them, once and in order."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from tests.e2e.agent import reminders_in
from tests.e2e.house import House
from tests.e2e.phone import Phone
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, Fault, ModelRequest, Reply
from tests.e2e.shared_house import Scripts, Story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {
    "TASKMEM_STUCK_THRESHOLD_SECONDS": "3600",
    "TASKMEM_QUESTION_SECONDS": "1",
    "TASKMEM_IDLE_PAUSES": "1,1,1",
    "TASKMEM_PROVIDER_RETRIES": "2",
    "TASKMEM_PROVIDER_REST_SECONDS": "0.2",
}
SHARES_GATEWAY = True
_NUMBERS = count(1)


@pytest.fixture
def phone(home: tuple[House, Scripts]) -> Phone:
    """A number of the test's own."""
    house, _ = home
    phone = Phone(house.gateway, f"49{next(_NUMBERS)}")
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
        if "Please count" in request.turn.words and not request.turn.results:
            plan = {"name": "Count", "plan": ["One", "Two", "Three"]}
            return [Call("task_register", plan)]
        if "task_continue" not in request.turn.text:
            return "I have begun."
        if request.turn.results:
            return long if over else "More to come."
        step = next(steps)
        report = {"task_id": story.task["task_id"], "completed_steps": [step]}
        over.extend([step] if step == 3 else [])
        return [Call("task_update", {**report, **({"status": "completed"} if over else {})})]

    over: list[int] = []
    # It is more than the channel takes at once.
    long = f"All is counted. {' '.join(map(str, range(1_000, 2_000)))}"
    story.follow(one_step_a_turn)
    phone.write("Please count to three.")
    story.ends()
    phone.reads(" 1999")
    assert " ".join(phone.messages[-2:]) == long
    lines = [line for message in phone.messages[:-2] for line in message.splitlines()]
    # On a slow machine the first turn takes longer than lines wait for others.
    assert {*lines[:2]} == {"I have begun.", "Count: accepted, 3 steps."}
    assert lines[2:] == ["Count: completed; nothing was written."]


def registers(request: ModelRequest, name: str) -> Reply | None:
    """Register a task of one step in the turn in which the person asks for it."""
    if "Please" in request.turn.words and not request.turn.results:
        return [Call("task_register", {"name": name, "plan": ["Do it"]})]
    return None


@pytest.mark.parametrize(
    ("no", "told"),
    [("No, do not delete them.", "task_question"), ("/resume no", "task_answer")],
    ids=["words", "command"],
)
def test_a_no_to_a_question_on_the_phone_is_no_leave_to_go_on(
    phone: Phone, story: Story, tmp_path: Path, no: str, told: str
):
    def asks(request: ModelRequest) -> Reply:
        if first := registers(request, "Tidy"):
            return first
        if told in request.turn.text:
            answers.append(request.turn.text)
            return "Then I leave them where they are."
        if "task_continue" not in request.turn.text:
            return "I have begun."
        if answers:
            return [Call("exec", {"command": f"rm {draft}"})]
        if request.turn.results:
            return "I wait for your word."
        ask = "Shall I delete the old drafts for good?"
        return [Call("task_update", {"task_id": story.task["task_id"], "ask": ask})]

    draft = tmp_path / "draft"
    draft.touch()

    answers: list[str] = []
    story.follow(asks)
    phone.write("Please tidy up.")
    story.run(state="blocked")
    phone.reads("I wait for your word.")
    assert {*phone.messages[:2]} == {"I have begun.", "Tidy: accepted, 1 step."}
    assert phone.messages[2:] == [
        "Tidy: Shall I delete the old drafts for good?",
        "I wait for your word.",
    ]
    # What is said next may or may not be the answer, so nobody takes it for consent.
    phone.write(no)
    phone.reads("Then I leave them where they are.")
    asked = 'had asked the user: "Shall I delete the old drafts for good?"'
    assert asked in answers[0]
    # Meanwhile another task has had all the reminders that there are.
    remind_until_failed(story)
    assert not any("task_continue" in text for text in texts_since(story, answers[0]))
    assert draft.exists()
    assert story.run()["state"] == "blocked"


def test_the_word_to_go_on_from_a_phone_brings_the_packet(phone: Phone, story: Story):
    def asks(request: ModelRequest) -> Reply:
        if first := registers(request, "Paint"):
            return first
        packets.extend(reminders_in(request.turn.text))
        if "Please" in request.turn.words and len(request.turn.results) == 1:
            task = {"task_id": story.task["task_id"]}
            return [Call("task_update", {**task, "ask": "Which colour?"})]
        return "So be it."

    packets: list[dict[str, object]] = []
    story.follow(asks)
    phone.write("Please paint the door.")
    story.run(state="blocked")
    packets.clear()
    phone.write("继续！🙏")
    assert [each["task_id"] for each in packets] == [story.task["task_id"]]


def remind_until_failed(story: Story) -> None:
    """Let a task on another phone be reminded until it has failed."""
    house = story.house
    other = Phone(house.gateway, f"49{next(_NUMBERS)}")
    idle = Story(house, story.scripts, other.session)
    idle.follow(lambda request: registers(request, "Idle") or "Hm.")
    other.write("Please idle.")
    idle.ends("failed")


def texts_since(story: Story, text: str) -> list[str]:
    """What a session's model was asked in turns that began after one with a text."""
    texts = [request.turn.text for request in story.requests]
    return texts[texts.index(text) :]


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


def test_a_story_over_a_phone_runs_to_its_end_without_its_user(
    phone: Phone, story: Story, home: tuple[House, Scripts]
):
    """The agent asks for leave three times, and its provider fails twice."""
    house, _ = home
    house.gateway.retry_once()
    replies: list[Reply] = [
        [Call("task_register", {"name": "Report", "plan": ["Look", "Write it"]})],
        [Call("exec", {"command": "echo sunny"})],
        "I have begun. Shall I continue?",
        [Call("exec", {"command": "echo 21 degrees"})],
        "It is sunny, 21 degrees. Shall I continue?",
        Fault(500),  # the gateway asks again
        [Call("write", {"path": "weather.md", "content": "Sunny, 21 degrees."})],
        "It is written. Shall I continue?",
        *[Fault(500), Fault(500)],  # it gives up, and we begin again
        [Call("read", {"path": "weather.md"})],
        [Call("task_update", {"status": "completed"})],
        "The report is in weather.md: sunny, 21 degrees.",
    ]

    def reporter(_: ModelRequest) -> Reply:
        match reply := replies.pop(0):
            case [Call("task_update", report)]:
                task_id = story.task["task_id"]
                return [Call("task_update", {**report, "task_id": task_id})]
            case _:
                return reply

    story.follow(reporter)
    phone.write("Please write a report of the weather to weather.md.")
    ended = story.ends()
    phone.reads("The report is in weather.md")
    assert replies == []
    log = house.ask("events", task_id=ended["task_id"], limit=1000)
    assert sum(event["kind"] == "provider_failed" for event in log) == 1
    written = house.gateway.room.state / "workspace" / "weather.md"
    assert written.read_text() == "Sunny, 21 degrees."
    lines = [line for message in phone.messages for line in message.splitlines()]
    # On a slow machine the first turn takes longer than lines wait for others.
    begun = {"I have begun. Shall I continue?", "Report: accepted and started, 2 steps."}
    assert {*lines[:2]} == begun
    assert lines[2:] == [
        "Report: made: weather.md",
        "Report: completed.",
        "The report is in weather.md: sunny, 21 degrees.",
    ]


@pytest.mark.parametrize("how", ["off", "hang"])
def test_what_the_phone_cannot_take_comes_later_once(phone: Phone, story: Story, how: str):
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


def asks_at_once(request: ModelRequest, name: str, story: Story) -> Reply:
    """Register a task, and leave it to the person."""
    if first := registers(request, name):
        return first
    if "Please" in request.turn.words and len(request.turn.results) == 1:
        return [Call("task_update", {"task_id": story.task["task_id"], "ask": "Now?"})]
    return "I wait."


def test_lines_go_to_the_thread_in_which_the_person_wrote_last(phone: Phone, story: Story):
    story.follow(lambda request: asks_at_once(request, "Knit", story))
    phone.write("Please knit.", thread="7")
    phone.reads("Knit: Now?")
    phone.write("Hm.", thread="8")
    story.call("task_update", task_id=story.task["task_id"], status="completed")
    phone.reads("Knit: completed")
    told = [(o["thread"], o["text"]) for o in phone.received_messages if o["how"] == "send"]
    assert told == [
        ("7", "Knit: accepted, 1 step."),
        ("7", "Knit: Now?"),
        ("8", "Knit: completed; nothing was written."),
    ]


def test_after_a_reset_the_person_is_still_told_on_the_phone(phone: Phone, story: Story):
    story.follow(lambda request: asks_at_once(request, "Rest", story))
    phone.write("Please rest.")
    phone.reads("Rest: Now?")
    with phone.gateway.rpc() as rpc:
        rpc.call("sessions.reset", key=phone.session)
    story.call("task_update", task_id=story.task["task_id"], status="completed")
    phone.reads("Rest: completed")


def test_where_the_channel_was_removed_the_web_chat_shows_it(
    phone: Phone, story: Story, home: tuple[House, Scripts]
):
    house, _ = home
    story.follow(lambda request: asks_at_once(request, "Lock", story))
    phone.write("Please lock.")
    phone.reads("Lock: Now?")
    before = house.gateway.room.config.read_text()
    house.gateway.reconfigure(lambda found: found.pop("channels"))
    until(lambda: not phone.is_connected, "the channel is gone")
    story.call("task_update", task_id=story.task["task_id"], status="completed")
    try:
        story.wait_for_notice("Lock: completed")
    finally:
        house.gateway.room.config.write_text(before)
        until(lambda: phone.is_connected, "the channel is back")
    assert not any("Lock: completed" in message for message in phone.messages)
