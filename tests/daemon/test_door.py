"""Who is at the other end of the socket."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from unittest.mock import create_autospec

import pytest

from openclaw_taskmem.daemon import door, mcp, run
from openclaw_taskmem.daemon.desk import Desk
from openclaw_taskmem.daemon.processes import identity
from openclaw_taskmem.daemon.watchroom import Watchroom
from openclaw_taskmem.home import Home


def test_macos_is_asked_for_the_process_at_the_other_end() -> None:
    peer = create_autospec(socket.socket, instance=True)
    peer.getsockopt.return_value = struct.pack("i", os.getpid())

    assert door.peer_number(peer) == os.getpid()
    # SOL_LOCAL and LOCAL_PEERPID, as <sys/un.h> numbers them.
    peer.getsockopt.assert_called_once_with(0, 2, 4)


async def test_a_relay_is_served_once_what_it_speaks_is_loaded(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = asyncio.Event()

    async def serve(*_: object) -> None:
        served.set()

    monkeypatch.setattr(mcp, "serve", serve)
    home.prepare()
    left: list[str | None] = []
    entrance = door.Door(create_autospec(Desk, instance=True), left.append)
    await entrance.open(home.socket)
    reader, writer = await asyncio.open_unix_connection(home.socket)
    writer.write(b'{"taskmem": 1, "face": "mcp"}\n')
    assert b"pid" in await reader.readline()
    for _ in range(100):
        await asyncio.sleep(0)
    assert not served.is_set()

    entrance.speaks_mcp.set()

    assert await reader.read() == b""
    assert served.is_set()
    assert left == [identity(os.getpid())]
    writer.close()
    await entrance.close(0)


async def test_no_relay_waits_for_what_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ImportError("broken")

    monkeypatch.setattr(mcp, "load_sdk", fail)
    entrance = door.Door(create_autospec(Desk, instance=True), lambda _: None)
    room = create_autospec(Watchroom, instance=True)

    await run._load_sdk(room, entrance)

    assert entrance.speaks_mcp.is_set()
    assert "cannot be loaded" in caplog.text
