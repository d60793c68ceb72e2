"""Read and write lines of MCP: each is one JSON document, and a request gets one answer.

The SDK drops a line that its parser rejects, and the sender then waits for ever. So a line is
written anew in the one way that the parser takes, or refused under its id. Lines are parsed only as
far as needed. Standard library only, since the relay is built on it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, cast

Id = int | float | str
POST: Final = "taskmem/post"
"""Method by which the daemon has a relay write into a socket; its ids begin with it."""


_HEAD_BYTES: Final = 4096
"""Size of the beginning that is kept of a line that is too long, and read of it at a glance."""
_TAIL_BYTES: Final = 256
"""Size of its end that is kept, and read at a glance."""
_SMALL_BYTES: Final = 16 * 1024
"""Longest message that is parsed whatever its field order."""
_INVALID_REQUEST: Final = -32600
"""JSON-RPC's code for a message that is no valid request."""
_SERVER_ERROR: Final = -32000
"""JSON-RPC's first code that servers may use for errors of their own."""
_TEXT: Final = r'"(?:[^"\\]++|\\.)*+"'
"""Pattern of a text with its quotes."""
_FLAT: Final = _TEXT + r'|[^\s,{}\[\]":]++(?=[\s,}])'
"""Pattern of a text, number or word that is there whole."""
_MEMBER: Final = re.compile(rf"\s*+[{{,]\s*+({_TEXT})\s*+:\s*+({_FLAT}|(?=\"))", re.DOTALL)
"""Pattern of the next member of an object, whose value may be a text without an end."""
_LAST_MEMBERS: Final = re.compile(rf"(?:,\s*+{_TEXT}\s*+:\s*+(?:{_FLAT})\s*+)++\}}\s*\Z", re.DOTALL)
"""Pattern of the members after the last list or object of an object."""
_TEXT_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
"""Also matches a string without an end, so that its quotes do not begin other strings."""
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
"""Pattern of half a character, for which the SDK's parser rejects a line."""
_MOST_LEVELS: Final = 100
"""Maximum nesting: more than a call may have, and less than the SDK's parser accepts."""
_MOST_DIGITS: Final = 4_300
"""Maximum length of a whole number that is read as one: Python reads and writes no longer one."""


class TruncatedLine(bytes):
    """The beginning and the end of a line that is too long."""

    __slots__ = ()


class _LongNumber(str):
    """The digits of a whole number that is too long to be read as one."""

    __slots__ = ()


class LineSplitter:
    """Splits a stream into lines; drops the middle of a line that is too long as it comes."""

    def __init__(self, limit: int | None = None) -> None:
        """Start with an empty line.

        `limit`: bytes of the longest line, with its newline; None: no limit.
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
            end = (self._long[_HEAD_BYTES:] + piece)[-_TAIL_BYTES:]
            self._long = self._long[:_HEAD_BYTES] + end
            return
        self._parts.append(piece)
        if self._limit is not None and self._size > self._limit:
            whole = b"".join(self._parts)
            self._long = whole[:_HEAD_BYTES] + whole[-_TAIL_BYTES:]
            self._parts.clear()

    def _take_line(self) -> bytes:
        line = TruncatedLine(self._long) if self._long else b"".join(self._parts)
        self._parts.clear()
        self._size, self._long = 0, b""
        return line


class LineRefused(Exception):
    """A line asks for an answer, and is no valid request; the message is what to answer."""

    def __init__(self, to: Id | None, sentence: str) -> None:
        super().__init__(f"{sentence} Nothing was done.")
        self.to = to
        """Id of the answer; None: it cannot be seen."""


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
        """None for an answer, and for a line that is not MCP; empty: it has none that is a text."""
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
    """Find a line's id and method, of a long line at a glance if its field order allows that.

    The id is the one under which the daemon answers. A line that can be answered under none, such
    as one that is no JSON object, has neither id nor method.
    """
    if len(line) > _SMALL_BYTES:
        members = _read_members(line)
        if _to_id(members.get("id")) is not None and ("method" in members or _is_answer(members)):
            return _build_message(line, members)
    try:
        document = parse_line(line)
    except ValueError:
        to = find_request_id(line)
        return McpMessage(line, to, None if to is None else "")
    if not isinstance(document, dict):
        return McpMessage(line)
    return _build_message(line, cast("dict[str, Any]", document))


def _build_message(line: bytes, members: dict[str, Any]) -> McpMessage:
    to = _to_id(members.get("id"))
    if _is_answer(members) or (to is None and "id" in members):
        return McpMessage(line, to)
    method, params = members.get("method"), members.get("params")
    cancels: Id | None = None
    if method == "notifications/cancelled" and isinstance(params, dict):
        cancels = _to_id(cast("dict[str, object]", params).get("requestId"))
    return McpMessage(line, to, method if isinstance(method, str) else "", cancels)


def _is_answer(members: dict[str, Any]) -> bool:
    return "method" not in members and not members.keys().isdisjoint(("result", "error"))


def split_batch(line: bytes) -> list[bytes]:
    """Return a line for each message of a batch, which newer versions of MCP do not know.

    Any other line is returned as it is.
    """
    if not line.lstrip(b"\xef\xbb\xbf \t\r").startswith(b"["):
        return [line]
    with suppress(ValueError):
        batch = parse_line(line)
        if isinstance(batch, list):
            return [json.dumps(each).encode() + b"\n" for each in cast("list[object]", batch)] or [
                line
            ]
    return [line]


def parse_line(line: bytes) -> Any:  # noqa: ANN401 - JSON
    """Parse a line; a byte order mark before it and control characters in texts are forgiven.

    A number that is too long becomes text, and what is nested deeper than `_MOST_LEVELS` becomes 0;
    a tool refuses either in words.

    Raises:
        ValueError: It is no JSON.
    """
    return _parse_text(_cut_deep_nesting(_decode_line(line)))


def fit_for_parser(line: bytes) -> str:
    """Write a line anew so that the SDK's parser takes it; empty: it asks for no answer.

    Raises:
        LineRefused: It asks for one, and cannot be taken.
    """
    if not line.strip():
        return ""
    try:
        document = parse_line(line)
    except ValueError as error:
        to = find_request_id(line)
        raise LineRefused(to, "The line is no JSON; send one message a line.") from error
    if not isinstance(document, dict):
        raise LineRefused(None, "The line is no JSON object; send one message a line.")
    message = cast("dict[str, Any]", document)
    if not _is_answer(message):
        try:
            _fit_request(message)
        except LineRefused:
            if "id" not in message:
                return ""
            raise
    return _SURROGATE.sub("\ufffd", json.dumps(message, ensure_ascii=False)) + "\n"


def _fit_request(request: dict[str, Any]) -> None:
    """Change a request, or a notification, into the form that the SDK's parser takes."""
    to = _to_id(request.get("id"))
    if "id" in request:
        if to is None or to != (whole := to if isinstance(to, str) else int(to)):
            raise LineRefused(to, "The id must be a text or a whole number.")
        if isinstance(whole, str) and _SURROGATE.search(whole):
            raise LineRefused(to, "The id must be a text of whole characters.")
        request["id"] = whole
    if not isinstance(request.get("method"), str):
        raise LineRefused(to, "The method must be a text.")
    request["jsonrpc"] = "2.0"
    for name in ("result", "error"):
        request.pop(name, None)
    if not isinstance(sent := request.pop("params", None) or {}, dict):
        raise LineRefused(to, "The params must be an object.")
    params = cast("dict[str, Any]", sent)
    if not isinstance(params.get("arguments"), dict | None):
        # The SDK refuses the call without a word: https://github.com/PrefectHQ/fastmcp/issues/932
        params["arguments"] = {"arguments": params["arguments"]}
    if params:
        request["params"] = params


def find_request_id(line: bytes) -> Id | None:
    """Return the id of a request that is too long or no JSON; None: it cannot be seen."""
    members = _read_members(line)
    return _to_id(members.get("id")) if "method" in members else None


def _read_members(line: bytes) -> dict[str, Any]:
    """Read the members of an object that stand at a line's beginning and end.

    Lists and objects, and what cannot be read, are read as None.
    """
    members: dict[str, Any] = {}
    texts = [_cut_deep_nesting(_decode_line(line[:_HEAD_BYTES]), 1, "null")]
    tail = line[max(_HEAD_BYTES, len(line) - _TAIL_BYTES) :]
    if last := _LAST_MEMBERS.search(_decode_line(tail)):
        texts.append(last[0])
    for text in texts:
        at = 0
        while member := _MEMBER.match(text, at):
            with suppress(ValueError):
                members[_parse_text(member[1])] = None
                members[_parse_text(member[1])] = _parse_text(member[2])
            at = member.end()
    return members


def build_refusal(to: Id | None, name: str, message: str) -> bytes:
    """Build the line that answers a request with an error.

    `to`: the request's id; None: unknown. `name`: the error's name, for programs.
    """
    code = _INVALID_REQUEST if name == "invalid_arguments" else _SERVER_ERROR
    data = {"error": name, "message": message}
    error = {"code": code, "message": message, "data": data}
    answer = {"jsonrpc": "2.0", "id": to, "error": error}
    return json.dumps(answer).encode() + b"\n"


def _to_id(value: object) -> Id | None:
    # As a dict key, True equals 1; JSON has no word for infinity.
    if isinstance(value, bool | _LongNumber):
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int | str) else None


def _decode_line(line: bytes) -> str:
    return line.decode(errors="replace").removeprefix("\ufeff")


def _parse_text(text: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads(text, strict=False, parse_int=_read_whole)


def _read_whole(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MOST_DIGITS else _LongNumber(digits)


def _cut_deep_nesting(line: str, most: int = _MOST_LEVELS, instead: str = "0") -> str:
    """Replace values nested deeper than `most` levels, so that the SDK answers.

    The rest is still too deep for a call, which is then refused.
    """
    if line.count("[") + line.count("{") <= most:
        return line
    parts: list[str] = []
    depth = start = 0
    for found in _TEXT_OR_BRACKET.finditer(line):
        if found[0] in "[{":
            depth += 1
            if depth == most + 1:
                parts.append(line[start : found.start()] + instead)
        elif found[0] in "]}":
            depth -= 1
            if depth == most:
                start = found.end()
    parts.append(line[start:] if depth <= most else "\n")
    return "".join(parts)
