"""Who is at the other end of the socket."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Literal
from unittest.mock import AsyncMock, Mock, create_autospec

import pytest

from openclaw_taskmem.daemon import main, mcp, server
from openclaw_taskmem.daemon.dispatcher import Dispatcher
from openclaw_taskmem.daemon.mcp import MOST_BYTES, read_line
from openclaw_taskmem.daemon.processes import identify_process
from openclaw_taskmem.daemon.wait_supervisor import WaitSupervisor
from openclaw_taskmem.home import Home
from openclaw_taskmem.mcp_lines import TruncatedLine
from openclaw_taskmem.plugin_host.plugin_host import format_error


def test_macos_is_asked_for_the_process_at_the_other_end() -> None:
    peer = create_autospec(socket.socket, instance=True)
    peer.getsockopt.return_value = struct.pack("i", os.getpid())

    assert server.read_peer_pid(peer) == os.getpid()
    # SOL_LOCAL and LOCAL_PEERPID, as <sys/un.h> numbers them.
    peer.getsockopt.assert_called_once_with(0, 2, 4)


class LoadingEvent(asyncio.Event):
    """Set once the SDK is loaded; says when somebody has come to wait for that."""

    def __init__(self, reached: asyncio.Event) -> None:
        super().__init__()
        self._reached = reached

    async def wait(self) -> Literal[True]:
        self._reached.set()
        return await super().wait()


def make_dispatcher() -> Mock:
    """Return a dispatcher that asks relays for no variables."""
    dispatcher = create_autospec(Dispatcher, instance=True)
    dispatcher.session_variables = ()
    return dispatcher


async def open_line(
    home: Home, *, posts: bool = False
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a relay's connection."""
    reader, writer = await asyncio.open_unix_connection(home.socket)
    opening = {"taskmem": 1, "face": "mcp", "posts": posts}
    writer.write(json.dumps(opening).encode() + b"\n")
    assert b"pid" in await reader.readline()
    return reader, writer


async def test_a_relay_is_served_once_what_it_speaks_is_loaded(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = asyncio.Event()
    loaded: list[bool] = []

    async def serve(*_: object, **__: object) -> None:
        loaded.append(entrance.speaks_mcp.is_set())
        reached.set()

    monkeypatch.setattr(mcp, "serve_host", serve)
    home.prepare()
    left: list[str | None] = []
    entrance = server.SocketServer(make_dispatcher(), left.append)
    entrance.speaks_mcp = LoadingEvent(reached)
    await entrance.open(home.socket)
    reader, writer = await open_line(home)
    await reached.wait()
    assert loaded == []

    entrance.speaks_mcp.set()

    assert await reader.read() == b""
    assert loaded == [True]
    assert left == [identify_process(os.getpid())]
    writer.close()
    await entrance.close(0)


@pytest.fixture
def without_collection() -> Iterator[None]:
    """A process that begins: nothing is collected yet."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collection")
@pytest.mark.parametrize("error", [ImportError("broken"), AttributeError("no Server")])
async def test_no_relay_waits_for_what_cannot_be_loaded(
    home: Home, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mcp, "load_sdk", Mock(side_effect=error))
    home.prepare()
    entrance = server.SocketServer(make_dispatcher(), lambda _: None)
    await entrance.open(home.socket)
    reader, writer = await open_line(home)

    room = create_autospec(WaitSupervisor, instance=True)
    await main._preload_modules(room, entrance)
    room.load_judges.assert_called_once_with()

    writer.write(b'no JSON\n{"method": "notifications/initialized"}\n')
    writer.write(b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call"}\n')
    unread, answer = [json.loads(await reader.readline()) for _ in range(2)]
    assert unread["id"] is None
    assert answer["id"] == 7
    assert answer["error"]["data"]["error"] == "sdk_unavailable"
    assert f"did not load ({format_error(error)}). Install" in answer["error"]["message"]
    assert "cannot be loaded" in caplog.text
    assert gc.isenabled()
    writer.close()
    await entrance.close(0)


async def test_a_relay_that_is_refused_for_lack_of_the_sdk_may_post(home: Home) -> None:
    dispatcher, noted = make_dispatcher(), asyncio.get_running_loop().create_future()
    dispatcher.add_relay.side_effect = lambda _, post: noted.set_result(post)
    home.prepare()
    entrance = server.SocketServer(dispatcher, lambda _: None)
    entrance.lacks_mcp = mcp.SdkUnavailable(ImportError("broken"))
    entrance.speaks_mcp.set()
    await entrance.open(home.socket)
    reader, writer = await open_line(home, posts=True)
    asking = asyncio.create_task((await noted)("/inbox", "hello", 1.0))

    asked = json.loads(await reader.readline())
    writer.write(json.dumps({"id": asked["id"], "result": {"closed": True}}).encode() + b"\n")

    assert await asking is True
    writer.close()
    await entrance.close(0)


async def test_the_sdk_is_loaded_once_the_first_relay_comes(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_sdk, kept = Mock(), asyncio.Event()
    monkeypatch.setattr(main, "_keep_loaded_modules", kept.set)
    monkeypatch.setattr(mcp, "load_sdk", load_sdk)
    monkeypatch.setattr(mcp, "serve_host", AsyncMock())
    home.prepare()
    entrance = server.SocketServer(make_dispatcher(), lambda _: None)
    await entrance.open(home.socket)
    room = create_autospec(WaitSupervisor, instance=True)
    loading = asyncio.create_task(main._preload_modules(room, entrance))
    await kept.wait()
    room.load_judges.assert_called_once_with()
    load_sdk.assert_not_called()

    reader, writer = await open_line(home)

    assert await reader.read() == b""
    load_sdk.assert_called_once_with()
    await loading
    writer.close()
    await entrance.close(0)


@pytest.mark.parametrize("closed_by_daemon", [True, False])
async def test_only_a_failure_before_the_daemon_ends_is_logged(
    home: Home,
    closed_by_daemon: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    serving = asyncio.Event()

    async def fail_at_end(reader: asyncio.StreamReader, *_: object, **__: object) -> None:
        serving.set()
        try:
            await reader.read()
        finally:
            raise ExceptionGroup("a task of the SDK failed", [BrokenPipeError()])

    monkeypatch.setattr(mcp, "serve_host", fail_at_end)
    home.prepare()
    entrance = server.SocketServer(make_dispatcher(), lambda _: None)
    entrance.speaks_mcp.set()
    await entrance.open(home.socket)
    reader, writer = await open_line(home)
    await serving.wait()
    if not closed_by_daemon:
        writer.close()
        await entrance.emptied.wait()

    await entrance.close(0)

    assert ("a connection failed" in caplog.text) is not closed_by_daemon
    assert await reader.read() == b""
    writer.close()


async def test_too_many_clients_are_told_and_a_command_is_not(home: Home) -> None:
    home.prepare()
    most = server.RESERVED_CONNECTIONS + 2
    dispatcher = make_dispatcher()
    entrance = server.SocketServer(dispatcher, lambda _: None, most)
    await entrance.open(home.socket)

    async def open_client_of_kind(
        client_kind: str,
    ) -> tuple[dict[str, object], asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(home.socket)
        writer.write(json.dumps({"taskmem": 1, "face": client_kind}).encode() + b"\n")
        return json.loads(await reader.readline()), writer

    relays = [await open_client_of_kind("mcp") for _ in range(3)]
    commands = [await open_client_of_kind("client") for _ in range(server.RESERVED_CONNECTIONS + 1)]

    assert ["error" in said for said, _ in relays] == [False, False, True]
    assert relays[-1][0]["error"] == "too_many_connections"
    refused = ["error" in said for said, _ in commands]
    assert refused == [*[False] * server.RESERVED_CONNECTIONS, True]
    for _, writer in relays + commands:
        writer.close()
    await entrance.close(0)


async def open_client(
    home: Home, client_kind: str = "client"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a command's connection, or that of another kind of client."""
    reader, writer = await asyncio.open_unix_connection(home.socket)
    opening = {"taskmem": 1, "face": client_kind}
    writer.write(json.dumps(opening).encode() + b"\n")
    assert b"pid" in await reader.readline()
    return reader, writer


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose it is")
async def test_another_users_process_is_hung_up_on(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.prepare()
    dispatcher = make_dispatcher()
    entrance = server.SocketServer(dispatcher, lambda _: None)
    await entrance.open(home.socket)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    reader, writer = await asyncio.open_unix_connection(home.socket)

    assert await reader.read() == b""
    dispatcher.answer.assert_not_called()
    writer.close()
    await entrance.close(0)


def line_of(size: int, method: str = "m") -> bytes:
    """Return a call of a method that is about so many bytes long."""
    params = {"x": "x" * size}
    return json.dumps({"id": 1, "method": method, "params": params}).encode()


@pytest.mark.parametrize("client_kind", ["client", "gateway"])
async def test_a_call_that_is_too_long_is_refused_and_the_next_is_not(
    home: Home, client_kind: str
) -> None:
    home.prepare()
    dispatcher = make_dispatcher()
    dispatcher.answer.return_value = dispatcher.answer_gateway.return_value = None
    entrance = server.SocketServer(dispatcher, lambda _: None)
    await entrance.open(home.socket)
    reader, writer = await open_client(home, client_kind)

    writer.write(line_of(MOST_BYTES) + b"\n" + line_of(10) + b"\n")

    refused, taken = [json.loads(await reader.readline()) for _ in range(2)]
    assert "more than 1 MiB" in refused["error"]["message"]
    assert taken == {"id": 1, "result": None}
    writer.close()
    await entrance.close(0)


async def test_door_runs_large_calls_one_by_one_beside_small_ones(home: Home) -> None:
    home.prepare()
    running: list[str] = []
    go_on = asyncio.Event()

    async def answer(_: str, params: dict[str, str], **__: object) -> None:
        running.append(params["x"][:1])
        if len(params["x"]) > server.LARGE_BYTES:
            await go_on.wait()

    dispatcher = make_dispatcher()
    dispatcher.answer = answer
    entrance = server.SocketServer(dispatcher, lambda _: None)
    await entrance.open(home.socket)
    reader, writer = await open_client(home)
    large = line_of(server.LARGE_BYTES + 1) + b"\n"
    writer.write(large + large + line_of(10) + b"\n")

    assert await reader.readline()
    assert running == ["x", "x"]
    go_on.set()
    assert [await reader.readline() for _ in range(2)]
    assert len(running) == 3
    writer.close()
    await entrance.close(0)


async def test_an_answer_that_nobody_reads_holds_up_no_large_call(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.prepare()
    answered = asyncio.Event()

    async def answer(method: str, *_: object, **__: object) -> None:
        if method == "unread":
            answered.set()

    dispatcher = make_dispatcher()
    dispatcher.answer = answer
    entrance = server.SocketServer(dispatcher, lambda _: None)
    monkeypatch.setattr(server, "_encode_document", lambda _: b"y" * 9_000_000 + b"\n")
    await entrance.open(home.socket)
    monkeypatch.setattr(server, "_send_document", lambda writer, _: writer.write(b'{"pid": 1}\n'))
    (_, unread), (reader, writer) = [await open_client(home) for _ in range(2)]
    unread.write(line_of(server.LARGE_BYTES + 1, "unread") + b"\n")
    await answered.wait()

    writer.write(line_of(server.LARGE_BYTES + 1) + b"\n")

    assert await reader.readexactly(9)
    for each in (unread, writer):
        each.close()
    await entrance.close(0)


async def test_a_large_call_that_takes_long_holds_up_no_other(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LARGE_SECONDS", 0)
    home.prepare()
    go_on = asyncio.Event()

    async def answer(method: str, *_: object, **__: object) -> None:
        if method == "slow":
            await go_on.wait()

    dispatcher = make_dispatcher()
    dispatcher.answer = answer
    entrance = server.SocketServer(dispatcher, lambda _: None)
    await entrance.open(home.socket)
    (slow, slow_writer), (reader, writer) = [await open_client(home) for _ in range(2)]
    slow_writer.write(line_of(server.LARGE_BYTES + 1, "slow") + b"\n")
    writer.write(line_of(server.LARGE_BYTES + 1) + b"\n")

    assert await reader.readline()
    go_on.set()
    assert await slow.readline()
    for each in (slow_writer, writer):
        each.close()
    await entrance.close(0)


async def test_a_call_that_waits_for_something_is_not_long(home: Home) -> None:
    home.prepare()
    dispatcher = make_dispatcher()
    entrance = server.SocketServer(dispatcher, lambda _: None)
    await entrance.open(home.socket)
    reader, writer = await open_client(home)

    writer.write(line_of(server.LARGE_BYTES + 1, "wait") + b"\n")

    assert json.loads(await reader.readline())["error"]["error"] == "invalid_arguments"
    dispatcher.answer.assert_not_called()
    writer.close()
    await entrance.close(0)


async def test_a_line_has_no_million_values() -> None:
    reader = asyncio.StreamReader(limit=10_000_000)
    reader.feed_data(b"," * 100_001 + b"\n")

    assert isinstance(await read_line(reader), TruncatedLine)


@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_a_line_is_too_long_with_and_without_its_end(end: bytes) -> None:
    reader = asyncio.StreamReader(limit=1000)
    reader.feed_data(b"x" * 11 + end)
    reader.feed_eof()

    assert isinstance(await read_line(reader, 10), TruncatedLine)
    assert await read_line(reader, 10) == b""
