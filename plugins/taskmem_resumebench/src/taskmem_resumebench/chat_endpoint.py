"""Ask an OpenAI-compatible endpoint for the next message, and bear with what it may do.

One that is busy is asked again after the time that it names; one that never ends its answer is cut
off. No redirect is followed, since it would carry the key elsewhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

MOST_TRIES: Final = 5
LONGEST_REST: Final = 60.0
"""Seconds to the next try, whatever the endpoint names."""
MOST_BYTES: Final = 1 << 20
MOST_SECONDS: Final = 120.0
"""For one answer."""
MOST_TOKENS: Final = 1024
_BUSY: Final = (408, 429, 500, 502, 503, 504)


class EndpointFailed(Exception):
    """The endpoint refused, or gave no answer that can be used; the message says so."""


class _Busy(Exception):
    """It may be asked again."""

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
    read_clock: Callable[[], float] = time.monotonic  # noqa: TID251 - an answer is waited for

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
                    self.rest(min(max(named, 0.0), LONGEST_REST))
        raise EndpointFailed(f"{self.url} was asked {MOST_TRIES} times: {why}.")

    def _ask_once(self, body: bytes) -> dict[str, Any]:
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        said = {"Content-Type": "application/json"}
        if self.key:
            said["Authorization"] = f"Bearer {self.key}"
        with closing(kind(parts.hostname or "", parts.port, timeout=MOST_SECONDS)) as link:
            try:
                link.request("POST", f"{parts.path.rstrip('/')}/chat/completions", body, said)
                response = link.getresponse()
                text = self._read_body(response)
            except (HTTPException, OSError) as error:
                raise _Busy(f"no answer ({type(error).__name__})") from error
        if response.status in _BUSY:
            named = response.getheader("Retry-After", "")
            raise _Busy(f"status {response.status}", float(named) if named.isdigit() else None)
        if response.status != 200:  # noqa: PLR2004 - OK
            raise EndpointFailed(f"{self.url} answered with status {response.status}.")
        return _read_message(text)

    def _read_body(self, response: HTTPResponse) -> bytes:
        due = self.read_clock() + MOST_SECONDS
        text = b""
        while piece := response.read1(1 << 16):
            text += piece
            if len(text) > MOST_BYTES or self.read_clock() > due:
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
    said = parts.scheme in {"http", "https"} and host != b"" and port != 0
    return said and parts.path.isascii()


def _read_message(text: bytes) -> dict[str, Any]:
    try:
        message = json.loads(text)["choices"][0]["message"]
    except (ValueError, LookupError, TypeError) as error:
        raise _Busy("an answer without a message") from error
    if not isinstance(message, dict):
        raise _Busy("an answer without a message")
    return cast("dict[str, Any]", message)
