"""`taskmem`, and `taskmem watch`: what needs the user, and what goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from openclaw_taskmem.cli.client import LinkError, connect, connect_or_start
from openclaw_taskmem.cli.tables import (
    Cell,
    Column,
    build_table,
    format_age,
    make_console,
    print_renderable,
    widen_console,
)
from openclaw_taskmem.domain.texts import format_count
from openclaw_taskmem.home import Home

NO_TASK: Final = "There is no task. Tell your agent to start one, or see how it works: taskmem demo"
_SECTIONS: Final = {
    "needs_you": ("Needs you", "bold yellow"),
    "at_work": ("At work", "green"),
    "waiting": ("Waiting", "cyan"),
    "idle": ("Idle", "dim"),
    "ended": ("Ended in the last day", "dim"),
}
"""Titles of the sections, and their colours."""
_MARKS: Final = {"completed": "✓", "failed": "✗", "cancelled": "-"}
_AGE_WIDTH: Final = 76
"""Columns of a terminal from which on ages are shown."""
_STEP_WIDTH: Final = 110
_OWNER_WIDTH: Final = 150
RETRY_SECONDS: Final = 1.0
"""Seconds between two tries to reach a daemon that is away."""
PATIENCE_SECONDS: Final = 60.0
"""Seconds that the daemon may take to say that nothing has changed."""


def print_overview(found: Any) -> None:  # noqa: ANN401 - JSON
    """Print the daemon's answer to `overview`."""
    console = make_console()
    print_renderable(_draw_overview(found, console), console)


def watch_overview(home: Home) -> None:
    """Show the overview, and draw it anew whenever something changes, until Ctrl-C."""
    console = Console(highlight=False, markup=False, emoji=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for found in _follow_overview(home):
            shown = Text(found) if isinstance(found, str) else _draw_overview(found, console)
            live.update(Group(shown, Text("\nCtrl-C ends.", style="dim")), refresh=True)


def _follow_overview(home: Home) -> Iterator[Any]:
    """Yield the overview at every change; a sentence while the daemon is away.

    A daemon is started once, at the beginning; one that is stopped later stays stopped.
    """
    connect_or_start(home, os.environ).close()
    while True:
        try:
            with connect(home) as link:
                seen: object = None
                while True:
                    seen = link.call("changes", {"seen": seen}, PATIENCE_SECONDS)["seen"]
                    yield link.call("overview", {"numbered": True}, PATIENCE_SECONDS)
        except LinkError as error:
            if error.name != "daemon_unavailable":
                raise
            yield str(error)
            time.sleep(RETRY_SECONDS)


def print_tasks(found: Any, limit: int) -> None:  # noqa: ANN401 - JSON
    """Print the daemon's answer to `tasks`; `limit`: how many it was asked for."""
    if not found["tasks"]:
        click.echo(NO_TASK)
        return
    console, now = make_console(), datetime.fromisoformat(found["now"])
    rows = [(_SECTIONS[line["section"]][1], line) for line in found["tasks"]]
    print_renderable(_draw_lines(rows, now, console), console)
    if len(found["tasks"]) == limit:
        click.echo(f"At most {limit:,} are shown; --limit shows more.", err=True)


def _draw_overview(found: Any, console: Console) -> RenderableType:  # noqa: ANN401 - JSON
    sections = found["sections"]
    if not any(sections.values()):
        return Text(NO_TASK)
    rows: list[tuple[str, Any]] = []
    for section, (title, style) in _SECTIONS.items():
        if sections[section]:
            rows.append((style, title))
            rows += [(style, line) for line in sections[section]]
    drawn = [_draw_lines(rows, datetime.fromisoformat(found["now"]), console)]
    if found["unlisted"]:
        more = f"\n{format_count(found['unlisted'], 'more open task')}; all: taskmem list"
        drawn.append(Text(more, style="dim"))
    if sections["needs_you"]:
        drawn.append(Text(f"\n{_describe_next(sections['needs_you'][0])}", style="dim"))
    return Group(*drawn)


def _draw_lines(rows: Sequence[tuple[str, Any]], now: datetime, console: Console) -> RenderableType:
    """Draw a table of tasks and titles, each with its style; a title is a text."""
    columns = [
        Column("#", right=True, fixed=True, style="dim"),
        Column("", fixed=True),
        Column("task", style="bold"),
        Column("done", right=True, fixed=True),
        Column("step") if console.width >= _STEP_WIDTH else None,
        Column("what it does"),
        Column("for", right=True, fixed=True) if console.width >= _AGE_WIDTH else None,
        Column("who") if console.width >= _OWNER_WIDTH else None,
    ]
    cells = [
        ("", "", Cell(line, style)) if isinstance(line, str) else _format_line(line, style, now)
        for style, line in rows
    ]
    shown = [n for n, column in enumerate(columns) if column is not None]
    table = build_table(
        [column for column in columns if column is not None],
        [[row[n] for n in shown if n < len(row)] for row in cells],
    )
    widen_console(console, table)
    return table


def _format_line(line: Any, style: str, now: datetime) -> Sequence[str | Cell | None]:  # noqa: ANN401 - JSON
    return (
        str(line["number"]),
        Cell(_MARKS.get(line["status"], "●"), style),
        line["name"],
        f"{line['done']}/{line['steps']}",
        line["step"] or "",
        Cell(line["says"], style if style != "dim" else ""),
        format_age(line["since"], now),
        line["owner"] or "",
    )


def _describe_next(line: Any) -> str:  # noqa: ANN401 - JSON
    """Say what the user may do with the first task that needs them."""
    number, actions = line["number"], line["actions"]
    ways = {
        "answer": f'Answer with: taskmem answer {number} "…"',
        "approve": f"Accept it, or send it back, with: taskmem approve|send-back {number}",
        "accept": f"If it is done all the same: taskmem accept {number}",
        "resume": f"See why with: taskmem show {number}; let it go on: taskmem resume {number}",
    }
    return next((way for action, way in ways.items() if action in actions), "")
