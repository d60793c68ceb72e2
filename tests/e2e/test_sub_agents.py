"""What OpenClaw's own sub-agents do counts for the session that spawned them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.agent import reminders_in
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, text_of
from tests.e2e.shared_house import Story, use
from tests.e2e.test_seed_003 import Line, Lines, completed, updated
from tests.e2e.test_seed_004 import events

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}

COOKED = "The soup is cooked."
"""What the sub-agent reports."""

LONGEST_MS = 120_000
"""A command that takes longer goes to the background."""

CHILD = re.compile(r"agent:main:subagent:[\w-]+")


class Held:
    """A command that lasts until the test lets it go: it reads from a pipe."""

    def __init__(self, pipe: Path) -> None:
        self._pipe = pipe
        os.mkfifo(pipe)

    def then(self, command: str = "true") -> Call:
        """Be held, and run a command after that."""
        whole = f"cat {self._pipe}; {command}"
        return Call("exec", {"command": whole, "yieldMs": LONGEST_MS})

    @contextmanager
    def up(self) -> Iterator[None]:
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


def registered(**more: Any) -> Call:
    """Register the task."""
    return Call("task_register", {"name": "Soup", "plan": ["Cook it"], **more})


def spawned(task: str) -> Call:
    """Give a task to a sub-agent."""
    return use("sessions_spawn", task=task)


def calls(story: Story, *wanted: tuple[str, str]) -> None:
    """See that exactly these calls count for the task, as soon as they are known."""

    def known() -> list[tuple[str, str]]:
        status = story.call("task_status", task_id=story.task["task_id"])
        told = reversed(status["tool_history"])
        return [(each["tool"], each["outcome"]) for each in told]

    until(lambda: len(known()) >= len(wanted) and known() == [*wanted], f"{wanted}")


def holding(run: dict[str, Any]) -> dict[str, Any]:
    """Who holds a run, and for how long."""
    names = ("state", "session_key", "owner", "token", "lease_until")
    return {name: run[name] for name in names}


def wakes(story: Story) -> list[dict[str, Any]]:
    """All wakes of the task that were ever sent."""
    task_id = story.task["task_id"]
    rows = story.house.ask("wakes", all=True)
    return [row for row in rows if row["task_id"] == task_id and row["sent_at"]]


def rests(story: Story) -> dict[str, Any]:
    """Who holds the run once its turn has ended, and its agent was told nothing."""
    run = story.run(lease_until=None)
    assert (run["state"], wakes(story)) == ("running", [])
    return holding(run)


def cooks_below(story: Story, tmp_path: Path, end: Line) -> None:
    """Let a sub-agent cook, and its parent's turn end before as is given."""
    first, second, soup = Held(tmp_path / "1"), Held(tmp_path / "2"), tmp_path / "soup"
    story.scripts.below = Lines(
        first.then(),
        updated(story, message="It simmers."),
        second.then(f"echo soup > {soup}"),
        COOKED,
    )
    parent = Lines(
        registered(metadata={"artifacts": [str(soup)]}),
        spawned("Cook the soup."),
        end,
        completed(story),
        "It is served.",
    )
    story.follow(parent)
    story.say("Please cook a soup.")
    before = [("sessions_spawn", "ok")]
    if isinstance(end, Call):
        before.append((end.tool, "ok"))

    with first.up():
        at_rest = rests(story)
        calls(story, *before, ("exec", "unknown"))
    with second.up():
        calls(story, *before, ("exec", "ok"), ("exec", "unknown"))
        assert story.task["messages"][-1]["content"] == "It simmers."
        assert rests(story) == at_rest
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


def test_while_a_sub_agent_works_its_session_rests_and_its_report_is_gone_on_with(
    story: Story, tmp_path: Path
):
    cooks_below(story, tmp_path, "It is being cooked.")


def test_a_turn_that_yields_to_its_sub_agent_rests_as_well(
    story: Story, tmp_path: Path
):
    cooks_below(story, tmp_path, Call("sessions_yield", {}))


def test_when_one_of_two_sub_agents_has_reported_the_other_is_waited_for(
    story: Story, tmp_path: Path
):
    soup, bread = Held(tmp_path / "soup"), Held(tmp_path / "bread")

    def below(request: ModelRequest) -> Reply:
        if request.turn.results:
            return "It is ready."
        held = soup if "Cook the soup." in request.turn.text else bread
        return [held.then()]

    story.scripts.below = below
    parent = Lines(
        registered(),
        spawned("Cook the soup."),
        spawned("Bake the bread."),
        "Both are being made.",
        "The soup is ready.",
        completed(story),
        "It is served.",
    )
    story.follow(parent)
    story.say("Please make a meal.")
    both = (("sessions_spawn", "ok"),) * 2
    with bread.up():
        with soup.up():
            at_rest = rests(story)
        until(lambda: "The soup is ready." in story.lines, "the soup is reported")
        assert rests(story) == at_rest
        assert len(parent.heard) == 5
    story.ends()
    calls(story, *both, ("exec", "ok"), ("exec", "ok"))
    story.run(state="completed")
    assert wakes(story) == []


def test_a_sub_agent_that_is_carried_on_after_a_restart_is_waited_for(
    story: Story, tmp_path: Path
):
    first, second, own = (Held(tmp_path / name) for name in ("1", "2", "own"))
    story.scripts.below = Lines(first.then(), second.then(), COOKED)
    before = Lines(registered(), spawned("Cook the soup."), "It is being cooked.")
    packets: list[dict[str, Any]] = []

    def parent(request: ModelRequest) -> Reply:
        turn = request.turn
        packets.extend(reminders_in(turn.text))
        if before.left:
            return before(request)
        if COOKED in turn.text:
            report = {"task_id": story.task["task_id"], "status": "completed"}
            return "Served." if turn.results else [Call("task_update", report)]
        return carries_on(request)

    carries_on = Lines(go_on_below, own.then(), *["It is being cooked again."] * 20)
    story.follow(parent)
    story.say("Please cook a soup.")
    with first.up():
        rests(story)
        story.house.gateway.kill()
    story.house.gateway.start()
    with second.up():
        with own.up():
            story.run(checkpoints=7)
        story.run(checkpoints=8, calls=3)
        until(lambda: "It is being cooked again." in story.lines, "its turn has ended")
        run = story.run(lease_until=None)
        assert run["state"] == "running"
        assert not any("task_continue" in wake["text"] for wake in wakes(story))
    story.ends()
    assert [cut for cut in packets[0]["unknown_outcome"] if str(tmp_path) in cut]


def go_on_below(request: ModelRequest) -> Reply:
    """Tell the sub-agent, which is known from the conversation, to go on."""
    said = "\n".join(map(text_of, request.messages))
    child = CHILD.findall(said)[0]
    given = {"sessionKey": child, "message": "Go on.", "timeoutSeconds": 0}
    return [use("sessions_send", **given)]
