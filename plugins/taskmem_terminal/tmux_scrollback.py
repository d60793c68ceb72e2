"""A pane's bytes: what its scrollback held, and all that it printed since.

Offsets into them mean nothing after a restart. A *mark* does: it says which line the
cursor stood on, and what stood above it, so that the same line is found again in a
scrollback that was read anew. What came meanwhile lies behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2s
from typing import Final, NamedTuple

from taskmem_terminal.render import mask_strings, render_lines
from taskmem_terminal.tmux_panes import Pane
from taskmem_terminal.typed_lines import TypedLineDetector, TypingState

KEPT_BYTES: Final = 4 << 20
"""Of what a pane printed, for waits that have not read it yet."""
SCROLLBACK_LINES: Final = 5000
"""How far back a restarted daemon looks for what it missed."""
ABOVE_LINES: Final = 10
"""Lines above the screen that a mark may need."""
_MARK_LINES: Final = 3
_SHOWN_BYTES: Final = 16_384


class CursorPosition(NamedTuple):
    """Where a pane's cursor stood."""

    row: int
    """Counted from the beginning of the scrollback."""
    column: int
    above: str
    """Fingerprint of the lines above; empty: there were none."""

    def __str__(self) -> str:
        """Return it as `parse` reads it."""
        return f"{self.row},{self.column},{self.above}"

    @classmethod
    def parse(cls, text: str) -> CursorPosition:
        """Read what `str` wrote.

        Raises:
            ValueError: It is no mark.
        """
        row, column, above = text.split(",")
        return cls(int(row), int(column), above)


class Scrollback:
    """Lines that a pane held at one moment, up to the cursor's."""

    def __init__(self, pane: Pane, captured: list[bytes], above: int) -> None:
        """Take what `capture-pane -J` gave, which begins `above` lines over the screen.

        Args:
            pane: How the pane was at that moment.
            captured: Its lines; those that wrap are one.
            above: How many lines were asked for above the screen.
        """
        first = pane.history - min(pane.history, above)
        self._rows: list[int] = []
        self.lines: list[bytes] = []
        self._pane = pane
        at = first
        for line in captured:
            if at > pane.history + pane.row:
                break
            self._rows.append(at)
            self.lines.append(line.rstrip(b" "))
            at += max(1, -(-_count_columns(line) // pane.columns))

    def get_cursor_position(self) -> CursorPosition:
        """Return where the cursor stands."""
        pane = self._pane
        return CursorPosition(
            pane.history + pane.row, pane.column, self._fingerprint_above(len(self.lines) - 1)
        )

    def format_screen(self) -> str:
        """Return the screen up to the cursor, without the lines that were typed."""
        lines = [
            line.decode(errors="replace")
            for row, line in zip(self._rows, self.lines, strict=True)
            if row >= self._pane.history
        ]
        typist = TypedLineDetector(TypingState.NOTHING, interactive=True)
        return "\n".join(x for x in lines if not typist.read(x.encode(), [x]))

    def get_cursor_line(self) -> str:
        """Return what stands before the cursor on its line."""
        if not self.lines:
            return ""
        text = self.lines[-1].decode(errors="replace")
        before = self._pane.column
        before += max(0, (len(text) - 1)) // self._pane.columns * self._pane.columns
        return text[:before]

    def to_bytes(self) -> bytes:
        """Return the lines as the bytes that would show them."""
        if not self.lines:
            return b""
        # The cursor may stand before the end of its line, or behind it.
        at = f"\r\x1b[{self._pane.column}C".encode() if self._pane.column else b"\r"
        return b"\r\n".join(self.lines) + at

    def find_position(self, mark: CursorPosition) -> tuple[int, int]:
        """Return line and offset at which what came after a mark begins.

        The offset is one into `data`. Where nothing is as it was, everything is new.
        """
        index = self._find_index(mark)
        offset = self.find_offset(index)
        if index < len(self.lines):
            begin = self.lines[index].decode(errors="replace")[: mark.column]
            offset += len(begin.encode())
        return index, min(offset, len(self.to_bytes()))

    def find_line_after(self, shown: Sequence[str]) -> int | None:
        """Return the line behind the last place where some stand; None: nowhere."""
        said = [
            (index, text)
            for index, line in enumerate(self.lines)
            if (text := line.decode(errors="replace"))
        ]
        for end in range(len(said), len(shown) - 1, -1) if shown else ():
            if [text for _, text in said[end - len(shown) : end]] == [*shown]:
                return said[end - 1][0] + 1
        return None

    def find_offset(self, index: int) -> int:
        """Return where a line begins in `data`."""
        return sum(len(line) + 2 for line in self.lines[: max(0, index)])

    def _find_index(self, mark: CursorPosition) -> int:
        rows = range(len(self.lines))
        same = next((n for n in reversed(rows) if self._rows[n] <= mark.row), 0)
        if not self.lines or self._fingerprint_above(same) == mark.above:
            return same
        # The scrollback was cut at its beginning, or its lines wrap elsewhere now.
        moved = [n for n in rows if mark.above and self._fingerprint_above(n) == mark.above]
        return max(moved, default=0)

    def _fingerprint_above(self, index: int) -> str:
        said = [line for line in self.lines[:index] if line][-_MARK_LINES:]
        return blake2s(b"\n".join(said), digest_size=8).hexdigest() if said else ""


class PaneBuffer:
    """The bytes of a pane, of which the oldest may be lost."""

    def __init__(self, scrollback: Scrollback) -> None:
        self.scrollback = scrollback
        self._data = bytearray(scrollback.to_bytes())
        self.begin = 0
        """The offset of the first byte that is kept."""

    @property
    def end(self) -> int:
        """The offset behind the last byte."""
        return self.begin + len(self._data)

    def append(self, data: bytes) -> None:
        """Keep what the pane printed."""
        self._data += data
        if len(self._data) > 2 * KEPT_BYTES:
            lost = len(self._data) - KEPT_BYTES
            del self._data[:lost]
            self.begin += lost

    def read(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes from an offset."""
        begin = max(0, at - self.begin)
        return bytes(self._data[begin : begin + size])

    def read_last_lines(self) -> Sequence[str]:
        """Return the last lines that are finished, as they are shown."""
        raw = mask_strings(bytes(self._data[-_SHOWN_BYTES:])).split(b"\n")[:-1]
        lines = [line for lines in render_lines(raw) for line in lines if line]
        return lines[-_MARK_LINES:]


def _count_columns(line: bytes) -> int:
    if line.isascii():
        return len(line)
    from unicodedata import east_asian_width

    text = render_lines([line])[0][0]
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
