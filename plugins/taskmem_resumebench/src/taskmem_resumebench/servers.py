"""Servers on a thread: the board and the bank, a model's endpoint, and where wakes come in."""

from __future__ import annotations

import json
import socketserver
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, cast

MODEL: Final = "scripted"
_HEAD: Final = {"object": "chat.completion.chunk", "model": MODEL}
_USAGE: Final = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
NAME: Final = "openclaw.sock"
"""The socket's name, beside the daemon's."""


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


class ToolCall(NamedTuple):
    """A tool call that the model asks for."""

    tool: str
    args: Mapping[str, Any]


Answer = str | Sequence[ToolCall]
"""A final text, or the tools to call next."""


def stream_answer(number: int, answer: Answer) -> Iterator[dict[str, Any]]:
    """Yield the pieces in which the answer to a request is streamed."""
    if isinstance(answer, str):
        deltas: Iterable[dict[str, Any]] = ({"role": "assistant", "content": answer},)
        return stream_deltas(number, deltas, "stop")
    calls = (
        {
            "index": index,
            "id": f"call_{number}_{index}",
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(call.args)},
        }
        for index, call in enumerate(answer)
    )
    opened = {"role": "assistant", "content": ""}
    return stream_deltas(
        number, (opened, *({"tool_calls": [call]} for call in calls)), "tool_calls"
    )


def stream_deltas(
    number: int, deltas: Iterable[Mapping[str, Any]], reason: str
) -> Iterator[dict[str, Any]]:
    """Yield the pieces of an answer: its deltas, why it ends, and what it cost."""
    head = {"id": f"chatcmpl-{number}", "created": number, **_HEAD}
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    yield {**head, "choices": [], "usage": _USAGE}


class ChatServer(BackgroundServer):
    """Serves until its block is left; `answer` is called on a thread for each request."""

    def __init__(self, answer: Callable[[dict[str, Any]], Answer]) -> None:
        """Listen on a free port."""
        server = _ModelServer(("127.0.0.1", 0), _AnsweredVisit)
        server.answer, server.numbers = answer, count(1)
        super().__init__(server)
        self._port = server.server_port

    @property
    def url(self) -> str:
        """The base address that a client is configured with."""
        return f"http://127.0.0.1:{self._port}/v1"


class _ModelServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    answer: Callable[[dict[str, Any]], Answer]
    numbers: Iterator[int]


class ModelVisit(BaseHTTPRequestHandler):
    """A client's request; what is answered to a POST is its subclass's."""

    def do_GET(self) -> None:
        """List the model."""
        self._start("application/json")
        listing = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
        self.wfile.write(json.dumps(listing).encode())

    def read_body(self) -> dict[str, Any]:
        """Return what was sent."""
        return cast(
            "dict[str, Any]", json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        )

    def send_pieces(self, pieces: Iterable[Mapping[str, Any]]) -> None:
        """Stream an answer; one that nobody reads any more is given up."""
        self._start("text/event-stream")
        try:
            for piece in pieces:
                self.wfile.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")
        except ConnectionError:
            """The gateway was killed."""

    def _start(self, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its caller's name
        """Say nothing."""


class _AnsweredVisit(ModelVisit):
    server: _ModelServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        """Answer a request."""
        answer = self.server.answer(self.read_body())
        self.send_pieces(stream_answer(next(self.server.numbers), answer))


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
