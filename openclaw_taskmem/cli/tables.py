"""Print tables and lines for people: fitted to the terminal, coloured where there is one.

Texts are printed as they are: they can neither control the terminal nor pass for markup. In a pipe
or a file there is no colour and no wrapping, so that each row is one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from math import inf
from typing import Final, NamedTuple

import click
from rich.cells import cell_len, chop_cells

from openclaw_taskmem.domain.text.texts import format_short_duration, to_one_line, to_printable

GAP: Final = "  "
"""Blanks between two columns."""
_NARROWEST_COLUMN: Final = 9
"""Columns of the narrowest column that wraps."""
_SHORT_ID: Final = 7
"""Characters of an id in a list: those that are random."""
_COLOUR_CODES: Final = {"red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_CODES: Final = {"bold": "1", "dim": "2", **_COLOUR_CODES}
"""Codes for a terminal, by the words of a style."""
_COLOURS: Final[Mapping[str, str]] = {
    state: style
    for style, states in (
        ("green", "on, ok, running, at work, completed, resolved, acknowledged"),
        ("green", "proved, checked, removed"),
        ("yellow", "needs you, blocked, review, timeout, unanswered"),
        ("yellow", "warn, unverified, not verified"),
        ("bold red", "failed, refuted, error, refused, broken, fail, absent, empty, old"),
        ("cyan", "waiting, watching, queued, due, sent, active"),
        ("dim", "off, cancelled, superseded, kept, paused"),
    )
    for state in states.split(", ")
}
"""Colours of states."""


class Column(NamedTuple):
    """A column of a table."""

    title: str
    right: bool = False
    """True to align its cells to the right."""
    fixed: bool = False
    """True if its cells never wrap."""
    style: str = ""


class Cell(NamedTuple):
    """A text with a style of its own, such as `bold red`."""

    text: str
    style: str = ""


class Table(NamedTuple):
    """A table; in a row a None cell is a dash, and missing cells are empty."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Cell | None]]
    blanks: int = 0
    """Blanks before each line."""
    titled: bool = True
    """True if it begins with a line of titles."""


class Paragraph(NamedTuple):
    """A text, which may begin with blanks of its own, and what stands beside its last line."""

    text: Cell
    beside: Cell = Cell("")
    blanks: int = 0
    """Blanks before each line."""


class Screen(NamedTuple):
    """Where lines are printed."""

    columns: float
    """Infinite in a pipe or a file."""
    rows: float
    codes: Mapping[str, str]
    """The words of styles that it shows, and what it is told for each."""


def find_screen() -> Screen:
    """Return the standard output as it is now."""
    if not sys.stdout.isatty():
        return Screen(inf, inf, {})
    import shutil

    columns, rows = shutil.get_terminal_size()
    plain = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
    codes = {} if plain else _CODES
    if os.environ.get("NO_COLOR"):
        codes = {word: code for word, code in codes.items() if word not in _COLOUR_CODES}
    return Screen(columns, rows, codes)


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Cell | None]]) -> None:
    """Print a table."""
    print_all([Table(columns, rows)])


def print_all(drawn: Iterable[Table | Paragraph]) -> None:
    """Print tables and texts, each as it comes."""
    screen = find_screen()
    for each in drawn:
        for line in lay_out(each, screen):
            click.echo(line, color=True)


def lay_out(drawn: Table | Paragraph, screen: Screen) -> Iterator[str]:
    """Yield the lines of a table or a text, without blanks at their ends.

    They wrap between words if the screen is too narrow; a word that is longer than its line is
    folded, so nothing is lost.
    """
    if isinstance(drawn, Table):
        yield from _lay_out_table(drawn, screen)
        return
    room = screen.columns - drawn.blanks
    lines = _wrap_text(drawn.text.text, room)
    beside = f"{GAP}{_paint(drawn.beside, screen)}" if drawn.beside.text else ""
    if cell_len(lines[-1] + GAP + drawn.beside.text) > room and beside:
        lines, beside = [*lines, ""], beside.lstrip()
    painted = [_paint(Cell(line, drawn.text.style), screen) for line in lines]
    for line in (*painted[:-1], painted[-1] + beside):
        yield f"{' ' * drawn.blanks}{line}".rstrip()


def _lay_out_table(table: Table, screen: Screen) -> Iterator[str]:
    columns = table.columns
    rows = [[Cell(column.title, "dim") for column in columns]] if table.titled else []
    for row in table.rows:
        cells = (*map(make_cell, row), *[Cell("")] * (len(columns) - len(row)))
        found = zip(cells, columns, strict=True)
        rows.append([Cell(cell.text, f"{column.style} {cell.style}") for cell, column in found])
    widths = _fit_widths(rows, columns, screen.columns - table.blanks)
    for row in rows:
        wrapped = (_wrap_text(cell.text, width) for cell, width in zip(row, widths, strict=True))
        for texts in zip_longest(*wrapped, fillvalue=""):
            parts = [" " * table.blanks]
            for text, cell, column, width in zip(texts, row, columns, widths, strict=True):
                pad = " " * int(width - cell_len(text))
                shown = _paint(Cell(text, cell.style), screen)
                parts += (pad, shown, GAP) if column.right else (shown, pad, GAP)
            yield "".join(parts).rstrip()


def _fit_widths(
    rows: Sequence[Sequence[Cell]], columns: Sequence[Column], room: float
) -> list[float]:
    """Return the widths of columns; as long as they have no room, the widest gets narrower.

    A terminal that is narrower than all columns at their narrowest wraps the lines itself.
    """
    *before, last = (
        max(cell_len(column.title), *(cell_len(row[n].text) for row in rows), 0)
        for n, column in enumerate(columns)
    )
    natural = [*(width + len(GAP) for width in before), last]
    least = [*(_NARROWEST_COLUMN + len(GAP) for _ in before), _NARROWEST_COLUMN]
    widths = [
        width if column.fixed else max(narrowest, min(width, room))
        for width, narrowest, column in zip(natural, least, columns, strict=True)
    ]
    while sum(widths) > room:
        yielding = [n for n, c in enumerate(columns) if not c.fixed and widths[n] > least[n]]
        if not yielding:
            break
        widths[max(yielding, key=lambda n: (widths[n], n))] -= 1
    return [*(width - len(GAP) for width in widths[:-1]), widths[-1]]


def _wrap_text(text: str, width: float) -> list[str]:
    """Return a text as lines of a width at most."""
    if cell_len(text) <= width:
        return [text]
    lines: list[str] = []
    line: str | None = None
    for word in text.split(" "):
        if line is not None and cell_len(f"{line} {word}") <= width:
            line = f"{line} {word}"
            continue
        if line is not None:
            lines.append(line)
        *full, line = chop_cells(word, int(max(1, width))) or [""]
        lines += full
    return [*lines, line or ""]


def _paint(cell: Cell, screen: Screen) -> str:
    """Return a text with what the screen is told for its style."""
    codes = [screen.codes[word] for word in cell.style.split() if word in screen.codes]
    if not codes or not cell.text.strip():
        return cell.text
    return f"\x1b[{';'.join(codes)}m{cell.text}\x1b[0m"


def format_age(instant: str | datetime | None, now: datetime) -> str:
    """Return how long ago an instant was: `3 min`, `2 d`; None becomes a dash."""
    if instant is None:
        return "-"
    at = datetime.fromisoformat(instant) if isinstance(instant, str) else instant
    return format_short_duration((now - at).total_seconds())


def format_local_time(instant: str | datetime, now: datetime | None = None) -> str:
    """Return an instant in the local time zone; with `now`, the day only if it is another one."""
    at = datetime.fromisoformat(instant) if isinstance(instant, str) else instant
    local = at.astimezone()
    is_today = now is not None and local.date() == now.astimezone().date()
    return f"{local:%H:%M:%S}" if is_today else f"{local:%Y-%m-%d %H:%M:%S}"


def format_short_id(any_id: str) -> str:
    """Return the end of an id, by which commands find it, too."""
    return any_id[-_SHORT_ID:]


def paint_state(state: str) -> Cell:
    """Return a state in its colour."""
    return Cell(state, _COLOURS.get(state, ""))


def make_cell(cell: str | Cell | None) -> Cell:
    """Return a text on one line, with nothing that could control a terminal; None is a dash."""
    text, style = cell if isinstance(cell, Cell) else ("-" if cell is None else cell, "")
    return Cell(to_printable(to_one_line(text), "\ufffd"), style)
