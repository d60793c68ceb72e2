"""A language model that follows a script: a server on loopback that speaks three protocols.

What it answers is decided by a Python callable, which sees one request's
messages and tools and nothing else; every request is kept for the test to read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Condition
from typing import Any

from taskmem_resumebench.openclaw_gateway import read_text as text_of
from taskmem_resumebench.servers import BackgroundServer, ModelVisit, stream_answer, stream_deltas
from taskmem_resumebench.servers import ToolCall as Call
from tests.e2e.dialects import find_dialect

MOST_REQUESTS = 80
"""What the script of one test asks for at most."""


@dataclass(frozen=True)
class Fault:
    """A refusal by the provider instead of an answer."""

    status: int
    said: str = "scripted failure"


@dataclass(frozen=True)
class StreamedText:
    """A final text that comes in pieces, each as soon as the script gives it."""

    pieces: Iterator[str]


Reply = str | Sequence[Call] | Fault | StreamedText
"""A final text, the tools to call next, or a failure of the provider."""


@dataclass(frozen=True)
class Turn:
    """What the current turn holds so far."""

    text: str
    """What came in from outside, events included."""
    results: tuple[str, ...]
    """The answers of the tools called since, in order."""

    @property
    def words(self) -> str:
        """The text without packets, which repeat what the user once asked for."""
        return without_packets(self.text)


@dataclass(frozen=True)
class ModelRequest:
    """One request that the model got."""

    messages: list[dict[str, Any]]
    tools: frozenset[str]
    body: dict[str, Any] = field(default_factory=dict)
    """All that was sent."""
    key: str = ""
    """What it was sent with: `Bearer …`."""

    @property
    def turn(self) -> Turn:
        """What followed the last final answer."""
        first = 0
        for n, each in enumerate(self.messages):
            if each["role"] == "assistant" and not each.get("tool_calls"):
                first = n + 1
        now = self.messages[first:]
        return Turn(
            text="\n".join(text_of(each) for each in now if each["role"] == "user"),
            results=tuple(text_of(each) for each in now if each["role"] == "tool"),
        )

    @property
    def opens_turn(self) -> bool:
        """Whether this is the first request of its turn."""
        return not self.turn.results


def without_packets(text: str) -> str:
    """A text without its lines that are packets."""
    return "\n".join(line for line in text.splitlines() if "[task_" not in line)


@dataclass
class ScriptedModel(BackgroundServer):
    """The server; use it as a context manager."""

    decide: Callable[[ModelRequest], Reply] = lambda _: "NO_REPLY"
    requests: list[ModelRequest] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    most: int = MOST_REQUESTS
    """Requests after which the script is going round in circles."""
    is_stranger: Callable[[ModelRequest], bool] = lambda _: False
    """Whether a request is none of the test's: it gets no answer, and is not kept."""

    def __post_init__(self) -> None:
        self._news = Condition()
        self._numbers = count(1)
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        super().__init__(server)
        self.url = f"http://127.0.0.1:{server.server_port}/v1"
        """The base address that a client is configured with."""

    def wait_for(self, predicate: Callable[[ModelRequest], object], limit: float) -> ModelRequest:
        """The first request, past or to come, that satisfies the predicate."""

        def find_request() -> ModelRequest | None:
            if self.errors:
                raise self.errors[0]
            return next((each for each in self.requests if predicate(each)), None)

        with self._news:
            request = self._news.wait_for(find_request, limit)
        if request is None:
            raise AssertionError(f"no such request in {limit:g} s\n{self.summary()}")
        return request

    def summary(self) -> str:
        """What the model was asked last, for a failure report."""
        lines = [f"{len(self.requests)} requests to the model; the last ones:"]
        for each in self.requests[-8:]:
            turn = each.turn
            news = turn.results[-1] if turn.results else turn.text
            lines.append(f"- after {len(turn.results)} tools: {news[-700:]!r}")
        return "\n".join(lines)

    def decide_reply(self, body: dict[str, Any], key: str = "") -> tuple[int, Reply]:
        """Keep a request, and give its number and what is answered."""
        request = ModelRequest(
            messages=body["messages"],
            tools=frozenset(each["function"]["name"] for each in body.get("tools", ())),
            body=body,
            key=key,
        )
        if self.is_stranger(request):
            return next(self._numbers), "NO_REPLY"
        with self._news:
            number = next(self._numbers)
            self.requests.append(request)
        # Outside: a script may let its session wait while others go on.
        try:
            assert number <= self.most, "the model is asked again and again"
            reply = self.decide(request)
        except Exception as error:  # noqa: BLE001 - the test hears of it in wait_for
            self.errors.append(error)
            reply = "The script failed."
        with self._news:
            self._news.notify_all()
        return number, reply


def stream_reply(number: int, reply: str | Sequence[Call] | StreamedText) -> Iterator[Any]:
    """The pieces in which an answer is streamed."""
    if not isinstance(reply, StreamedText):
        return stream_answer(number, reply)
    deltas = ({"role": "assistant", "content": piece} for piece in reply.pieces)
    return stream_deltas(number, deltas, "stop")


def _handler_for(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(ModelVisit):
        def do_POST(self) -> None:  # noqa: N802 - its caller's name
            key = self.headers.get("Authorization", "")
            dialect = find_dialect(self.path)
            body = self.read_body()
            number, reply = model.decide_reply(dialect.read(body) if dialect else body, key)
            if isinstance(reply, Fault):
                self._refuse(reply)
            elif dialect:
                self._send_events(dialect.write(number, reply))
            else:
                self.send_pieces(stream_reply(number, reply))

        def _send_events(self, events: Iterator[dict[str, Any]]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for event in events:
                text = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                self.wfile.write(text.encode())
            self.close_connection = True

        def _refuse(self, fault: Fault) -> None:
            error = {"message": fault.said, "type": "scripted", "code": fault.status}
            text = json.dumps({"error": error}).encode()
            self.send_response(fault.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return Handler
