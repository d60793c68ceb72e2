"""Lines of text between a socket and the MCP SDK, fit for its parser.

The SDK drops a line that its parser refuses, and its sender waits for ever. So a
line that is JSON is made into one that gets an answer, if only a refusal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import Final

_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_TEXT_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
"""A text that does not end is one too, or each of its quotes would begin another."""
MOST_BYTES: Final = 1024 * 1024
"""Of a line; relays and a gateway's plug-in refuse longer ones themselves. What is
made of a line may take fifty times its memory."""
MOST_COMMAS: Final = 100_000
"""In a line: what is made of a million values takes all others' time."""
TOO_LONG: Final = (
    f"The call is more than {MOST_BYTES >> 20} MiB or {MOST_COMMAS:,} values; shorten it."
)
_INVALID_REQUEST: Final = -32600
LONG: Final = 256 * 1024
"""Bytes of a line that is looked through off the event loop."""
_LEVELS: Final = 100
"""More than a call may have, and fewer than the SDK's parser knows."""


async def read_line(reader: asyncio.StreamReader, most: int = MOST_BYTES) -> bytes | None:
    """Return the next line; empty: there is none; None: it is more than is taken.

    `most`: its bytes. A line that is too long is read to its end, and no part of it
    is kept.
    """
    is_long = False
    while True:
        try:
            line = await reader.readuntil()
        except asyncio.LimitOverrunError as error:
            is_long = True
            await reader.readexactly(error.consumed)
            continue
        except asyncio.IncompleteReadError as error:
            line = error.partial
        is_long = is_long or len(line) > most
        return None if is_long or line.count(b",") > MOST_COMMAS else line


class LinesIn:
    """What a socket receives, as the lines of text that the SDK reads."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take what is received, and where a line that is too long is refused."""
        self._reader = reader
        self._writer = writer

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield line after line until the other end is done; a killed one is, too.

        A line that is longer than a call may be is refused in its place.
        """
        with contextlib.suppress(ConnectionError):
            async for line in self._read_lines():
                yield line

    async def _read_lines(self) -> AsyncIterator[str]:
        while (line := await read_line(self._reader)) != b"":
            if line is None:
                self._refuse()
            elif len(line) > LONG:
                yield await asyncio.to_thread(_fit_for_parser, line)
            else:
                yield _fit_for_parser(line)

    def _refuse(self) -> None:
        error = {"code": _INVALID_REQUEST, "message": TOO_LONG}
        refusal = {"jsonrpc": "2.0", "id": None, "error": error}
        self._writer.write(json.dumps(refusal).encode() + b"\n")


class LinesOut:
    """What the SDK writes, into a socket."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        """Take a line."""
        self._writer.write(text.encode(errors="replace"))

    async def flush(self) -> None:
        """Wait until the socket has room again.

        Where the other end has hung up, nobody waits: its last line was the end.
        """
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()


def _fit_for_parser(line: bytes) -> str:
    return _replace_surrogates(_cut_deep_nesting(line.decode(errors="replace")))


def _replace_surrogates(line: str) -> str:
    """Replace lone surrogates, which the SDK's parser refuses with the whole line."""
    if not _ESCAPED_SURROGATE.search(line):
        return line
    try:
        document = json.loads(line)
    except ValueError:
        return line
    text = json.dumps(document, ensure_ascii=False)
    return _SURROGATE.sub("\ufffd", text) + "\n"


def _cut_deep_nesting(line: str) -> str:
    """Put 0 in the place of what is nested so deep that the SDK would not answer.

    What is left is still too deep for a call, which is then refused.
    """
    if line.count("[") + line.count("{") <= _LEVELS:
        return line
    kept: list[str] = []
    depth = start = 0
    for found in _TEXT_OR_BRACKET.finditer(line):
        if found[0] in "[{":
            depth += 1
            if depth == _LEVELS + 1:
                kept.append(line[start : found.start()] + "0")
        elif found[0] in "]}":
            depth -= 1
            if depth == _LEVELS:
                start = found.end()
    kept.append(line[start:] if depth <= _LEVELS else "\n")
    return "".join(kept)
