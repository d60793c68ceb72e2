"""A language model as the agent, at an OpenAI-compatible endpoint.

An endpoint that is busy is asked again after the time that it names; one that never ends its answer
is cut off. No redirect is followed, since it would carry the key elsewhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from taskmem_resumebench.agents import Decision, Deed, Knowledge
from taskmem_resumebench.tasks import GeneratedTask, read_step

MOST_TRIES: Final = 5
LONGEST_MODEL_REST: Final = 60.0
"""Seconds to the next try, whatever the endpoint names."""
_MOST_BYTES: Final = 1 << 20
_MOST_SECONDS: Final = 120.0
"""For one answer."""
MOST_TOKENS: Final = 1024
_BUSY_STATUSES: Final = (408, 429, 500, 502, 503, 504)
MOST_REQUESTS: Final = 400
"""Requests for one task; a model that needs more gets nowhere."""
MOST_MALFORMED: Final = 5
"""Answers in a row that ask for nothing that can be done."""
_INSTRUCTION: Final = (
    "You carry out the user's steps, one tool call at a time, in order, each exactly once. You may "
    "have been interrupted: then a text says what is known of your work so far. A call that may or "
    "may not have been made is looked up before it is made again. When every step is done, answer "
    "with a short text and no tool call."
)
_INTERRUPTION_LINE: Final = "You were interrupted. What is known of your work:"
_DEEDS: Final = {"do_step": Deed.PERFORM, "look": Deed.LOOK, "note_done": Deed.NOTE}
_PURPOSES: Final = {
    "do_step": "Do a step, and note that it is done.",
    "look": "Look whether the effect of a step is there already; if so, it is noted as done.",
    "note_done": "Note that a step was done before.",
}
Ask = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], dict[str, Any]]


class EndpointFailed(Exception):
    """The endpoint refused, or gave no answer that can be used; the message says so."""


class _Busy(Exception):
    """The endpoint may be asked again."""

    def __init__(self, why: str, seconds: float | None = None) -> None:
        super().__init__(why)
        self.seconds = seconds


class ChatEndpoint(NamedTuple):
    """Where a model answers."""

    url: str
    """The base address, as clients are configured with: it ends before `/chat/completions`."""
    model: str
    key: str = ""
    rest: Callable[[float], None] = time.sleep
    read_clock: Callable[[], float] = time.monotonic

    def ask(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the model's next message.

        Raises:
            EndpointFailed: There is none.
        """
        body = json.dumps(
            {
                "model": self.model,
                "messages": [*messages],
                "tools": [*tools],
                "max_tokens": MOST_TOKENS,
                "temperature": 0,
            }
        ).encode()
        why = ""
        for number in range(MOST_TRIES):
            try:
                return self._ask_once(body)
            except _Busy as busy:
                why = str(busy)
                named = 2.0**number if busy.seconds is None else busy.seconds
                if number < MOST_TRIES - 1:
                    self.rest(min(max(named, 0.0), LONGEST_MODEL_REST))
        raise EndpointFailed(f"{self.url} was asked {MOST_TRIES} times: {why}.")

    def _ask_once(self, body: bytes) -> dict[str, Any]:
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        with closing(kind(parts.hostname or "", parts.port, timeout=_MOST_SECONDS)) as link:
            try:
                link.request("POST", f"{parts.path.rstrip('/')}/chat/completions", body, headers)
                response = link.getresponse()
                text = self._read_body(response)
            except (HTTPException, OSError) as error:
                raise _Busy(f"no answer ({type(error).__name__})") from error
        if response.status in _BUSY_STATUSES:
            named = response.getheader("Retry-After", "")
            raise _Busy(f"status {response.status}", float(named) if named.isdigit() else None)
        if response.status != 200:  # noqa: PLR2004 - OK
            raise EndpointFailed(f"{self.url} answered with status {response.status}.")
        return _read_message(text)

    def _read_body(self, response: HTTPResponse) -> bytes:
        due = self.read_clock() + _MOST_SECONDS
        text = b""
        while piece := response.read1(1 << 16):
            text += piece
            if len(text) > _MOST_BYTES or self.read_clock() > due:
                raise EndpointFailed(f"{self.url} does not end its answer.")
        return text


def is_address(url: str) -> bool:
    """Return True if an endpoint can be asked at an address of HTTP."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        port = parts.port
    except ValueError:
        return False
    is_complete = parts.scheme in {"http", "https"} and host != b"" and port != 0
    return is_complete and parts.path.isascii()


def _read_message(text: bytes) -> dict[str, Any]:
    try:
        message = json.loads(text)["choices"][0]["message"]
    except (ValueError, LookupError, TypeError) as error:
        raise _Busy("an answer without a message") from error
    if not isinstance(message, dict):
        raise _Busy("an answer without a message")
    return cast("dict[str, Any]", message)


def _describe_tool(name: str) -> dict[str, Any]:
    step = {"type": "string", "description": "The step's sentence, word for word."}
    form = {"type": "object", "properties": {"step": step}, "required": ["step"]}
    return {
        "type": "function",
        "function": {"name": name, "description": _PURPOSES[name], "parameters": form},
    }


_TOOLS: Final = tuple(_describe_tool(name) for name in _DEEDS)


class ModelMind:
    """The model with one task; everything it knows is in its messages."""

    def __init__(self, task: GeneratedTask, ask: Ask) -> None:
        """Begin with the user's request; `ask` returns the model's next message."""
        self._request, self._ask = task.request, ask
        self._requests = 0
        self._call_id = ""
        """The call whose result the model waits for; empty: none."""
        self.wake("")

    def wake(self, text: str) -> None:
        """Forget everything but the request, and read what the memory tells."""
        told = f"{self._request}\n\n{_INTERRUPTION_LINE}\n{text}" if text else self._request
        self._messages: list[dict[str, Any]] = [
            {"role": "system", "content": _INSTRUCTION},
            {"role": "user", "content": told},
        ]

    def hear_user(self, words: str) -> None:
        """Hear what the user says in the middle."""
        self._messages.append({"role": "user", "content": words})

    def hear_result(self, words: str) -> None:
        """Hear what became of the call."""
        self._answer(self._call_id, words)

    def decide(self, known: Knowledge, read_gate: Callable[[], str]) -> Decision | None:
        """Ask the model what to do next; None: it says that all is done, or gets nowhere."""
        del known
        for _ in range(MOST_MALFORMED):
            self._requests += 1
            if self._requests > MOST_REQUESTS:
                return None
            message = self._ask(self._messages, _TOOLS)
            calls = message.get("tool_calls")
            if not calls:
                return None
            self._messages.append(
                {"role": "assistant", "content": message.get("content") or "", "tool_calls": calls}
            )
            decision = self._read_calls(calls, read_gate())
            if decision is not None:
                return decision
        return None

    def _read_calls(self, calls: object, gate: str) -> Decision | None:
        """Read the first call; the rest are refused, as is one that asks for nothing known."""
        listed = cast("list[dict[str, Any]]", calls) if isinstance(calls, list) else []
        for extra in listed[1:]:
            self._answer(_read_id(extra), "Not done: one call at a time.")
        try:
            function = listed[0]["function"]
            deed = _DEEDS[function["name"]]
            sentence = str(json.loads(function["arguments"])["step"])
            call = read_step(sentence, gate)
        except (LookupError, TypeError, ValueError):
            if listed:
                self._answer(_read_id(listed[0]), "Not done: there is no such tool or step.")
            else:
                self._messages.pop()
            return None
        self._call_id = _read_id(listed[0])
        return Decision(deed, sentence, call)

    def _answer(self, call_id: str, words: str) -> None:
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": words})


def _read_id(call: object) -> str:
    return str(cast("dict[str, Any]", call).get("id", "")) if isinstance(call, dict) else ""
