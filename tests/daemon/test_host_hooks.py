"""What the daemon answers to the hooks of Claude Code and Codex."""

from __future__ import annotations

import pytest

from taskmem_claude import CLIENT, SESSION
from tests.support.agents import agent, parse_result
from tests.support.daemons import Daemon


async def register(daemon: Daemon, session: str) -> str:
    async with agent(daemon.home, "auto", client=CLIENT, **{SESSION: session}) as speaking:
        made = await speaking.call_tool("task_register", {"name": "Deploy", "plan": ["Build"]})
        return parse_result(made)["task_id"]


def start(source: object = "compact", session: object = "s-1") -> dict[str, object]:
    return {"hook_event_name": "SessionStart", "session_id": session, "source": source}


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
    ],
    ids=lambda event: str(event)[:60],
)
async def test_what_is_no_known_event_has_no_answer(daemon: Daemon, event: object):
    await register(daemon, "s-1")
    assert daemon.ask("hook", event=event) is None
