"""Pass lines of text between a socket and the MCP SDK, in a form that its parser accepts.

The SDK drops a line that its parser rejects, and the sender then waits for ever. So each line of
JSON is changed, if needed, into one that gets an answer, even if only a refusal.
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
"""Also matches a string without an end, so that its quotes do not begin other strings."""
MOST_BYTES: Final = 1024 * 1024
"""Maximum size of a line; relays and a gateway's plug-in refuse longer ones themselves. The parsed
line may take fifty times its size in memory."""
MOST_COMMAS: Final = 100_000
"""Maximum number of commas in a line; parsing a million values would block all other calls."""
TOO_LONG: Final = (
    f"The call is more than {MOST_BYTES >> 20} MiB or {MOST_COMMAS:,} values; shorten it."
)
_INVALID_REQUEST: Final = -32600
LONG: Final = 256 * 1024
"""Size in bytes from which a line is checked off the event loop."""
_LEVELS: Final = 100
"""Maximum nesting: more than a call may have, and less than the SDK's parser accepts."""


async def read_line(reader: asyncio.StreamReader, most: int = MOST_BYTES) -> bytes | None:
    """Return the next line; empty at the end; None if it exceeds the limits.

    `most`: maximum size in bytes. A line that is too long is read to its end and discarded.
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
    """Lines that a socket receives, as the SDK reads them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read from `reader`, and refuse lines that are too long on `writer`."""
        self._reader = reader
        self._writer = writer

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield lines until the other end closes or is killed.

        A line that is longer than a call may be gets a refusal.
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
    """Lines that the SDK writes into a socket."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        """Write a line."""
        self._writer.write(text.encode(errors="replace"))

    async def flush(self) -> None:
        """Wait until the socket has room; return at once if the other end has disconnected."""
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()


def _fit_for_parser(line: bytes) -> str:
    return _replace_surrogates(_cut_deep_nesting(line.decode(errors="replace")))


def _replace_surrogates(line: str) -> str:
    """Replace lone surrogates, because the SDK's parser rejects the whole line for one."""
    if not _ESCAPED_SURROGATE.search(line):
        return line
    try:
        document = json.loads(line)
    except ValueError:
        return line
    text = json.dumps(document, ensure_ascii=False)
    return _SURROGATE.sub("\ufffd", text) + "\n"


def _cut_deep_nesting(line: str) -> str:
    """Replace values nested deeper than `_LEVELS` by 0, so that the SDK answers.

    The rest is still too deep for a call, which is then refused.
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
