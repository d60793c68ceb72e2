"""The board and the bank: an HTTP server on loopback with a ledger that can be asked.

`POST` adds an entry each time, as a payment without an idempotency key does. `GET` tells how often
an entry was made.
"""

from __future__ import annotations

import socketserver
import threading
from collections import Counter
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class _Visit(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        """Make an entry."""
        with self.server.lock:
            self.server.ledger[self.path] += 1
        self._answer("made")

    def do_GET(self) -> None:
        """Tell how often an entry was made."""
        with self.server.lock:
            times = self.server.ledger[self.path]
        self._answer(str(times))

    def _answer(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its caller's name
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    ledger: Counter[str]
    lock: threading.Lock


class BackgroundServer:
    """Serves on a thread until its block is left."""

    def __init__(self, server: socketserver.BaseServer) -> None:
        """Set the server, which listens already."""
        self._server = server
        # A signal between the start and the block's end must not keep the process alive.
        self._thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class LoopbackServer(BackgroundServer):
    """Serves until its block is left; requests are made over one connection."""

    def __init__(self) -> None:
        """Listen on a free port."""
        server = _Server(("127.0.0.1", 0), _Visit)
        server.ledger, server.lock = Counter(), threading.Lock()
        super().__init__(server)
        self._link = HTTPConnection("127.0.0.1", server.server_address[1])

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._link.close()
        super().__exit__()

    def add_entry(self, path: str) -> None:
        """Make an entry in the ledger."""
        self._ask("POST", path)

    def count_entries(self, path: str) -> int:
        """Ask how often an entry was made."""
        return int(self._ask("GET", path))

    def _ask(self, method: str, path: str) -> str:
        self._link.request(method, path)
        return self._link.getresponse().read().decode()
