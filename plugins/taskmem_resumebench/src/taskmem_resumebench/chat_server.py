"""An OpenAI-compatible endpoint on loopback, whose answers a function gives.

A gateway that is configured with it takes it for a language model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, Final, NamedTuple, cast

from taskmem_resumebench.loopback_server import BackgroundServer

MODEL: Final = "scripted"
_HEAD: Final = {"object": "chat.completion.chunk", "model": MODEL}
_USAGE: Final = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}


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
