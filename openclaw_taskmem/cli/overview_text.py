"""`taskmem`, and `taskmem list`: what needs the user, and what goes on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import click

from openclaw_taskmem.cli.command_output import note_limit
from openclaw_taskmem.cli.tables import (
    Cell,
    Column,
    Paragraph,
    Table,
    find_screen,
    format_age,
    format_short_id,
    print_all,
)
from openclaw_taskmem.domain.text.texts import format_clock, format_count

NO_TASK: Final = "There is no task. Tell your agent to start one, or see how it works: taskmem demo"
ALL_ENDED: Final = "No task is open. To see those that have ended: taskmem list --all"
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
_ID_WIDTH: Final = 60
_STEP_WIDTH: Final = 110
_OWNER_WIDTH: Final = 150


def print_overview(found: Any) -> None:  # noqa: ANN401 - JSON
    """Print the daemon's answer to `overview`."""
    print_all(draw_overview(found, find_screen().columns))


def print_tasks(found: Any, limit: int) -> None:  # noqa: ANN401 - JSON
    """Print the daemon's answer to `tasks`; `limit`: how many it was asked for."""
    if not found["tasks"]:
        click.echo(NO_TASK)
        return
    rows = [(_SECTIONS[line["section"]][1], line) for line in found["tasks"]]
    now = datetime.fromisoformat(found["now"])
    print_all([_draw_lines(rows, now, find_screen().columns)])
    if len(found["tasks"]) == limit:
        note_limit(limit)


def draw_overview(found: Any, width: float) -> Iterator[Table | Paragraph]:  # noqa: ANN401 - JSON
    """Draw the daemon's answer to `overview`, with the columns for which there is room."""
    sections = found["sections"]
    if not any(sections.values()):
        yield Paragraph(Cell(ALL_ENDED if found["all_ended"] else NO_TASK))
        return
    rows: list[tuple[str, Any]] = []
    for section, (title, style) in _SECTIONS.items():
        if sections[section]:
            rows.append((style, title))
            rows += [(style, line) for line in sections[section]]
    yield _draw_lines(rows, datetime.fromisoformat(found["now"]), width)
    if found["unlisted_failed"]:
        more = format_count(found["unlisted_failed"], "older failed task")
        yield from _draw_hint(f"{more}; all: taskmem list --all")
    if found["unlisted"]:
        more = format_count(found["unlisted"], "more open task")
        yield from _draw_hint(f"{more}; all: taskmem list")
    needing = next(iter(sections["needs_you"]), None)
    if needing and (ways := _describe_next(needing, width)):
        yield from _draw_hint(*ways)


def _draw_hint(*lines: str) -> Iterator[Paragraph]:
    return (Paragraph(Cell(line, "dim")) for line in ("", *lines))


def _draw_lines(rows: Sequence[tuple[str, Any]], now: datetime, width: float) -> Table:
    """Draw a table of tasks and titles, each with its style; a title is a text."""
    columns = [
        Column("id", fixed=True, style="dim") if width >= _ID_WIDTH else None,
        Column("", fixed=True),
        Column("task", style="bold"),
        Column("done", right=True, fixed=True),
        Column("step") if width >= _STEP_WIDTH else None,
        Column("what it does"),
        Column("for", right=True, fixed=True) if width >= _AGE_WIDTH else None,
        Column("who") if width >= _OWNER_WIDTH else None,
    ]
    cells = [
        ("", "", Cell(line, style))
        if isinstance(line, str)
        else _format_line(line, style, now, width)
        for style, line in rows
    ]
    shown = [n for n, column in enumerate(columns) if column is not None]
    return Table(
        [column for column in columns if column is not None],
        [[row[n] for n in shown if n < len(row)] for row in cells],
    )


def _get_style(line: Any, style: str) -> str:  # noqa: ANN401 - JSON
    """Return the colour of a task's line: what failed is red, whatever its section."""
    return "bold red" if line["status"] == "failed" else style


def _describe_line(line: Any, now: datetime, width: float) -> str:  # noqa: ANN401 - JSON
    """Say what a task does or why it stopped, where, and by which call."""
    sentences = [line["says"].rstrip(".")]
    failed = line["status"] == "failed"
    step = f", {line['step']}" if width < _STEP_WIDTH else ""
    if line["step"] and failed:
        sentences.append(f"stopped at step {line['step_number']} of {line['steps']}{step}")
    elif line["step"] and line["section"] == "at_work" and step:
        sentences.append(f"step {line['step_number']} of {line['steps']}{step}")
    if line["activity"] and (failed or line["section"] == "at_work"):
        sentences.append(format_activity(line["activity"], now))
    return "; ".join(filter(None, (*sentences, line["made"], line["unproved"])))


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
    width: float,
) -> Sequence[str | Cell | None]:
    return (
        format_short_id(line["task_id"]),
        Cell(_MARKS.get(line["status"], "●"), _get_style(line, style)),
        line["name"],
        f"{line['done']}/{line['steps']}",
        line["step"] or "",
        Cell(_describe_line(line, now, width), _get_style(line, style if style != "dim" else "")),
        format_age(line["since"], now),
        line["owner"] or "",
    )


def _describe_next(line: Any, width: float) -> list[str]:  # noqa: ANN401 - JSON
    """Say what the user may do with the first task that needs them.

    A command that does not fit beside its purpose has a line of its own.
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
    fitting = ((" ".join(row),) if len(" ".join(row)) <= width else row for row in rows)
    return [line for lines in fitting for line in lines]
