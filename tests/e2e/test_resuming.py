"""A turn is resumed by the user's word in the real gateway, and steps keep to their budgets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.e2e.agent import REMINDER, reminders_in
from tests.e2e.interruptions import HELD
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, text_of
from tests.e2e.shared_house import Story, use

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}
SHARES_GATEWAY = True


def shell(command: str) -> Call:
    """Call a command, which stays in its turn however long it takes."""
    return Call("exec", {"command": command, **HELD})


Line = Reply | Callable[[ModelRequest], Reply]


SKIPPED = "Skipped to process an incoming message"
"""What OpenClaw answers for a call that it did not make, as a message came meanwhile."""


def was_skipped(request: ModelRequest) -> bool:
    """Whether a call of the last reply was not made."""
    for message in reversed(request.messages):
        if message["role"] == "assistant":
            return False
        if message["role"] == "tool" and SKIPPED in text_of(message):
            return True
    return False


class Lines:
    """A script that says its lines in order, whoever asks; a call that was not made once more."""

    def __init__(self, *lines: Line) -> None:
        self.left = list(lines)
        self.heard: list[ModelRequest] = []
        self._reply: Reply = "NO_REPLY"

    def __call__(self, request: ModelRequest) -> Reply:
        """The next line."""
        self.heard.append(request)
        if was_skipped(request):
            return self._reply
        if not self.left:
            return "NO_REPLY"
        line = self.left.pop(0)
        made = line(request) if callable(line) else line
        self._reply = [made] if isinstance(made, Call) else made
        return self._reply

    @property
    def answers(self) -> list[str]:
        """What the tools answered, the last of each request."""
        return [each.turn.results[-1] for each in self.heard if each.turn.results]


CUT = "inserted synthetic error result"
"""What OpenClaw puts in the place of a result that a crash has cut off."""


class Cutter:
    """Makes files by one command each, and holds one of them up until it is let go.

    It knows the packet in its turn and what was done since, and nothing else.
    """

    def __init__(self, folder: Path, files: int, holds: set[int]) -> None:
        self.folder, self.files, self.holds = folder, files, holds
        self.held = Event()
        self.packets: list[dict[str, Any]] = []

    def __call__(self, request: ModelRequest) -> Reply:
        """The next file, or the end."""
        done, first = self.read_progress(request)
        if first:
            plan = ["Make the files"]
            return [Call("task_register", {"name": "Files", "plan": plan})]
        if done < self.files:
            return [shell(self.make(done + 1))]
        if done == self.files and self.packets:
            report = {"task_id": self.packets[-1]["task_id"], "status": "completed"}
            return [Call("task_update", report)]
        return "All files are there."

    def read_progress(self, request: ModelRequest) -> tuple[int, bool]:
        """How many files it knows to be made, and whether it has yet to begin."""
        since, base, seen = 0, -1, False
        for message in request.messages:
            text = text_of(message)
            if message["role"] == "user" and REMINDER in text:
                self.packets += reminders_in(text)
                made = " ".join(self.packets[-1].get("do_not_redo", ()))
                base = sum(f"file{n}." in made for n in range(1, self.files + 1))
                since, seen = 0, True
            since += message["role"] == "tool" and CUT not in text and SKIPPED not in text
        return base + since, base + since == -1 and not seen

    def make(self, number: int) -> str:
        """The command that makes a file."""
        made = f"echo made >> {self.folder}/file{number}.txt"
        if number not in self.holds:
            return made
        self.holds.discard(number)
        self.held.set()
        go = self.folder / "go"
        return f"until [ -e {go} ]; do sleep 0.1; done # file{number}"

    def let_go(self) -> None:
        """End what a gateway that was killed has left running."""
        (self.folder / "go").touch()

    @property
    def file_texts(self) -> list[str]:
        """What the files hold, in order."""
        return [(self.folder / f"file{n}.txt").read_text() for n in range(1, self.files + 1)]


def start(story: Story, message: str = "Please make the files.") -> None:
    """Say something, and do not wait for the end."""
    with story.house.gateway.rpc() as rpc:
        key = f"{story.session}:{message}"
        rpc.call("agent", sessionKey=story.session, message=message, idempotencyKey=key)


def begin_call(story: Story, cutter: Cutter, *, calls: int, checkpoints: int) -> None:
    """Be within a call, when so much of the story was seen."""
    story.follow(cutter)
    start(story)
    assert cutter.held.wait(240)
    story.run(calls=calls, checkpoints=checkpoints)


def make_update(story: Story, **args: Any) -> Line:
    """Update the session's task."""
    return lambda _: [Call("task_update", {"task_id": story.task["task_id"], **args})]


def make_completion(story: Story) -> Line:
    """Complete the session's task."""
    return make_update(story, status="completed")


# --- resumed by the user's word -----------------------------------------------


def test_continue_resumes_with_its_packet_and_completes(story: Story, tmp_path: Path):
    log = tmp_path / "log"

    def goes_on(request: ModelRequest) -> Reply:
        [packet] = reminders_in(request.turn.text)
        assert any("three" in call for call in packet["do_not_redo"])
        return [shell(f"echo four >> {tmp_path / 'log'}")]

    calls = [shell(f"echo {word} >> {tmp_path / 'log'}") for word in ("one", "two", "three")]
    story.follow(
        Lines(
            Call("task_register", {"name": "Log", "plan": ["Log six words"]}),
            *calls,
            "I have used my tools for now. Shall I continue?",
            goes_on,
            shell(f"echo five >> {tmp_path / 'log'}"),
            shell(f"echo six >> {tmp_path / 'log'}"),
            lambda _: [
                Call("task_update", {"task_id": story.task["task_id"], "status": "completed"})
            ],
            "Done.",
        )
    )
    story.say("Please log six words.")
    story.say("continue")
    story.ends()
    said = log.read_text().split()
    assert said == ["one", "two", "three", "four", "five", "six"]


def test_task_status_tells_step_history_and_elapsed_time(story: Story):
    told: list[str] = []
    story.follow(
        Lines(
            Call("task_register", {"name": "Look", "plan": ["First", "Second"]}),
            shell("echo looked"),
            shell("exit 3"),
            lambda _: [
                Call("task_update", {"task_id": story.task["task_id"], "completed_steps": [1]})
            ],
            use("task_status"),
            lambda r: told.append(r.turn.results[-1]) or "Enough?",
        )
    )
    story.say("Please look.")
    status = story.call("task_status", task_id=story.task["task_id"])
    assert status["step"] == 2
    assert [step["state"] for step in status["steps"]] == ["done", "running"]
    assert [(c["tool"], c["about"], c["outcome"]) for c in status["tool_history"]] == [
        ("exec", "exit 3", "failed"),
        ("exec", "echo looked", "ok"),
    ]
    assert status["tool_calls"] == 2
    assert status["elapsed_seconds"] > 0
    assert '"step":2' in told[0].replace("\\", "").replace(" ", "")


# --- every turn of several tools, also without task_register ------------------


class UnregisteredCutter(Cutter):
    """Makes its files without a word about a task."""

    def __call__(self, request: ModelRequest) -> Reply:
        """The next file, or the end."""
        done, _ = self.read_progress(request)
        done += not self.packets
        if done < self.files:
            return [shell(self.make(done + 1))]
        return "All files are there."


def list_implicit_tasks(story: Story) -> list[dict[str, Any]]:
    """The implicit tasks of the session, the latest first."""
    rows = story.house.call("task_list", status="implicit", limit=100)["tasks"]
    shown = (story.house.ask("show", id=row["task_id"]) for row in rows)
    return [each for each in shown if each["session_key"] == story.session]


def is_unseen(story: Story) -> bool:
    """Whether neither its user nor any list knows of a task of the session."""
    house = story.house
    rows = house.call("task_list", status="all", limit=100)["tasks"]
    shown = [house.ask("show", id=row["task_id"])["session_key"] for row in rows]
    said = [line for line in story.lines if line.startswith("[taskmem]")]
    runs = [each["session_key"] for each in house.ask("runs", all=True)]
    return story.session not in (*shown, *runs) and said == []


def test_a_turn_of_several_tools_ends_in_silence(story: Story, tmp_path: Path):
    story.follow(UnregisteredCutter(tmp_path, 2, set()))
    story.say("Please make two files.")
    assert list_implicit_tasks(story) == []
    story.follow(UnregisteredCutter(tmp_path, 6, set()))
    story.say("Please make four more.")
    [task] = until(
        lambda: [t for t in list_implicit_tasks(story) if t["status"] == "completed"], "it is over"
    )
    assert task["original_request"] == "Please make four more."
    assert [made["wakes"] for made in (task,)] == [[]]
    assert len(story.requests) == 3 + 5
    assert is_unseen(story)


def test_a_task_registered_late_has_the_calls_before(story: Story, tmp_path: Path):
    calls = [shell(f"echo {word} >> {tmp_path / 'log'}") for word in ("one", "two")]
    story.follow(
        Lines(
            *calls,
            shell("true"),
            Call("task_register", {"name": "Log", "plan": ["Log three words"]}),
            shell(f"echo three >> {tmp_path / 'log'}"),
            make_completion(story),
            "Done.",
        )
    )
    story.say("Please log three words.")
    task = story.ends()
    assert (task["name"], task["implicit"]) == ("Log", False)
    assert task["original_request"] == "Please log three words."
    assert list_implicit_tasks(story) == []
    status = story.call("task_status", task_id=task["task_id"])
    assert status["tool_calls"] == 4


# --- steps with budgets -------------------------------------------------------


def make_step_end(story: Story, **args: Any) -> Line:
    """End the current step."""
    return lambda _: [use("task_step_done", task_id=story.task["task_id"], **args)]


def make_registration(steps: int, **more: Any) -> Call:
    """Register a segmented task."""
    plan = [f"Part {n}" for n in range(1, steps + 1)]
    return Call("task_register", {"name": "Parts", "plan": plan, "segmented": True, **more})


def test_four_steps_of_three_tools_stay_within_budget(story: Story, tmp_path: Path):
    parts: list[Line] = []
    for part in range(4):
        parts += [shell(f"echo {part}{n} >> {tmp_path / 'log'}") for n in range(3)]
        parts.append(make_step_end(story))
    script = Lines(make_registration(4), *parts, make_completion(story), "Done.")
    story.follow(script)
    story.say("Please do the parts.")
    ended = story.ends()
    assert all(step["done"] for step in ended["steps"])
    assert len((tmp_path / "log").read_text().split()) == 12
    assert not any("has used its" in answer for answer in script.answers)
    assert story.run(state="completed")["rounds"] == 0


def test_step_beyond_its_budget_is_stopped_with_advice(story: Story, tmp_path: Path):
    log = tmp_path / "log"
    script = Lines(
        make_registration(1),
        *[shell(f"echo {n} >> {log}") for n in range(4)],
        make_step_end(story, outcome="more_tools"),
        *[shell(f"echo {n} >> {log}") for n in range(4, 7)],
        make_step_end(story),
        make_completion(story),
        "Done.",
    )
    story.follow(script)
    story.say("Please do the part.")
    story.ends()
    # The fourth call, and the third of the bonus, were not made.
    assert log.read_text().split() == ["0", "1", "2", "4", "5"], script.answers
    stopped = [answer for answer in script.answers if "has used its" in answer]
    assert "3 tool calls" in stopped[0]
    assert "more_tools" in stopped[0]
    assert "5 tool calls" in stopped[-1]
    assert "more_tools" not in stopped[-1]


def test_failed_step_replans_the_rest_and_task_completes(story: Story):
    script = Lines(
        make_registration(3),
        shell("true"),
        make_step_end(story),
        shell("exit 1"),
        make_step_end(
            story, outcome="failed", note="The command fails.", remaining=["Another way", "Part 3"]
        ),
        shell("true"),
        make_step_end(story),
        make_step_end(story),
        make_completion(story),
        "Done.",
    )
    story.follow(script)
    story.say("Please do the parts.")
    ended = story.ends()
    assert ended["plan"] == ["Part 1", "Another way", "Part 3"]
    assert all(step["done"] for step in ended["steps"])
    [revision] = ended["revisions"]
    assert "The command fails." in revision["reason"]


def test_a_simple_task_stays_flat(story: Story, tmp_path: Path):
    script = Lines(
        Call("task_register", {"name": "Simple", "plan": ["Do it"]}),
        *[shell(f"echo {n} >> {tmp_path / 'log'}") for n in range(6)],
        make_completion(story),
        "Done.",
    )
    story.follow(script)
    story.say("Please do it.")
    story.ends()
    assert len((tmp_path / "log").read_text().split()) == 6
