"""Print tables and lines for people: fitted to the terminal, coloured where there is one.

Texts are printed as they are: they can neither control the terminal nor pass for markup. In a pipe
or a file there is no colour and no wrapping, so that each row is one line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import click
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.containers import Lines
from rich.measure import Measurement
from rich.table import Column as TableColumn
from rich.table import Table
from rich.text import Text

from openclaw_taskmem.domain.texts import format_short_duration, to_one_line, to_printable

UNLIMITED: Final = 100_000
"""Columns of a line that goes into a pipe or a file."""
GAP: Final = 2
"""Blanks between two columns."""

NARROWEST: Final = 9
"""Columns of the narrowest column that wraps."""
SHORT_ID: Final = 7
"""Characters of an id in a list: those that are random."""
_COLOURS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "on",
            "running",
            "at work",
            "checked",
            "removed",
            "completed",
            "resolved",
            "acknowledged",
            "ok",
            "proved",
        ),
        "green",
    ),
    **dict.fromkeys(
        (
            "needs you",
            "blocked",
            "review",
            "timeout",
            "unanswered",
            "warn",
            "unverified",
            "not verified",
        ),
        "yellow",
    ),
    **dict.fromkeys(
        ("failed", "refuted", "error", "refused", "broken", "fail", "absent", "empty", "old"),
        "bold red",
    ),
    **dict.fromkeys(("waiting", "watching", "queued", "due", "sent", "active"), "cyan"),
    **dict.fromkeys(("off", "cancelled", "superseded", "kept", "paused"), "dim"),
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


def make_console(*, to_error: bool = False) -> Console:
    """Return a console for the standard output, or for the error output."""
    stream = sys.stderr if to_error else sys.stdout
    if stream.isatty():
        return Console(file=stream, highlight=False, markup=False, emoji=False)
    return Console(
        file=stream, width=UNLIMITED, no_color=True, highlight=False, markup=False, emoji=False
    )


def build_table(columns: Sequence[Column], rows: Iterable[Sequence[str | Cell | None]]) -> Table:
    """Build a table with a line of headers; a None cell is a dash, missing cells are empty.

    Cells wrap between words if the terminal is too narrow; a word that is longer than its column
    is folded, so nothing is lost.
    """
    table = Table(box=None, padding=0, header_style="dim")
    kinds: list[type[Text]] = [*[_SpacedText] * (len(columns) - 1), Text]
    for column, kind in zip(columns, kinds, strict=True):
        gap = GAP if kind is _SpacedText else 0
        table.add_column(
            kind(column.title),
            justify="right" if column.right else "left",
            no_wrap=column.fixed,
            style=column.style,
            min_width=None if column.fixed else NARROWEST + gap,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(make_text(cell, kind) for cell, kind in zip(row, kinds, strict=False)))
    return table


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str | Cell | None]]) -> None:
    """Print a table as `build_table` makes it."""
    table, console = build_table(columns, rows), make_console()
    widen_console(console, table)
    print_renderable(table, console)


def print_beside(title: Cell, lines: Sequence[str], blanks: int) -> None:
    """Print a title, and lines beside it that wrap between words below each other."""
    table = Table.grid()
    table.add_column(width=blanks, no_wrap=True)
    table.add_column(min_width=NARROWEST, overflow="fold")
    for number, line in enumerate(lines):
        table.add_row("" if number else make_text(title), make_text(line))
    console = make_console()
    widen_console(console, table)
    print_renderable(table, console)


def widen_console(console: Console, table: Table, blanks: int = 0) -> None:
    """Give a table the width that it needs at least: the terminal may wrap, but nothing is cut.

    `blanks`: by how much it is indented.
    """
    needed = sum(_measure_narrowest(column) + GAP for column in table.columns)
    console.width = max(console.width, needed + blanks)


def _measure_narrowest(column: TableColumn) -> int:
    """Return the width of a column that cannot get narrower."""
    if not column.no_wrap:
        return NARROWEST
    return column.width or max(cell_len(str(each)) for each in (column.header, *column.cells))


def print_renderable(shown: RenderableType, console: Console) -> None:
    """Print to the console's stream, without blanks at the ends of lines."""
    with console.capture() as captured:
        console.print(shown)
    for line in captured.get().splitlines():
        click.echo(line.rstrip(), color=True)


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
    return any_id[-SHORT_ID:]


def paint_state(state: str) -> Cell:
    """Return a state in its colour."""
    return Cell(state, _COLOURS.get(state, ""))


class _SpacedText(Text):
    """A text with a gap at its right; Rich's own padding takes as long again as the text."""

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the narrowest and widest width, with the gap."""
        narrowest, widest = super().__rich_measure__(console, options)
        return Measurement(narrowest + GAP, widest + GAP)

    def wrap(self, console: Console, width: int, **options: Any) -> Lines:  # noqa: ANN401 - Rich's
        """Return the lines of the text, each with the gap."""
        lines = super().wrap(console, max(1, width - GAP), **options)
        for line in lines:
            line.pad_right(GAP)
        return lines


def make_text(cell: str | Cell | None, kind: type[Text] = Text) -> Text:
    """Return a text on one line, with nothing that could control a terminal; None is a dash."""
    text, style = cell if isinstance(cell, Cell) else ("-" if cell is None else cell, "")
    return kind(to_printable(to_one_line(text), "\ufffd"), style=style)
