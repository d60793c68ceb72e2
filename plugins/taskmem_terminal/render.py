r"""Render bytes of a terminal as the lines that a person would have read.

    masked = mask_strings(data)           invisible strings become NULs, of equal length
    raw    = masked.split(b"\n")           so offsets into the lines are offsets into the data
    lines  = render_lines(raw)[n]         usually one; more if the cursor moved elsewhere

A line's rendering depends on its own bytes alone, so a look can begin at any line's start.
Therefore moving the cursor elsewhere ends a line here; `ScreenEmulator` says where text is on a
painted screen. It uses pyte, which is slow (about 0.2 MB/s) and fails on unknown sequences, so it
gets only text and cursor sequences, in bounded amounts.
"""

from __future__ import annotations

import asyncio
import codecs
import importlib
import re
from collections.abc import Generator
from functools import partial
from typing import Any, Final
from unicodedata import combining, east_asian_width

STRING_BYTES: Final = 65_536
"""An unended string, such as a title, that is longer is shown as ordinary text. Bytes."""
_WIDEST_MOVE: Final = 256
"""How far one sequence may move the cursor if the terminal's width is unknown. Columns."""
_FARTHEST_COLUMN: Final = 1 << 18
"""Maximum column: a line is never longer than a look."""
_TAB: Final = 8
_MOST_MARKS: Final = 8
"""Maximum number of combining marks on one letter."""
_MOST_DIGITS: Final = 9
"""Maximum number of digits read: enough for any terminal's size."""

_STRING_BEGINNING: Final = re.compile(rb"\x1b[]P_^X]")
_TITLE: Final = re.compile(rb"[^\x07\x1b\n]*+(?:(\x07|\x1b\\)|\x1b?\Z)")
_SEEN_MARK: Final = re.compile(rb"\x1b\]133;[A-D]")
_LONE_ESCAPE: Final = re.compile(rb"(?<!\x1b)(?:\x1b\x1b)*\x1b(?!\x1b)")
"""Two ESC in a row stand for one within a string; a single one ends the string."""
_OPEN_SEQUENCE: Final = re.compile(
    rb"(?:\x1b(?:\[[0-?]*[ -/]*|[ -/]*)"
    rb"|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)
"""A possible beginning of an escape sequence or of a character."""
_UNSEEN_SEQUENCE: Final = re.compile(
    rb"\x1b\[[0-9;:]*m|\x1b\[\?(?!(?:1049|1047|47)[hl])[0-9;]*[hl]"
    rb"|\x1b\[[<-?][0-9;]*[a-gi-km-zA-Z]|\x1b\[[0-9;]*(?: q|[nct])"
    rb"|\x1b[ -/]+[0-~]|\x1b[=>]|\x1b\]133;[^\x07\x1b\n]*(?:\x07|\x1b\\)|[\x00\x0e\x0f]"
    rb"|\xef\xbb\xbf"
)
"""Sequences that change no line: colours, modes, character sets, queries, a byte order mark."""
_UNSEEN_SIGNS: Final = (b"\x1b", b"\x00", b"\x0e", b"\x0f", b"\xef\xbb\xbf")
"""One of these is in each of those sequences."""
_RETURNS: Final = re.compile(rb"(?<!\r)\r+\n")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
_PAINTING_SEQUENCE: Final = re.compile(
    rb"\x1b(?:\[[0-9;]*[ABEFHfdSTLMru]|\[[23]J|\[\?(?:1049|1047|47)[hl]|[8McDE])"
)
_TOKEN: Final = re.compile(
    r"[^\x00-\x1f\x7f-\x9f]+"
    r"|\x1b\[(?P<numbers>[0-?]*)[ -/]*(?P<how>[@-~])"
    r"|\x1b(?P<alone>[0-~])"
    r"|[\x00-\x1f\x7f-\x9f]"
)


def mask_strings(data: bytes) -> bytes:
    """Replace strings such as titles and pictures by NULs of the same length."""
    if b"\x1b" not in data:
        return data
    masked = bytearray(data)
    for begin, end in _find_strings(data):
        if end and not _SEEN_MARK.match(data, begin):
            masked[begin:end] = bytes(end - begin)
    return bytes(masked)


def find_open_string(data: bytes) -> int:
    """Return the offset of a string that has not ended yet; the length if there is none."""
    near = len(data) - STRING_BYTES
    unended = (begin for begin, end in _find_strings(data) if not end and begin >= near)
    return next(unended, len(data))


def _find_strings(data: bytes) -> Generator[tuple[int, int]]:
    """Yield begin and end of each string, in order; end 0: it has not ended.

    Each byte is read a bounded number of times, whatever the data.
    """
    at = undone = 0
    while found := _STRING_BEGINNING.search(data, at):
        begin, at = found.span()
        if data[begin + 1 : at] == b"]":
            if title := _TITLE.match(data, at):
                at = title.end()
                yield begin, at if title[1] else 0
        elif begin >= undone:
            # Strings that begin before this escape end there or not at all.
            lone = _LONE_ESCAPE.search(data, at)
            undone = lone.end() - 1 if lone else len(data)
            if lone and data.startswith(b"\\", lone.end()):
                at = lone.end() + 1
                yield begin, at
            elif undone >= len(data) - 1:
                undone = len(data)
                yield begin, 0


def find_safe_cut(masked: bytes, at: int) -> int:
    """Return the offset at or before `at` where a long line can be cut."""
    escape = masked.rfind(b"\x1b", max(0, at - 64), at)
    if escape >= 0 and _OPEN_SEQUENCE.match(masked[escape:at]):
        return escape
    for back in range(1, 4):
        if at - back >= 0 and masked[at - back] & 0xC0 != 0x80:  # noqa: PLR2004
            return at - back if masked[at - back] >= 0xC0 else at  # noqa: PLR2004
    return at


def moves_cursor(data: bytes) -> bool:
    """Return whether the data moves the cursor to other lines."""
    return b"\x1b" in data and _PAINTING_SEQUENCE.search(data) is not None


def render_lines(raw: list[bytes], columns: int | None = None) -> list[list[str]]:
    """Return the visible text of each raw line, without trailing spaces.

    The lines are masked and without line feeds; the last one may be unfinished. `columns` is the
    terminal's width; None: unlimited, so nothing wraps.
    """
    if not raw:
        return []
    data = b"\n".join([*raw[:-1], _OPEN_SEQUENCE.sub(b"", raw[-1])])
    if any(sign in data for sign in _UNSEEN_SIGNS):
        data = _UNSEEN_SEQUENCE.sub(b"", data)
    if b"\r" in data:
        data = _RETURNS.sub(b"\n", data)
    if not _CONTROL.search(data):
        text = data.decode(errors="replace")
        if "\t" in text:
            text = text.expandtabs(_TAB)
        return [[line.rstrip()] for line in text.split("\n")]
    lines: list[list[str]] = []
    for line in data.split(b"\n"):
        text = line.decode(errors="replace")
        if _CONTROL.search(line):
            lines.append(_LineRenderer(columns).draw(text))
        else:
            lines.append([text.expandtabs(_TAB).rstrip()])
    return lines


class _LineRenderer:
    """Draws one line as a terminal does."""

    def __init__(self, columns: int | None) -> None:
        self._columns = columns
        self._cells: list[str] = []
        self._at = 0
        self._done: list[str] = []

    def draw(self, text: str) -> list[str]:
        """Return the lines that were visible each time the cursor moved elsewhere."""
        for token in _TOKEN.finditer(text):
            how, alone = token["how"], token["alone"]
            if how is not None:
                self._apply_sequence(how, token["numbers"])
            elif alone is not None:
                if alone in "8McDE":
                    self._finish_line()
            elif (piece := token.group()) >= " " and not "\x7f" <= piece <= "\x9f":
                self._put_text(piece)
            else:
                self._apply_control(piece)
        self._finish_line()
        return self._done or [""]

    def _apply_control(self, control: str) -> None:
        if control == "\r":
            self._at = self._find_row_start()
        elif control == "\b":
            self._at = max(self._at - 1, 0)
        elif control == "\t":
            self._move_to((self._at // _TAB + 1) * _TAB)
        elif control in "\v\f":
            self._finish_line()

    def _apply_sequence(self, how: str, numbers: str) -> None:
        if numbers.startswith("?") and how in "hl":
            self._finish_line()
            return
        first = numbers.partition(";")[0].lstrip("0")[:_MOST_DIGITS]
        given = int(first) if first.isascii() and first.isdecimal() else 0
        n = min(max(given, 1), self._columns or _WIDEST_MOVE)
        if how in "ABEFHfdSTLMru" or (how == "J" and given >= 2):  # noqa: PLR2004
            self._finish_line()
        elif how in "KJ":
            self._erase_row(given)
        elif how in "P@b":
            self._edit_row(how, n)
        else:
            self._move_or_blank(how, n)

    def _move_or_blank(self, how: str, n: int) -> None:
        match how:
            case "C" | "a":
                self._move_to(self._at + n)
            case "D":
                self._at = max(self._at - n, self._find_row_start())
            case "G" | "`":
                self._at = self._find_row_start() + n - 1
            case "X":
                self._blank_cells(self._at, min(self._at + n, len(self._cells)))
            case _:
                pass

    def _edit_row(self, how: str, n: int) -> None:
        """Delete or insert cells, which shifts those after them, or repeat the last letter."""
        at, end = self._at, self._find_shift_end()
        shifted = self._cells[at:end]
        match how:
            case "P":
                blanks = [" "] * n if end < len(self._cells) else []
                self._cells[at:end] = shifted[n:] + blanks
            case "@" if shifted:
                self._cells[at:end] = ([" "] * n + shifted)[: end - at]
            case "b" if at <= _FARTHEST_COLUMN:
                letter = "".join(self._cells[at - 1 : at])[:1]
                self._cells[at : at + n * len(letter)] = letter * n
                self._at += n * len(letter)
            case _:
                pass

    def _erase_row(self, which: int) -> None:
        row = self._find_row_start()
        end = len(self._cells)
        if self._columns is not None:
            end = min(end, row + self._columns)
        if which == 0:
            del self._cells[self._at :]
        elif which == 1:
            self._blank_cells(max(row, self._at - _WIDEST_MOVE), min(self._at + 1, end))
        elif self._columns is None:
            self._cells.clear()
        else:
            self._blank_cells(row, end)

    def _blank_cells(self, begin: int, end: int) -> None:
        if end > begin:
            self._cells[begin:end] = " " * (end - begin)

    def _find_shift_end(self) -> int:
        """Return the end of the cells that an insertion or deletion moves."""
        if self._columns is None:
            return self._at + _WIDEST_MOVE
        return self._find_row_start() + self._columns

    def _move_to(self, to: int) -> None:
        if self._columns is not None:
            to = min(to, self._find_row_start() + self._columns - 1)
        self._at = min(to, _FARTHEST_COLUMN)

    def _find_row_start(self) -> int:
        """Return the start of the screen row with the cursor."""
        if self._columns is None or self._at == 0:
            return 0
        # After the last column the cursor is still on that row.
        return (self._at - 1) // self._columns * self._columns

    def _put_text(self, text: str) -> None:
        if self._at > len(self._cells):
            self._cells.extend(" " * (self._at - len(self._cells)))
        if text.isascii():
            self._cells[self._at : self._at + len(text)] = text
            self._at += len(text)
            return
        for letter in text:
            width = _measure_width(letter)
            if width == 0 and self._at:
                if len(self._cells[self._at - 1]) <= _MOST_MARKS:
                    self._cells[self._at - 1] += letter
            else:
                cells = [letter] + [""] * (width - 1)
                self._cells[self._at : self._at + len(cells)] = cells
                self._at += len(cells)

    def _finish_line(self) -> None:
        """End the line: the cursor moved elsewhere, or the data ends."""
        line = "".join(self._cells).rstrip()
        if line:
            self._done.append(line)
        self._cells = []
        self._at = 0


def _measure_width(letter: str) -> int:
    if combining(letter) or letter in "\u200b\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


# --- painted screens ----------------------------------------------------------


PAINTED_BYTES: Final = 65_536
"""Maximum fed for one look; earlier data is skipped. Bytes."""
_SLICE_BYTES: Final = 4096
"""Bytes fed before the event loop is yielded: about 20 ms."""
_LARGEST_SIDE: Final = 500
"""Maximum width and height of the screen; a larger terminal is cut. Cells."""
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
        b"\x1b7",
        b"\x1b8",
        b"\x1bM",
        b"\x1bD",
        b"\x1bE",
        b"\x1bc",
    ):
        return sequence
    return b""
