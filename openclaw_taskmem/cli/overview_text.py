"""`taskmem`, and `taskmem list`: what needs the user, and what goes on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.text import Text

from openclaw_taskmem.cli.command_output import note_limit
from openclaw_taskmem.cli.tables import (
    Cell,
    Column,
    build_table,
    format_age,
    make_console,
    print_renderable,
    widen_console,
)
from openclaw_taskmem.domain.texts import format_clock, format_count

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


def print_overview(found: Any) -> None:  # noqa: ANN401 - JSON
    """Print the daemon's answer to `overview`."""
    console = make_console()
    print_renderable(draw_overview(found, console), console)


def print_tasks(found: Any, limit: int) -> None:  # noqa: ANN401 - JSON
    """Print the daemon's answer to `tasks`; `limit`: how many it was asked for."""
    if not found["tasks"]:
        click.echo(NO_TASK)
        return
    console, now = make_console(), datetime.fromisoformat(found["now"])
    rows = [(_SECTIONS[line["section"]][1], line) for line in found["tasks"]]
    print_renderable(_draw_lines(rows, now, console), console)
    if len(found["tasks"]) == limit:
        note_limit(limit)


def draw_overview(found: Any, console: Console) -> RenderableType:  # noqa: ANN401 - JSON
    """Draw the daemon's answer to `overview`, with the columns that the console has room for."""
    sections = found["sections"]
    if not any(sections.values()):
        return Text(NO_TASK)
    rows: list[tuple[str, Any]] = []
    for section, (title, style) in _SECTIONS.items():
        if sections[section]:
            rows.append((style, title))
            rows += [(style, line) for line in sections[section]]
    drawn = [_draw_lines(rows, datetime.fromisoformat(found["now"]), console)]
    if found["unlisted_failed"]:
        more = format_count(found["unlisted_failed"], "older failed task")
        drawn.append(Text(f"\n{more}; all: taskmem list --all", style="dim"))
    if found["unlisted"]:
        more = f"\n{format_count(found['unlisted'], 'more open task')}; all: taskmem list"
        drawn.append(Text(more, style="dim"))
    needing = next(iter(sections["needs_you"]), None)
    if needing and (ways := _describe_next(needing, console.width)):
        drawn.append(Text(f"\n{ways}", style="dim"))
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
        ("", "", Cell(line, style))
        if isinstance(line, str)
        else _format_line(line, style, now, console.width)
        for style, line in rows
    ]
    shown = [n for n, column in enumerate(columns) if column is not None]
    table = build_table(
        [column for column in columns if column is not None],
        [[row[n] for n in shown if n < len(row)] for row in cells],
    )
    widen_console(console, table)
    return table


def _get_style(line: Any, style: str) -> str:  # noqa: ANN401 - JSON
    """Return the colour of a task's line: what failed is red, whatever its section."""
    return "bold red" if line["status"] == "failed" else style


def _describe_line(line: Any, now: datetime, width: int) -> str:  # noqa: ANN401 - JSON
    """Say what a task does or why it stopped, where, and by which call."""
    said = [line["says"].rstrip(".")]
    failed = line["status"] == "failed"
    step = f", {line['step']}" if width < _STEP_WIDTH else ""
    if line["step"] and failed:
        said.append(f"stopped at step {line['step_number']} of {line['steps']}{step}")
    elif line["step"] and line["section"] == "at_work" and step:
        said.append(f"step {line['step_number']} of {line['steps']}{step}")
    if line["activity"] and (failed or line["section"] == "at_work"):
        said.append(format_activity(line["activity"], now))
    return "; ".join(filter(None, (*said, line["made"], line["unproved"])))


def format_activity(done: Any, now: datetime) -> str:  # noqa: ANN401 - JSON
    """Say what an agent does now, or did last, and when."""
    at = format_clock(datetime.fromisoformat(done["at"]), now)
    if done["running"]:
        return f"runs {done['what']}, since {at}"
    what = "last call" if done["is_call"] else "last heard"
    return f"{what} {at}: {done['what']}{', failed' if done['failed'] else ''}"


def _format_line(
    line: Any,  # noqa: ANN401 - JSON
    style: str,
    now: datetime,
    width: int,
) -> Sequence[str | Cell | None]:
    return (
        str(line["number"]),
        Cell(_MARKS.get(line["status"], "●"), _get_style(line, style)),
        line["name"],
        f"{line['done']}/{line['steps']}",
        line["step"] or "",
        Cell(_describe_line(line, now, width), _get_style(line, style if style != "dim" else "")),
        format_age(line["since"], now),
        line["owner"] or "",
    )


def _describe_next(line: Any, width: int) -> str:  # noqa: ANN401 - JSON
    """Say what the user may do with the first task that needs them.

    Commands name it by its id: numbers mean other tasks once another list is shown. One that does
    not fit beside its purpose has a line of its own.
    """
    task, actions = shlex.quote(line["task_id"]), line["actions"]
    ways = {
        "answer": (("Answer it", "answer"),),
        "approve": (("Look at it", "show"), ("Accept it", "approve"), ("Or not", "send-back")),
        "accept": (("See why", "show"), ("If it is done all the same", "accept")),
        "resume": (("See why", "show"), ("Let it go on", "resume")),
    }
    found = next((way for action, way in ways.items() if action in actions), ())
    rows = [(f"{what}:", f"taskmem {command} {task}") for what, command in found]
    return "\n".join((" " if len(" ".join(row)) <= width else "\n").join(row) for row in rows)
