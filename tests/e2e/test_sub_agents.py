"""What OpenClaw's own sub-agents do counts for the session that spawned them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import Story, use
from tests.e2e.test_proof import events
from tests.e2e.test_resuming import Line, Lines, make_completion, make_update

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}
SHARES_GATEWAY = True

COOKED = "The soup is cooked."
"""What the sub-agent reports."""

ENDED_WAIT = re.compile(r"\[system\] smart_wait \w+ \(wait_\w+\): [^\n]*")

LONGEST_MS = 120_000
"""A command that takes longer goes to the background."""


class HeldCommand:
    """A command that lasts until the test lets it go: it reads from a pipe."""

    def __init__(self, pipe: Path) -> None:
        self._pipe = pipe
        os.mkfifo(pipe)

    def hold_before(self, command: str = "true") -> Call:
        """Be held, and run a command after that."""
        whole = f"cat {self._pipe}; {command}"
        return Call("exec", {"command": whole, "yieldMs": LONGEST_MS})

    @contextmanager
    def hold_open(self) -> Iterator[None]:
        """Hold it from when it has begun, and let it go in the end."""
        end = until(self._writer, "the command has begun")
        try:
            yield
        finally:
            os.close(end)

    def _writer(self) -> int | None:
        with suppress(OSError):  # nobody reads yet
            return os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        return None


def make_registration(**more: Any) -> Call:
    """Register the task."""
    return Call("task_register", {"name": "Soup", "plan": ["Cook it"], **more})


def make_spawn(task: str) -> Call:
    """Give a task to a sub-agent."""
    return use("sessions_spawn", task=task)


def calls(story: Story, *wanted: tuple[str, str]) -> None:
    """See that exactly these calls count for the task, as soon as they are known."""

    def list_known_calls() -> list[tuple[str, str]]:
        status = story.call("task_status", task_id=story.task["task_id"])
        told = reversed(status["tool_history"])
        return [(each["tool"], each["outcome"]) for each in told]

    until(
        lambda: len(list_known_calls()) >= len(wanted) and list_known_calls() == [*wanted],
        f"{wanted}",
    )


def read_holder(run: dict[str, Any]) -> dict[str, Any]:
    """Who holds a run, and for how long."""
    names = ("state", "session_key", "owner", "token", "lease_until")
    return {name: run[name] for name in names}


def wakes(story: Story) -> list[dict[str, Any]]:
    """All wakes of the task that were ever sent."""
    task_id = story.task["task_id"]
    rows = story.house.ask("wakes", all=True)
    return [row for row in rows if row["task_id"] == task_id and row["sent_at"]]


def read_resting_run(story: Story) -> dict[str, Any]:
    """Who holds the run once its turn has ended, and its agent was told nothing."""
    run = story.run(lease_until=None)
    assert (run["state"], wakes(story)) == ("running", [])
    return read_holder(run)


def cook_below(story: Story, tmp_path: Path, end: Line) -> None:
    """Let a sub-agent cook, and its parent's turn end before as is given."""
    first, second, soup = (
        HeldCommand(tmp_path / "1"),
        HeldCommand(tmp_path / "2"),
        tmp_path / "soup",
    )
    story.scripts.below = Lines(
        first.hold_before(),
        make_update(story, message="It simmers."),
        second.hold_before(f"echo soup > {soup}"),
        COOKED,
    )
    parent = Lines(
        make_registration(metadata={"artifacts": [str(soup)]}),
        make_spawn("Cook the soup."),
        end,
        make_completion(story),
        "It is served.",
    )
    story.follow(parent)
    story.say("Please cook a soup.")
    before = [("sessions_spawn", "ok")]
    if isinstance(end, Call):
        before.append((end.tool, "ok"))

    with first.hold_open():
        at_rest = read_resting_run(story)
        calls(story, *before, ("exec", "unknown"))
    with second.hold_open():
        calls(story, *before, ("exec", "ok"), ("exec", "unknown"))
        assert story.task["messages"][-1]["content"] == "It simmers."
        assert read_resting_run(story) == at_rest
        assert len(parent.heard) == 3

    story.ends()
    assert soup.read_text() == "soup\n"
    calls(story, *before, ("exec", "ok"), ("exec", "ok"))
    assert COOKED in parent.heard[3].turn.text
    story.run(state="completed")
    assert wakes(story) == []
    assert len(events(story, "evidence_checked")) == 1
    milestones = [each["data"]["name"] for each in events(story, "milestone")]
    assert milestones.count("completed") == 1


def test_task_rests_while_sub_agent_works_then_uses_its_report(story: Story, tmp_path: Path):
    cook_below(story, tmp_path, "It is being cooked.")


def test_a_turn_that_yields_to_its_sub_agent_rests_as_well(story: Story, tmp_path: Path):
    cook_below(story, tmp_path, Call("sessions_yield", {}))


def test_task_waits_for_the_second_of_two_sub_agents(story: Story, tmp_path: Path):
    soup, bread = HeldCommand(tmp_path / "soup"), HeldCommand(tmp_path / "bread")

    def below(request: ModelRequest) -> Reply:
        if request.turn.results:
            return "It is ready."
        held = soup if "Cook the soup." in request.turn.text else bread
        return [held.hold_before()]

    story.scripts.below = below
    parent = Lines(
        make_registration(),
        make_spawn("Cook the soup."),
        make_spawn("Bake the bread."),
        "Both are being made.",
        "The soup is ready.",
        make_completion(story),
        "It is served.",
    )
    story.follow(parent)
    story.say("Please make a meal.")
    both = (("sessions_spawn", "ok"),) * 2
    with bread.hold_open():
        with soup.hold_open():
            at_rest = read_resting_run(story)
        until(lambda: "The soup is ready." in story.lines, "the soup is reported")
        assert read_resting_run(story) == at_rest
        assert len(parent.heard) == 5
    story.ends()
    calls(story, *both, ("exec", "ok"), ("exec", "ok"))
    story.run(state="completed")
    assert wakes(story) == []


def make_wait(label: str, wake_when: str) -> Call:
    """Wait for a sub-agent that has a label."""
    given = {"target": f"session:{label}", "wake_when": wake_when, "timeout": 3600}
    return Call("smart_wait", given)


class WaitingParent:
    """Spawns a sub-agent, waits for its end, and keeps what it is told of that."""

    def __init__(self, label: str, task: str) -> None:
        spawn = use("sessions_spawn", task=task, label=label)
        self._lines = Lines(spawn, make_wait(label, "it ends"), "I wait.")
        self.told: list[str] = []
        """The lines with which it was woken, one for each turn that had any."""

    def __call__(self, request: ModelRequest) -> Reply:
        """The next line."""
        if request.opens_turn and (told := ENDED_WAIT.findall(request.turn.text)):
            self.told += told
            return "So I am told."
        return self._lines(request)


def wakes_of(story: Story) -> list[dict[str, Any]]:
    """All wakes of the session's waits."""
    rows = story.house.ask("wakes", all=True)
    return [row for row in rows if row["session_key"] == story.session and row["wait_id"]]


def test_a_parent_that_waits_is_woken_once_with_the_last_words(story: Story, tmp_path: Path):
    soup = HeldCommand(tmp_path / "soup")
    story.scripts.below = Lines(soup.hold_before(), COOKED)
    parent = WaitingParent("cook", "Cook the soup.")
    story.follow(parent)
    story.say("Please cook a soup.")
    with soup.hold_open():
        assert wakes_of(story) == []
    until(lambda: parent.told, "the parent is woken", shown=lambda: story.lines)
    [told] = parent.told
    assert "resolved" in told
    assert f'"cook" has ended. Its last words, which are data: "{COOKED}"' in told
    until(lambda: wakes_of(story)[0]["state"] == "acknowledged", "the wake has arrived")
    assert len(wakes_of(story)) == 1
