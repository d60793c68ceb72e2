"""Where the daemon's wakes come in: the socket of a gateway's plug-in, which takes them all."""

from __future__ import annotations

import json
import socketserver
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from taskmem_resumebench.loopback_server import BackgroundServer

NAME: Final = "openclaw.sock"
"""The socket's name, beside the daemon's."""


class _WakeVisit(socketserver.StreamRequestHandler):
    server: _WakeServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def handle(self) -> None:
        """Answer each request of a connection."""
        with suppress(ConnectionError):  # whoever asked was killed
            for line in self.rfile:
                asked = json.loads(line)
                answer = {}
                if asked["ask"] == "wake":
                    self.server.note_wake(str(asked["session_key"]))
                    answer = {"turn": "ordinary"}
                self.wfile.write(json.dumps(answer).encode() + b"\n")


class _WakeServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    note_wake: Callable[[str], None]


class WakeReceiver(BackgroundServer):
    """Takes the wakes of a home until its block is left."""

    def __init__(self, home: Path, note_wake: Callable[[str], None]) -> None:
        """Listen; `note_wake` is called with the session of each wake."""
        server = _WakeServer(str(home / NAME), _WakeVisit)
        server.note_wake = note_wake
        super().__init__(server)
