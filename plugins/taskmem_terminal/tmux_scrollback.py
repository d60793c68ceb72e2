"""A pane's bytes: its scrollback, and everything it printed since.

Offsets into them are meaningless after a restart. A *mark* (`CursorPosition`) is not: it says on
which line the cursor was and what was above it, so that the same line can be found in a new capture
of the scrollback. Later output is after that line.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2s
from typing import Final, NamedTuple

from taskmem_terminal.render import mask_strings, render_lines
from taskmem_terminal.tmux_panes import Pane
from taskmem_terminal.typed_lines import TypedLineDetector, TypingState

KEPT_BYTES: Final = 4 << 20
"""Bytes of a pane's output retained at least, for waits that have not read it; at most twice."""
SCROLLBACK_LINES: Final = 5000
"""How far back a restarted daemon reads. Lines."""
ABOVE_LINES: Final = 10
"""Lines above the screen that a mark may need."""
_MARK_LINES: Final = 3
_SHOWN_BYTES: Final = 16_384


class CursorPosition(NamedTuple):
    """Position of a pane's cursor."""

    row: int
    """Counted from the beginning of the scrollback."""
    column: int
    above: str
    """Fingerprint of the lines above; empty: there are none."""

    def __str__(self) -> str:
        """Format for `parse`."""
        return f"{self.row},{self.column},{self.above}"

    @classmethod
    def parse(cls, text: str) -> CursorPosition:
        """Parse what `__str__` wrote.

        Raises:
            ValueError: It is not a position.
        """
        row, column, above = text.split(",")
        return cls(int(row), int(column), above)


class Scrollback:
    """Lines of a pane at one moment, up to the cursor's."""

    def __init__(self, pane: Pane, captured: list[bytes], above: int) -> None:
        """Set the output of `capture-pane -J`, which begins `above` lines above the screen.

        Args:
            pane: The pane at that moment.
            captured: Its lines; wrapped ones are joined.
            above: How many lines above the screen were requested.
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
        """Return the position of the cursor."""
        pane = self._pane
        return CursorPosition(
            pane.history + pane.row, pane.column, self._fingerprint_above(len(self.lines) - 1)
        )

    def format_screen(self) -> str:
        """Return the screen up to the cursor, without typed lines."""
        lines = [
            line.decode(errors="replace")
            for row, line in zip(self._rows, self.lines, strict=True)
            if row >= self._pane.history
        ]
        typist = TypedLineDetector(TypingState.NOTHING, interactive=True)
        return "\n".join(x for x in lines if not typist.read(x.encode(), [x]))

    def get_cursor_line(self) -> str:
        """Return the text before the cursor on its line."""
        if not self.lines:
            return ""
        text = self.lines[-1].decode(errors="replace")
        before = self._pane.column
        before += max(0, (len(text) - 1)) // self._pane.columns * self._pane.columns
        return text[:before]

    def to_bytes(self) -> bytes:
        """Return bytes that would show these lines."""
        if not self.lines:
            return b""
        # The cursor may be before or after the end of its line.
        at = f"\r\x1b[{self._pane.column}C".encode() if self._pane.column else b"\r"
        return b"\r\n".join(self.lines) + at

    def find_position(self, mark: CursorPosition) -> tuple[int, int]:
        """Return line and offset where the output after a mark begins.

        The offset is into `to_bytes()`. If no line matches the mark, everything is new.
        """
        index = self._find_index(mark)
        offset = self.find_offset(index)
        if index < len(self.lines):
            begin = self.lines[index].decode(errors="replace")[: mark.column]
            offset += len(begin.encode())
        return index, min(offset, len(self.to_bytes()))

    def find_line_after(self, shown: Sequence[str]) -> int | None:
        """Return the index of the line after the last occurrence of `shown`; None: not found."""
        lines = [
            (index, text)
            for index, line in enumerate(self.lines)
            if (text := line.decode(errors="replace"))
        ]
        for end in range(len(lines), len(shown) - 1, -1) if shown else ():
            if [text for _, text in lines[end - len(shown) : end]] == [*shown]:
                return lines[end - 1][0] + 1
        return None

    def find_offset(self, index: int) -> int:
        """Return the offset of a line in `to_bytes()`."""
        return sum(len(line) + 2 for line in self.lines[: max(0, index)])

    def _find_index(self, mark: CursorPosition) -> int:
        rows = range(len(self.lines))
        same = next((n for n in reversed(rows) if self._rows[n] <= mark.row), 0)
        if not self.lines or self._fingerprint_above(same) == mark.above:
            return same
        # The scrollback lost its first lines, or its lines wrap differently now.
        moved = [n for n in rows if mark.above and self._fingerprint_above(n) == mark.above]
        return max(moved, default=0)

    def _fingerprint_above(self, index: int) -> str:
        lines = [line for line in self.lines[:index] if line][-_MARK_LINES:]
        return blake2s(b"\n".join(lines), digest_size=8).hexdigest() if lines else ""


class PaneBuffer:
    """The bytes of a pane, of which the oldest may be lost."""

    def __init__(self, scrollback: Scrollback) -> None:
        self.scrollback = scrollback
        self._data = bytearray(scrollback.to_bytes())
        self.begin = 0
        """Offset of the first retained byte."""

    @property
    def end(self) -> int:
        """Offset after the last byte."""
        return self.begin + len(self._data)

    def append(self, data: bytes) -> None:
        """Append output of the pane."""
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
        """Return the last finished lines, as shown."""
        raw = mask_strings(bytes(self._data[-_SHOWN_BYTES:])).split(b"\n")[:-1]
        lines = [line for lines in render_lines(raw) for line in lines if line]
        return lines[-_MARK_LINES:]


def _count_columns(line: bytes) -> int:
    if line.isascii():
        return len(line)
    from unicodedata import east_asian_width

    text = render_lines([line])[0][0]
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
