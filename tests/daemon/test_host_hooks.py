"""What the daemon answers to the hooks of Claude Code and Codex."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskmem_claude import CLIENT, SESSION
from tests.plugins.claude.test_inbox import KEY, Session
from tests.support.agents import agent, parse_result
from tests.support.daemons import Daemon
from tests.support.waiting import until


async def register(daemon: Daemon, session: str) -> str:
    async with agent(daemon.home, "auto", client=CLIENT, **{SESSION: session}) as speaking:
        made = await speaking.call_tool("task_register", {"name": "Deploy", "plan": ["Build"]})
        return parse_result(made)["task_id"]


def start(source: object = "compact", session: object = "s-1") -> dict[str, object]:
    return {"hook_event_name": "SessionStart", "session_id": session, "source": source}


def prompt(text: object, **more: object) -> dict[str, object]:
    return {"hook_event_name": "UserPromptSubmit", "session_id": "s-1", "prompt": text, **more}


@pytest.mark.parametrize("source", ["startup", "resume", "compact", "clear", "of a later version"])
async def test_a_session_that_starts_has_its_open_task(daemon: Daemon, source: str):
    task_id = await register(daemon, "s-1")
    output = daemon.ask("hook", event=start(source))["hookSpecificOutput"]
    assert output["hookEventName"] == "SessionStart"
    assert output["additionalContext"].startswith("[task_resume] ")
    assert task_id in output["additionalContext"]


async def test_another_session_hears_nothing_of_it(daemon: Daemon):
    await register(daemon, "s-1")
    assert daemon.ask("hook", event=start(session="s-2")) is None


async def test_a_task_that_has_ended_is_not_told(daemon: Daemon):
    task_id = await register(daemon, "s-1")
    daemon.ask("act", id=task_id, action="cancel")
    assert daemon.ask("hook", event=start()) is None


@pytest.fixture
def session() -> Iterator[Session]:
    """A session of Claude Code with an inbox."""
    opened = Session()
    yield opened
    opened.kill()
    opened.remove()


@pytest.mark.parametrize(
    ("more", "state"),
    [({}, "acknowledged"), ({"source": "system"}, "acknowledged"), ({"source": "user"}, "sent")],
)
async def test_a_prompt_is_a_receipt_unless_a_person_typed_it(
    start: Any, session: Session, tmp_path: Path, more: dict[str, str], state: str
):
    daemon, log = start(TASKMEM_WAKE_TRANSPORT="auto"), tmp_path / "build.log"
    log.touch()
    async with agent(daemon.home, "auto", client=CLIENT, **session.variables) as speaking:
        given = {"target": f"pty:file:{log}", "wake_when": '"READY" appears'}
        await speaking.call_tool("smart_wait", given)
        log.write_text("READY\n")
        until(lambda: [each["state"] for each in daemon.wakes()] == ["sent"], "it is told")
    (text,) = session.texts
    assert daemon.ask("hook", event=prompt(text, session_id=KEY, **more)) is None
    assert [each["state"] for each in daemon.wakes()] == [state]


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        {},
        start(session=None),
        start(session=["s-1"]),
        start(session=""),
        start(session="s" * 100_000),
        {**start(), "hook_event_name": ["SessionStart"]},
        {**start(), "hook_event_name": "OfALaterVersion"},
        prompt(None),
        prompt(["[system] x"]),
        prompt("x" * 900_000),
    ],
    ids=lambda event: str(event)[:60],
)
async def test_what_is_no_known_event_has_no_answer(daemon: Daemon, event: object):
    await register(daemon, "s-1")
    assert daemon.ask("hook", event=event) is None
