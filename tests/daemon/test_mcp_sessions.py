"""Which session calls over MCP, by what its host tells the relay and each call."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from taskmem_claude import CLIENT, SESSION, SOCKET, TOKEN
from tests.support.agents import agent, parse_result
from tests.support.daemons import Daemon
from tests.support.waiting import PATIENCE, until

SECRET = "3ba445b53e1c7ff6f6906ce4cb414f9d"  # noqa: S105 - no real token
CODEX = "codex-mcp-client"
TASK = {"name": "Deploy", "plan": ["Build"]}


def read_peers_parent(connection: socket.socket) -> int:
    """Return the parent of the process at the other end."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    status = Path(f"/proc/{struct.unpack('3i', raw)[0]}/stat").read_text()
    return int(status.rpartition(") ")[2].split()[1])


async def register(daemon: Daemon, client: str, meta: dict[str, str], **variables: str) -> str:
    """Return the session of a task that an agent registers."""
    async with agent(daemon.home, "auto", client=client, **variables) as speaking:
        made = parse_result(await speaking.call_tool("task_register", TASK, meta=meta))
        return daemon.ask("show", id=made["task_id"])["session_key"]


async def test_the_session_is_the_one_that_the_host_names(daemon: Daemon):
    assert await register(daemon, CLIENT, {}, **{SESSION: "s-1"}) == "s-1"
    assert await register(daemon, CODEX, {"threadId": "t-1"}) == "t-1"
    assert await register(daemon, "other", {"threadId": "t-1"}, **{SESSION: "s-1"}) is None


async def test_a_host_that_names_its_session_badly_has_none(daemon: Daemon):
    for key in ("x" * 10_000, "a\x1b[31mb", "a\nb", " ", ""):
        assert await register(daemon, CODEX, {"threadId": key}) is None
        assert await register(daemon, CLIENT, {}, **{SESSION: key}) is None
    assert [each["last_error"] for each in daemon.ask("plugins") if each["last_error"]] == []


async def test_an_agent_may_name_no_session_but_its_own(daemon: Daemon):
    async with agent(daemon.home, client=CLIENT, **{SESSION: "s-1"}) as speaking:
        given = {**TASK, "session_key": "s-2"}
        refused = await speaking.call_tool("task_register", given)
        assert refused.is_error
        assert "leave session_key out" in parse_result(refused)["message"]


async def test_a_task_of_an_open_session_is_its_own_until_it_closes(daemon: Daemon):
    given = {"message": "Step 1 done", "completed_steps": [1]}
    async with agent(daemon.home, client=CLIENT, **{SESSION: "s-2"}) as other:
        async with agent(daemon.home, client=CLIENT, **{SESSION: "s-1"}) as speaking:
            made = parse_result(await speaking.call_tool("task_register", TASK))
            given["task_id"] = made["task_id"]
            assert (await other.call_tool("task_update", given)).is_error
        until(lambda: len(daemon.ask("status")["sessions"]) == 1, "the first is closed")
        assert not (await other.call_tool("task_update", given)).is_error


async def test_two_sessions_of_one_relay_are_two(daemon: Daemon):
    first, second = {"threadId": "t-1"}, {"threadId": "t-2"}
    async with agent(daemon.home, client=CODEX, TASKMEM_TOOLS="runs") as speaking:
        made = parse_result(await speaking.call_tool("task_register", TASK, meta=first))
        given = {"task_id": made["task_id"]}
        assert not (await speaking.call_tool("task_claim", given, meta=first)).is_error
        given["status"] = "completed"
        assert (await speaking.call_tool("task_update", given, meta=second)).is_error


async def test_a_token_is_in_no_file_of_the_home(daemon: Daemon):
    variables = {SESSION: "s-1", TOKEN: SECRET, SOCKET: "/nowhere"}
    async with agent(daemon.home, client=CLIENT, **variables) as speaking:
        given = {"target": f"pty:file:{daemon.home.log}", "wake_when": '"READY" appears'}
        await speaking.call_tool("task_register", TASK)
        await speaking.call_tool("smart_wait", given)
        await speaking.call_tool("task_list", {})
    assert SECRET not in json.dumps(daemon.ask("status"))
    files = [each for each in daemon.home.folder.rglob("*") if each.is_file()]
    assert [each for each in files if SECRET.encode() in each.read_bytes()] == []


async def test_no_program_of_the_daemon_gets_a_token(start: Any, tmp_path: Path):
    """Also where the daemon was started from within the session."""
    codex, seen = tmp_path / "codex", tmp_path / "seen"
    codex.write_text(f"#!/bin/sh\nenv > {seen}.new && mv {seen}.new {seen}\n")
    codex.chmod(0o700)
    settings = {"TASKMEM_CODEX_BIN": str(codex), "TASKMEM_WAKE_TRANSPORT": "codex-queue"}
    daemon = start(**settings, **{TOKEN: SECRET})
    log = tmp_path / "build.log"
    log.touch()
    async with agent(daemon.home, "auto", client=CODEX) as speaking:
        given = {"target": f"pty:file:{log}", "wake_when": '"READY" appears'}
        await speaking.call_tool("smart_wait", given, meta={"threadId": "t-1"})
        log.write_text("READY\n")
        environ = until(lambda: seen.exists() and seen.read_text(), "Codex is started")
    assert "TASKMEM_CODEX_BIN" in environ
    assert SECRET not in environ


async def test_a_child_of_its_host_writes_into_its_inbox(start: Any, tmp_path: Path):
    """Where Claude Code asks for no permissions, it asks its user before it takes another's."""
    daemon, log, path = start(TASKMEM_WAKE_TRANSPORT="auto"), tmp_path / "log", tmp_path / "inbox"
    log.touch()
    variables = {SESSION: "s-1", SOCKET: str(path), TOKEN: SECRET}
    given = {"target": f"pty:file:{log}", "wake_when": '"READY" appears'}
    with socket.socket(socket.AF_UNIX) as inbox:
        inbox.bind(str(path))
        inbox.listen()
        inbox.settimeout(PATIENCE)
        async with agent(daemon.home, client=CLIENT, **variables) as speaking:
            await speaking.call_tool("smart_wait", given)
            log.write_text("READY\n")
            connection, _ = await asyncio.to_thread(inbox.accept)
            with connection, connection.makefile() as lines:
                parent = read_peers_parent(connection)
                auth, message = map(json.loads, lines)
            await speaking.call_tool("task_list", {})
            until(lambda: daemon.wakes()[0]["state"] == "sent", "it is sent")
    assert parent == os.getpid()
    assert auth == {"type": "auth", "token": SECRET}
    assert "READY" in message["message"]["content"]


@contextmanager
def connect_relay(daemon: Daemon, greeting: bytes) -> Iterator[tuple[socket.socket, BinaryIO]]:
    with socket.socket(socket.AF_UNIX) as end, end.makefile("rb") as answers:
        end.settimeout(PATIENCE)
        end.connect(str(daemon.home.socket))
        end.sendall(greeting)
        assert SESSION in json.loads(answers.readline())["variables"]
        yield end, answers


def test_a_relay_that_tells_nonsense_is_hung_up_on(daemon: Daemon):
    greeting = b'{"taskmem": 1, "face": "mcp", "tells_variables": true}\n'
    for line in (b"{}\n", b"[]\n", b'{"variables": []}\n', b"nonsense\n"):
        with connect_relay(daemon, greeting) as (end, answers):
            end.sendall(line)
            assert answers.readline() == b""


def test_a_relay_of_an_older_version_is_served(daemon: Daemon):
    with connect_relay(daemon, b'{"taskmem": 1, "face": "mcp"}\n') as (end, answers):
        end.sendall(b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}\n')
        assert json.loads(answers.readline())["id"] == 7
