"""Two hosts on one machine: every wake reaches the session that asked, or nobody."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import Implementation

from tests.e2e.gateway import MAIN_SESSION
from tests.e2e.house import woken_by
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import Story
from tests.e2e.taskmem import PROGRAM, Taskmem
from tests.support.agents import parse_result
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}
SHARES_GATEWAY = True
CLAUDE_CODE = {"CLAUDECODE": "1"}
"""What Claude Code sets for all that it starts."""


class Waiter:
    """Waits for a log once, and ends its turn."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.waits: list[str] = []

    def __call__(self, request: ModelRequest) -> Reply:
        turn = request.turn
        if "Please wait" not in turn.words:
            return "It is ready."
        if not turn.results:
            return [Call("smart_wait", wait_for(self.log))]
        self.waits.append(json.loads(turn.results[-1])["wait_id"])
        return "I am woken when it is ready."


@pytest.fixture(params=["one home", "two homes"])
def other(request: pytest.FixtureRequest, story: Story) -> Iterator[Taskmem]:
    """taskmem as Claude Code starts it: in the gateway's home, or in one of its own."""
    ours = story.house.taskmem
    own = {"TASKMEM_HOME": str(ours.room.root / "other")}
    home = own if request.param == "two homes" else {}
    yield Taskmem(ours.room, {**ours.settings, **CLAUDE_CODE, **home})
    if home:
        Taskmem(ours.room, own).stop()


@asynccontextmanager
async def claude_code(taskmem: Taskmem) -> AsyncIterator[Client]:
    """A host that starts `taskmem mcp` as set-up has it, and has no way back."""
    server = StdioServerParameters(
        command=str(PROGRAM), args=["mcp"], env=taskmem.room.environment(taskmem.environment)
    )
    transport = stdio_client(server)
    info = Implementation(name="claude-code", version="2")
    async with Client(
        transport, mode="legacy", client_info=info, read_timeout_seconds=PATIENCE
    ) as client:
        yield client


def wait_for(log: Path, **more: str) -> dict[str, Any]:
    """The arguments of `smart_wait` for a log that is ready."""
    target = {"target": f"pty:file:{log}", "wake_when": '"READY" appears'}
    return {**target, "timeout": 3000, **more}


async def ask_for_waits(client: Client, log: Path, story: Story) -> list[Any]:
    """Ask as agents do: plainly, and in the name of sessions that are not theirs."""
    task = {"name": "Theirs", "plan": ["Wait"]}
    task_id = parse_result(await client.call_tool("task_register", task))["task_id"]
    for session in (story.session, MAIN_SESSION):
        arguments = wait_for(log, session_key=session)
        refused = parse_result(await client.call_tool("smart_wait", arguments))
        assert refused["error"] == "not_allowed"
    choices = [{}, {"session_key": "main"}, {"task_id": task_id}]
    return [
        parse_result(await client.call_tool("smart_wait", wait_for(log, **arguments)))
        for arguments in choices
    ]


def start(taskmem: Taskmem, command: str) -> subprocess.Popen[str]:
    """Start a command as an agent does in the background of its host."""
    return subprocess.Popen(
        ["/usr/bin/env", *shlex.split(command)],
        env=taskmem.room.environment(taskmem.environment),
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_each_wake_reaches_who_asked(story: Story, other: Taskmem, tmp_path: Path):
    waiter = Waiter(tmp_path / "build.log")
    waiter.log.touch()
    story.follow(waiter)
    await asyncio.to_thread(story.say, "Please wait.")
    async with claude_code(other) as client:
        theirs = await ask_for_waits(client, waiter.log, story)
        commands = [start(other, each["command"]) for each in theirs]
        waiter.log.write_text("READY\n")
        for each, command in zip(theirs, commands, strict=True):
            assert "wake you" not in each["message"]
            said, _ = await asyncio.to_thread(command.communicate)
            assert command.returncode == 0
            assert f"resolved ({each['wait_id']})" in said

    house, [own] = story.house, waiter.waits
    wake = await asyncio.to_thread(house.reaches, own, "acknowledged")
    assert wake["session_key"] == story.session
    # Wakes go out in order: after this one none of theirs is on its way.
    last = await asyncio.to_thread(house.wake, "the last of all")
    await asyncio.to_thread(house.reaches, last, "acknowledged")
    arrived = [
        (session, wait_id)
        for session, requests in story.scripts.heard.items()
        for request in requests
        for wait_id in woken_by(request)
        if wait_id in {own, *(each["wait_id"] for each in theirs)}
    ]
    assert arrived == [(story.session, own)]
    kept = {row["wait_id"]: row for row in other.wakes()}
    for each in theirs:
        row = kept[each["wait_id"]]
        assert (row["state"], row["attempts"]) == ("acknowledged", 0)
