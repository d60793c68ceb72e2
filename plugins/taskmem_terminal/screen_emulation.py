"""Emulate the screen of a program that moves the cursor, using pyte.

pyte is slow (about 0.2 MB/s) and fails on unknown sequences, so it gets only text and cursor
sequences, in bounded amounts.
"""

from __future__ import annotations

import asyncio
import codecs
import importlib
import re
from functools import partial
from typing import Any, Final
from unicodedata import combining

from taskmem_terminal.render import STRING_BYTES, find_open_string

PAINTED_BYTES: Final = 65_536
"""Maximum fed for one look; earlier data is skipped. Bytes."""
_SLICE_BYTES: Final = 4096
"""Bytes fed before the event loop is yielded: about 20 ms."""
_LARGEST_SIDE: Final = 500
"""Maximum width and height of the screen; a larger terminal is cut. Cells."""
_MOST_MARKS: Final = 8
"""Maximum number of combining marks on one letter."""

_SCREEN_SWITCH: Final = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])")
_KEPT_SEQUENCE: Final = re.compile(rb"\x1b\[[0-9;]{0,64}[ABCDEFGHJKLMPX@`adefr]\Z")
_SEQUENCE: Final = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)"
    rb"|[P_^X][^\x1b]*\x1b\\|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])|[\x00\x0e\x0f\x7f]"
)
_UNENDED_SEQUENCE: Final = re.compile(rb"\x1b(?:\[[0-?]*)?[ -/]*\Z")


class ScreenEmulator:
    """The screen of one terminal, painted from some offset on."""

    def __init__(self, columns: int, rows: int) -> None:
        self.at: int | None = None
        """Offset up to which it was painted; None: not yet."""
        self.size = (columns, rows)
        self._reset_state()

    async def paint(self, data: bytes, end: int) -> None:
        """Paint bytes that end at offset `end`; after a gap, start with a blank screen."""
        begin = end - len(data)
        if self.at is None or self.at < begin:
            self._reset_state()
        elif self.at > begin:
            data = data[self.at - begin :]
        self.at = end
        parts = _SCREEN_SWITCH.split(data)
        for n, part in enumerate(parts):
            if n % 2:
                self._switch_screen(on=part == b"h")
                continue
            for cut in range(0, len(part), _SLICE_BYTES):
                self._feed(part[cut : cut + _SLICE_BYTES])
                await asyncio.sleep(0)

    def read_lines(self) -> list[str]:
        """Return the lines of the screen, without empty ones at the end."""
        lines = [str(line).rstrip() for line in self._screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _reset_state(self) -> None:
        self._aside: tuple[Any, Any] | None = None
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._cut: bytes = b""
        self._screen, self._stream = self._make_blank_screen()

    def _make_blank_screen(self) -> tuple[Any, Any]:
        pyte: Any = importlib.import_module("pyte")
        screen = pyte.Screen(*(max(1, min(side, _LARGEST_SIDE)) for side in self.size))
        screen.erase_in_display = partial(_erase_display, screen)
        return screen, pyte.Stream(screen)

    def _switch_screen(self, *, on: bool) -> None:
        """Switch to the alternate screen, which pyte does not have, or back."""
        if on and self._aside is None:
            self._aside = (self._screen, self._stream)
            self._screen, self._stream = self._make_blank_screen()
        elif not on and self._aside is not None:
            self._screen, self._stream = self._aside
            self._aside = None

    def _feed(self, data: bytes) -> None:
        data = self._cut + data
        # Hold back a sequence that has not ended yet.
        cut = find_open_string(data)
        last = data.rfind(b"\x1b", max(0, cut - STRING_BYTES), cut)
        if last >= 0 and _UNENDED_SEQUENCE.match(data, last, cut):
            cut = last
        data, self._cut = data[:cut], data[cut:]
        data = _SEQUENCE.sub(_keep_cursor_sequence, data)
        text = self._text.decode(data)
        try:
            self._stream.feed(text)
            if not text.isascii() and any(map(combining, text)):
                self._trim()
        except Exception:  # noqa: BLE001 - whatever pyte stumbles over, others go on
            self._screen, self._stream = self._make_blank_screen()

    def _trim(self) -> None:
        """Remove excess combining marks, because pyte gets slower with each."""
        for line in self._screen.buffer.values():
            for at, cell in line.items():
                if len(cell.data) > _MOST_MARKS:
                    line[at] = cell._replace(data=cell.data[:_MOST_MARKS])


def _erase_display(screen: Any, how: int = 0, *_: int, **_private: bool) -> None:  # noqa: ANN401
    """Erase rows by removing them; pyte's own way rewrites the whole screen."""
    row = screen.cursor.y
    rows = {0: range(row + 1, screen.lines), 1: range(row)}
    if how in rows:
        screen.erase_in_line(how)
    for row in rows.get(how, range(screen.lines)):
        screen.buffer.pop(row, None)


def _keep_cursor_sequence(found: re.Match[bytes]) -> bytes:
    sequence = found.group()
    if _KEPT_SEQUENCE.match(sequence) or sequence in (
        *(b"\x1b7", b"\x1b8", b"\x1bM", b"\x1bD", b"\x1bE", b"\x1bc"),
    ):
        return sequence
    return b""
