"""Agents that speak MCP with a daemon: through the official SDK, and line by line."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, Implementation, TextContent

from openclaw_taskmem.cli.client import connect
from openclaw_taskmem.home import Home
from tests.support.daemons import COMMAND, environment
from tests.support.waiting import PATIENCE, status_of


@asynccontextmanager
async def agent(
    home: Home, mode: str = "legacy", cwd: Path | None = None, client: str = "mcp", **settings: str
) -> AsyncIterator[Client]:
    """Start `taskmem mcp` as a host does, and speak with it by the official SDK."""
    server = StdioServerParameters(
        command=str(COMMAND), args=["mcp"], env=environment(home, **settings), cwd=cwd
    )
    transport = stdio_client(server, errlog=sys.__stderr__)
    info = Implementation(name=client, version="1")
    async with Client(
        transport, mode=mode, read_timeout_seconds=PATIENCE, client_info=info
    ) as speaking:
        yield speaking


def parse_result(result: CallToolResult) -> dict[str, Any]:
    """Return the document that a tool answered."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return dict(json.loads(content.text))


PROTOCOLS = ("2025-06-18", "2026-07-28")
"""The older protocol begins with `initialize`; in the newer one each request says who asks."""


class Lines:
    """MCP written by hand: it says what the SDK's own client would not."""

    def __init__(self, home: Home, client: str = "by hand", protocol: str = PROTOCOLS[0]) -> None:
        """Connect to the daemon as a relay does, and say hello where that is the custom."""
        self._begin(connect(home, "mcp").socket, client, protocol)

    def _begin(
        self, end: socket.socket, client: str, protocol: str, *, offers: str | None = None
    ) -> None:
        self._socket = end
        self._socket.settimeout(PATIENCE)
        self._answers = self._socket.makefile("rb")
        self._last_id = 0
        info = {"name": client, "version": "1"}
        self._more: dict[str, Any] = {}
        if protocol == PROTOCOLS[0]:
            told = {"protocolVersion": protocol, "capabilities": {}, "clientInfo": info}
            self.hello = self.ask("initialize", **told)
            self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
            return
        told = {"protocolVersion": protocol, "clientInfo": info, "clientCapabilities": {}}
        meta = {f"io.modelcontextprotocol/{name}": value for name, value in told.items()}
        self._more = {"_meta": meta}
        if offers is not None:
            self.offer(offers)

    def look_around(self) -> dict[str, Any]:
        """Return what the server says of itself, by the custom of the protocol."""
        return dict((self.ask("server/discover") if self._more else self.hello)["result"])

    def offer(self, extension: str) -> None:
        """Say with each request from now on that the client has an extension."""
        self.can(extensions={extension: {}})

    def can(self, **capabilities: dict[str, Any]) -> None:
        """Say with each request from now on what the client can do."""
        meta = {"io.modelcontextprotocol/clientCapabilities": capabilities}
        self._more = {"_meta": self._more.get("_meta", {}) | meta}

    def __enter__(self) -> Self:
        """Answer itself; leaving the block hangs up."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        self._answers.close()
        self._socket.close()

    def say(self, document: object) -> None:
        """Write one line."""
        self.say_raw(json.dumps(document).encode())

    def say_raw(self, line: bytes) -> None:
        """Write one line as it is."""
        self._socket.sendall(line + b"\n")

    def hear(self) -> dict[str, Any]:
        """Read the next line; an empty document when the daemon hung up."""
        return dict(json.loads(self._answers.readline() or b"{}"))

    def send(self, method: str, **params: Any) -> int:
        """Ask for something, and return the id of the request."""
        self._last_id += 1
        asked = {"id": self._last_id, "method": method, "params": params | self._more}
        self.say({"jsonrpc": "2.0", **asked})
        return self._last_id

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask for something and wait for the answer."""
        number = self.send(method, **params)
        answer = self.hear()
        assert answer["id"] == number
        return answer

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
        """Call a tool; return whether it failed, and what it said."""
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        (content,) = result["content"]
        return bool(result.get("isError")), dict(json.loads(content["text"]))


class RelayedLines(Lines):
    """The same through a real `taskmem mcp`, which can be killed."""

    def __init__(
        self,
        home: Home,
        client: str = "by hand",
        protocol: str = PROTOCOLS[0],
        offers: str | None = None,
        **settings: str,
    ) -> None:
        """Start it as a host does, and say hello likewise."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [COMMAND, "mcp"], stdin=theirs, stdout=theirs, env=environment(home, **settings)
            )
        self._begin(ours, client, protocol, offers=offers)

    def kill(self) -> None:
        """Kill it as the system does that has no memory left."""
        self._process.kill()
        status_of(self._process)

    def __exit__(self, *_: object) -> None:
        """Hang up, and let it end."""
        super().__exit__()
        status_of(self._process)
