"""Work is carried on, and believed once it is proved, in the real gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Event

import pytest

from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, Fault, ModelRequest, Reply, StreamedText, text_of
from tests.e2e.shared_house import ChatListener, Scripts, Story
from tests.support.databases import ON_BOTH

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600), ON_BOTH]

SETTINGS = {
    "TASKMEM_STUCK_THRESHOLD_SECONDS": "3600",
    "TASKMEM_IDLE_PAUSES": "1,240,900",
    "TASKMEM_PROVIDER_RETRIES": "2",
    "TASKMEM_PROVIDER_REST_SECONDS": "0.2",
}
SHARES_GATEWAY = True


def registers(request: ModelRequest, name: str, plan: list[str]) -> Reply | None:
    """Register a task in the turn in which the user asks for it."""
    if "Please" in request.turn.words and not request.turn.results:
        return [Call("task_register", {"name": name, "plan": plan})]
    return None


def test_open_task_goes_on_without_a_user_message(story: Story):
    numbers = count(1)

    def one_step_a_turn(request: ModelRequest) -> Reply:
        if first := registers(request, "Count", ["One", "Two", "Three"]):
            return first
        if "task_continue" not in request.turn.text:
            return "I have begun."
        if request.turn.results:
            return "More to come."
        step = next(numbers)
        report = {"task_id": story.task["task_id"], "completed_steps": [step]}
        return [Call("task_update", {**report, "status": "completed"} if step == 3 else report)]

    story.follow(one_step_a_turn)
    story.say("Please count to three.")
    ended = story.ends()
    assert all(step["done"] for step in ended["steps"])
    continued = [r for r in story.requests if r.opens_turn and "task_continue" in r.turn.text]
    assert len(continued) == 3
    assert story.run(state="completed")["rounds"] == 3


def test_write_claim_without_evidence_is_blocked(story: Story):
    told: list[str] = []
    numbers = count(1)

    def liar(request: ModelRequest) -> Reply:
        if first := registers(request, "Report", ["Write report.md"]):
            return first
        if len(request.turn.results) <= 2:
            number, task_id = next(numbers), story.task["task_id"]
            message = f"Saved report.md, try {number}."
            report = {"task_id": task_id, "status": "completed", "message": message}
            told.extend(request.turn.results[1:])
            return [Call("task_update", report)]
        return "I saved the report to report.md. All done!"

    story.follow(liar)
    story.say("Please write the report.")
    ended = story.ends()
    # It is asked once, and what else the call says is kept.
    assert "evidence_missing" in "".join(told)
    assert "Saved report.md, try 1." in [m["content"] for m in ended["messages"]]
    # After that the user reads what is not so.
    assert ended["made"] == []
    assert [each["what"] for each in ended["unverified"]] == ["report.md"]
    story.wait_for_notice("completed; nothing was written")
    story.wait_for_notice("not verified: report.md")
    assert not any("failed" in line for line in story.lines)


def test_write_and_verify_path_reaches_completed(story: Story, home: tuple[House, Scripts]):
    workspace = home[0].gateway.room.state / "workspace"

    def honest(request: ModelRequest) -> Reply:
        if first := registers(request, "Report", ["Write honest.md"]):
            return first
        match len(request.turn.results):
            case 1:
                return [Call("write", {"path": "honest.md", "content": "All is well."})]
            case 2:
                return [Call("read", {"path": "honest.md"})]
            case 3:
                report = {"task_id": story.task["task_id"], "status": "completed"}
                return [Call("task_update", {**report, "message": "Wrote honest.md."})]
            case _:
                return "I saved the report to honest.md."

    story.follow(honest)
    lines = ("Report: accepted", "Report: made: honest.md", "Report: completed")
    with ChatListener(story.house.gateway) as overheard:
        story.say("Please write the report.")
        ended = story.ends()
        for line in lines:
            story.wait_for_notice(line)
        shown = overheard.list_texts(story.session)
    assert any("I saved the report to honest.md." in line for line in shown)
    # Both who was there and who comes later is told, in one message each.
    for line in lines:
        assert len({each for each in shown if line in each}) == 1
        assert sum(line in each for each in story.lines) == 1
    assert (workspace / "honest.md").read_text() == "All is well."
    made = {each["path"]: (each["change"], each["verdict"]) for each in ended["made"]}
    assert made == {str(workspace / "honest.md"): ("created", "proved")}
    kinds = [e["data"]["name"] for e in events(story, "milestone")]
    assert kinds == ["accepted", "started", "tool_write_verified", "completed"]


PATCH = """*** Begin Patch
*** Update File: {folder}/src/app.py
@@
-print("hello")
+print("hello, world")
*** Add File: {folder}/tests/test_app.py
+import app
*** End Patch"""


def test_coding_outside_the_workspace_completes_without_refusal(story: Story, tmp_path: Path):
    folder, refused = tmp_path / "project", list[str]()
    folder.mkdir()
    (folder / "old.log").write_text("of last week")

    def coder(request: ModelRequest) -> Reply:
        if first := registers(request, "App", ["Set up src/app.py", "Test app.py"]):
            return first
        refused.extend(each for each in request.turn.results if '"error"' in each)
        inside = {"workdir": str(folder)}
        source = {"path": f"{folder}/src/app.py", "content": 'print("hello")\n'}
        calls = [
            Call("exec", {"command": "git init -q . && mkdir src", **inside}),
            Call("write", source),
            Call("apply_patch", {"input": PATCH.format(folder=folder)}),
            Call("exec", {"command": "python3 src/app.py > out.txt", **inside}),
            Call("exec", {"command": "rm old.log", **inside}),
            Call(
                "task_update",
                {
                    "task_id": story.task["task_id"],
                    "status": "completed",
                    "message": "src/app.py prints out.txt, see tests/test_app.py.",
                },
            ),
        ]
        done = len(request.turn.results) - 1
        return [calls[done]] if done < len(calls) else "The app is ready."

    story.follow(coder)
    story.say("Please write an app.")
    ended = story.ends()
    assert refused == []
    made = {each["path"]: (each["change"], each["verdict"]) for each in ended["made"]}
    assert made == {
        f"{folder}/old.log": ("removed", "proved"),
        f"{folder}/out.txt": ("created", "proved"),
        f"{folder}/src/app.py": ("created", "proved"),
        f"{folder}/tests/test_app.py": ("created", "proved"),
    }
    assert ended["unverified"] == []
    said = story.wait_for_notice("made: ").partition("made: ")[2]
    made_, _, removed = said.partition("; removed: ")
    names = [each.rpartition("project/")[2] for each in made_.split(", ")]
    assert names == ["out.txt", "src/app.py", "tests/test_app.py"]
    assert "project/old.log" in removed
    assert events(story, "completion_refused") == []


def test_a_lie_that_names_no_file_is_told_as_nothing_written(story: Story):
    def liar(request: ModelRequest) -> Reply:
        if first := registers(request, "App", ["Build the app", "Test it"]):
            return first
        if len(request.turn.results) == 1:
            said = "The app is built, tested and saved."
            report = {"task_id": story.task["task_id"], "status": "completed"}
            return [Call("task_update", {**report, "message": said})]
        return "All is saved, in notes/summary.md too."

    story.follow(liar)
    story.say("Please write an app.")
    ended = story.ends()
    assert ended["made"] == []
    story.wait_for_notice("completed; nothing was written")
    # What the answer after it names is looked up as well.
    story.wait_for_notice("not verified: notes/summary.md")


def test_a_lie_that_names_no_file_is_refused_where_a_reader_is(story: Story):
    refused: list[str] = []
    questions: list[str] = []

    def reader(request: ModelRequest) -> Reply:
        questions.append(text_of(request.messages[-1]))
        return json.dumps({"made": True, "decoy": False})

    def liar(request: ModelRequest) -> Reply:
        if first := registers(request, "App", ["Build the app", "Test it"]):
            return first
        refused.extend(each for each in request.turn.results if '"error"' in each)
        if len(request.turn.results) <= 2:
            said = "Die App ist gebaut und getestet."
            report = {"task_id": story.task["task_id"], "status": "completed"}
            return [Call("task_update", {**report, "message": said})]
        return "Alles fertig."

    story.scripts.reader = reader
    try:
        story.follow(liar)
        story.say("Please write an app.")
        ended = story.ends()
    finally:
        story.scripts.reader = None
    # It is asked once what would prove it; after that the user reads what is so.
    [question] = questions
    assert "Die App ist gebaut" in question
    assert "no tool was seen to write anything" in refused[0]
    assert len(events(story, "completion_refused")) == 1
    assert ended["made"] == []
    story.wait_for_notice("completed; nothing was written")


def test_exhausted_retries_give_a_failed_milestone(story: Story, home: tuple[House, Scripts]):
    failed: list[ModelRequest] = []

    def broken(request: ModelRequest) -> Reply:
        if first := registers(request, "Doomed", ["Try"]):
            return first
        if "task_continue" in request.turn.text:
            failed.append(request)
            return Fault(500)
        return "Begun." if request.turn.results[1:] else [exec_once]

    exec_once = Call("exec", {"command": "echo tried"})
    home[0].gateway.retry_once()
    story.follow(broken)
    with ChatListener(story.house.gateway) as overheard:
        story.say("Please try.")
        story.ends("failed")
        line = story.wait_for_notice("Doomed: failed.")
        shown = [each for each in overheard.list_texts(story.session) if "failed." in each]
    # The gateway asks twice, and we begin twice again: the third failure is the last.
    assert len(failed) == 2 * 3
    assert [event["data"]["failures"] for event in events(story, "provider_failed")] == [1, 2]
    assert "The model's provider failed 3 times" in line
    # Both who was there and who comes later read it, once.
    assert [each for each in story.lines if "Doomed: failed." in each] == [line]
    assert len({*shown}) == 1
    assert story.run(state="failed")["why"] == "provider_error"


@pytest.mark.parametrize("elsewhere", [False, True], ids=["alone", "task_elsewhere"])
def test_the_first_words_are_shown_before_the_last_are_sent(story: Story, *, elsewhere: bool):
    shown = Event()

    def pieces() -> Iterator[str]:
        yield "The first words, "
        assert shown.wait(180)
        yield "and the last."

    def is_shown(words: str) -> bool:
        return any(words in each for each in chats.list_texts(story.session))

    if elsewhere:
        other = {"session_key": f"{story.session}-other"}
        story.house.call("task_register", name="Cook", plan=["Cook it"], **other)
    story.follow(lambda _: StreamedText(pieces()))
    with ChatListener(story.house.gateway) as chats:
        story.chat(f"Is a task open elsewhere? {elsewhere}")
        try:
            until(lambda: is_shown("The first words"), "the first words are shown")
            assert not is_shown("the last.")
        finally:
            shown.set()
        until(lambda: is_shown("and the last."), "the last words are shown")


def events(story: Story, kind: str) -> list[dict]:
    """The entries of the log for the story's task, of one kind."""
    task_id = story.task["task_id"]
    found = story.house.ask("events", task_id=task_id, limit=1000)
    return [each for each in found if each["kind"] == kind]
