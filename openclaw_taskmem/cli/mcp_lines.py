"""Split a stream into MCP lines, and parse them only as far as the relay needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

Id = int | float | str


_HEAD = 4096
_TAIL = 256
_SMALL_BYTES = 16 * 1024
_INVALID_REQUEST = -32600
_SERVER_ERROR = -32000
_ID = rb'("(?:[^"\\]|\\.)*"|-?\d{1,18})'
# Field orders of the official SDKs: Python's puts the id first, TypeScript's the
# method first and the id last.
_LEADING_ID = re.compile(
    rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*'
    + _ID
    + rb'\s*,\s*(?:"method"\s*:\s*"([^"\\]*)"|"(?:result|error)"\s*:)'
)
_METHOD = re.compile(rb'\s*\{\s*"method"\s*:\s*"([^"\\]*)"')
_TRAILING_ID = re.compile(rb'[{,]\s*"id"\s*:\s*' + _ID + rb"\s*\}\s*\Z")


class TruncatedLine(bytes):
    """The beginning and the end of a line that is too long."""

    __slots__ = ()


class LineSplitter:
    """Splits a stream into lines; drops the middle of a line that is too long as it comes."""

    def __init__(self, limit: int | None = None) -> None:
        """Start with an empty line.

        Args:
            limit: Bytes of the longest line, with its newline; None: no limit.
        """
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._long = b""

    def cut(self, chunk: bytes) -> Iterator[bytes]:
        """Add the next bytes; yield the lines that they complete, with newlines.

        A line over the limit is yielded as `TruncatedLine`.
        """
        start = 0
        while start < len(chunk):
            end = chunk.find(b"\n", start) + 1
            self._add_piece(chunk[start : end or None])
            if not end:
                return
            yield self._take_line()
            start = end

    def take_remainder(self) -> bytes:
        """Return the bytes after the last newline; `b""`: there are none."""
        return self._take_line()

    def _add_piece(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._long:
            end = (self._long[_HEAD:] + piece)[-_TAIL:]
            self._long = self._long[:_HEAD] + end
            return
        self._parts.append(piece)
        if self._limit is not None and self._size > self._limit:
            whole = b"".join(self._parts)
            self._long = whole[:_HEAD] + whole[-_TAIL:]
            self._parts.clear()

    def _take_line(self) -> bytes:
        line = TruncatedLine(self._long) if self._long else b"".join(self._parts)
        self._parts.clear()
        self._size, self._long = 0, b""
        return line


class McpMessage:
    """A line with its id and method."""

    __slots__ = ("cancels", "id", "line", "losses", "method")

    def __init__(
        self,
        line: bytes,
        id: Id | None = None,  # noqa: A002 (JSON-RPC's own word)
        method: str | None = None,
        cancels: Id | None = None,
    ) -> None:
        self.line = line
        """The line as received, with its newline."""
        self.id = id
        """The JSON-RPC id; None for a notification, and for a line that is not MCP."""
        self.method = method
        """None for an answer, and for a line that is not MCP."""
        self.cancels = cancels
        """Id of the request that this message cancels; None for other messages."""
        self.losses = 0
        """How many daemons have ended before they answered this message."""

    @property
    def is_request(self) -> bool:
        """True if it asks for an answer."""
        return self.method is not None and self.id is not None

    @property
    def is_answer(self) -> bool:
        """True if it answers a request."""
        return self.method is None and self.id is not None

    @property
    def wants_daemon(self) -> bool:
        """True if a daemon is started for it: for a request, and a line that is not MCP.

        None is for a notification, nor for an answer to a daemon that is gone.
        """
        return (self.method is None) == (self.id is None)


def read_message(line: bytes) -> McpMessage:
    """Find a line's id and method, without parsing it if its field order allows that.

    A line that is no JSON object has neither; an id or method of another type counts as none.
    """
    if front := _LEADING_ID.match(line):
        return McpMessage(line, json.loads(front[1]), _decode_method(front[2]))
    if (
        len(line) > _SMALL_BYTES
        and (method := _METHOD.match(line))
        and (back := _TRAILING_ID.search(line, len(line) - _TAIL))
    ):
        return McpMessage(line, json.loads(back[1]), _decode_method(method[1]))
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return McpMessage(line)
    if not isinstance(found, dict):
        return McpMessage(line)
    document = cast("dict[str, Any]", found)
    method = document.get("method")
    cancels: Id | None = None
    if method == "notifications/cancelled":
        params = document.get("params")
        if isinstance(params, dict):
            cancels = _to_id(cast("dict[str, Any]", params).get("requestId"))
    return McpMessage(
        line, _to_id(document.get("id")), method if isinstance(method, str) else None, cancels
    )


def find_request_id(line: TruncatedLine) -> Id | None:
    """Return the id of a request that was too long; None: it cannot be seen."""
    if front := _LEADING_ID.match(line):
        found = front[1] if front[2] is not None else None
    else:
        back = _METHOD.match(line) and _TRAILING_ID.search(line)
        found = back[1] if back else None
    return _to_id(json.loads(found)) if found else None


def build_refusal(to: Id | None, name: str, message: str) -> bytes:
    """Build the line that answers a request with an error.

    Args:
        to: The request's id; None: unknown.
        name: The error's name, for programs.
        message: One sentence that says what to do next.
    """
    code = _INVALID_REQUEST if name == "invalid_arguments" else _SERVER_ERROR
    data = {"error": name, "message": message}
    error = {"code": code, "message": message, "data": data}
    answer = {"jsonrpc": "2.0", "id": to, "error": error}
    return json.dumps(answer).encode() + b"\n"


def _to_id(value: object) -> Id | None:
    # As a dict key, True equals 1.
    if isinstance(value, bool):
        return None
    return value if isinstance(value, (int, float, str)) else None


def _decode_method(method: bytes | None) -> str | None:
    return None if method is None else method.decode(errors="replace")
