"""The gateway's WebSocket, as its own command line speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from websockets.sync.client import ClientConnection, connect

LIMIT = 200
"""Seconds for one answer."""

CLIENT = {"id": "gateway-client", "version": "0", "platform": "linux", "mode": "backend"}


class CallRefused(Exception):
    """The gateway refused a call."""


class Rpc:
    """One connection."""

    def __init__(self, line: ClientConnection) -> None:
        self._line = line
        self._numbers = count(1)
        self.hear()  # the challenge, which loopback need not answer

    def call(self, method: str, **params: Any) -> Any:
        """Call a method, and give its answer."""
        number = str(next(self._numbers))
        ask = {"type": "req", "id": number, "method": method, "params": params}
        self._line.send(json.dumps(ask))
        while True:
            said = self.hear()
            if said.get("id") == number and said["type"] == "res":
                if not said["ok"]:
                    raise CallRefused(json.dumps(said.get("error")))
                return said.get("payload")

    def hear(self, limit: float | None = LIMIT) -> dict[str, Any]:
        """The next thing that the gateway says; None: however long it takes."""
        return json.loads(self._line.recv(limit))

    def hang_up(self) -> None:
        """End the connection."""
        self._line.close()


@contextmanager
def open_rpc(port: int, token: str) -> Iterator[Rpc]:
    """A connection with the rights of the operator."""
    with connect(f"ws://127.0.0.1:{port}", max_size=None, proxy=None) as line:
        rpc = Rpc(line)
        rpc.call(
            "connect",
            minProtocol=4,
            maxProtocol=4,
            client=CLIENT,
            role="operator",
            scopes=["operator.admin"],
            caps=[],
            auth={"token": token},
        )
        yield rpc
