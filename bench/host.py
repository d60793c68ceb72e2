"""An MCP host as light as can be: JSON lines through the pipes of a server."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

PROTOCOL = "2025-06-18"


class Host:
    """One session with one server, one call at a time."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the server; nothing is said yet."""
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
        )
        self._last_id = 0

    def __enter__(self) -> Self:
        """Answer itself; leaving the block ends the server."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the server by the end of its stdin."""
        self.process.communicate()

    def shake_hands(self) -> None:
        """Do the handshake."""
        self.ask(
            "initialize",
            {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            },
        )
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        answer = self.exchange(method, params)
        if "result" not in answer:
            raise SystemExit(f"{method} was answered with {answer}")
        return dict(answer["result"])

    def exchange(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer, which may be a refusal."""
        self._last_id += 1
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        answer = json.loads(self.process.stdout.readline())
        if answer.get("id") != self._last_id:
            raise SystemExit(f"{method} was answered with {answer}")
        return dict(answer)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> float:
        """Call a tool, and return the seconds until it answered."""
        start = time.perf_counter()
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        took = time.perf_counter() - start
        if result.get("isError"):
            raise SystemExit(f"{tool} refused: {result}")
        return took

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None  # noqa: S101 - it is a pipe
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
