"""`taskmem show`: a task, a wait or a wake, with all that belongs to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

import click

from openclaw_taskmem.cli.command_output import get_now
from openclaw_taskmem.cli.overview_text import format_activity
from openclaw_taskmem.cli.tables import (
    Cell,
    Column,
    Paragraph,
    Table,
    format_age,
    format_local_time,
    format_short_id,
    make_cell,
    paint_state,
    print_all,
    print_table,
)
from openclaw_taskmem.domain.text.texts import format_checksum, format_count, to_printable

MOST_WAKES: Final = 5
"""Newest wakes of a task that are shown unless all are asked for."""
MOST_MESSAGES: Final = 50
"""Newest messages of a task that are shown unless all are asked for."""
INDENT: Final = 2
"""Blanks before a line that belongs to a heading."""
DETAIL_BLANKS: Final = 4
"""Blanks before the details of a row, and before the lines of a message."""
UNJUDGED_NOTE: Final = (
    "Task memory tests that a thing exists and changed; nobody judged its content."
)


def print_task(found: Any, thread: Iterable[Sequence[Any]] | None = None) -> None:  # noqa: ANN401 - JSON
    """Print the daemon's answer about a task, message by message, so that any thread has room.

    `thread`: the pages of the whole thread, oldest first; None: the newest messages are shown, and
    how to see the others is said.
    """
    print_all(_draw_task(found, thread, get_now()))


def print_review(found: Any) -> None:  # noqa: ANN401 - JSON
    """Print the note of a task's agent and what it made, for its review."""
    if note := found["line"]["note"]:
        print_all((*_draw_heading("Note of its agent"), *_draw_lines(note)))
    else:
        click.echo("Its agent left no note.")
    if found["proofs"]:
        print_all(_draw_made(found, get_now()))
    else:
        click.echo("Nothing was seen to be made.")


def print_wait(found: Any) -> None:  # noqa: ANN401 - JSON
    """Print the daemon's answer about a wait."""
    print_all(_draw_wait(found, get_now()))


def print_wake(found: Any) -> None:  # noqa: ANN401 - JSON
    """Print the daemon's answer about a wake."""
    print_all(_draw_wake(found, get_now()))


PRINTERS: Final[Mapping[str, Callable[[Any], None]]] = {
    "wait": print_wait,
    "wake": print_wake,
}


def print_pictures(found: Any) -> None:  # noqa: ANN401 - JSON
    """Print where the pictures of a wait are."""
    if not found["pictures"]:
        why = found["pictures_note"]
        click.echo(f"No pictures are kept of this wait.{f' {why}' if why else ''}")
        return
    print_table(
        [Column("picture", fixed=True), Column("taken", fixed=True), Column("file")],
        [
            [moment, format_local_time(picture["taken_at"]), picture["path"]]
            for moment, picture in found["pictures"].items()
        ],
    )


def _draw_task(
    found: Any,  # noqa: ANN401 - JSON
    thread: Iterable[Sequence[Any]] | None,
    now: datetime,
) -> Iterator[Table | Paragraph]:
    line = found["line"]
    yield _draw_title(found["name"], line["standing"])
    at = f"step {line['step_number']} of {line['steps']}, {line['step']}" if line["step"] else None
    yield _draw_facts(
        {
            "id": found["task_id"],
            "now": f"{line['says'].rstrip('.')}, since {_format_time(line['since'], now)}",
            "stopped" if line["status"] == "failed" else "at": at,
            "agent": line["activity"] and format_activity(line["activity"], now),
            "output": (line["activity"] and line["activity"]["outcome"]) or None,
            "proof": line["made"] or None,
            "no proof": line["unproved"] or None,
            "cost": line["cost"] or None,
            "asks you": line["question"],
            "you may": ", ".join(line["actions"]).replace("_", " ") or None,
            "who": ", ".join(filter(None, (line["owner"], found["session_key"]))) or None,
            "asked for": found["original_request"],
        }
    )
    yield from _draw_heading(f"Plan, {line['done']} of {line['steps']} done")
    for step in found["steps"]:
        is_next = not step["done"] and step["text"] and step["step"] == _find_current(found)
        mark = "✓" if step["done"] else "▸" if is_next else "·"
        number = f"{step['step']}. "
        yield _draw_text(f"{mark} {number}{step['text'].removeprefix(number)}")
    yield from _draw_made(found, now)
    yield from _draw_waits(found["waits"], now)
    wakes = found["wakes"]
    yield from _draw_wakes(wakes if thread else wakes[:MOST_WAKES], len(wakes), now)
    if thread is not None:
        yield from _draw_heading("Thread")
        for page in thread:
            for message in page:
                yield from _draw_message(message, now)
        return
    messages = found["messages"][-MOST_MESSAGES:]
    count = format_count(len(messages), "message")
    is_cut = found["earlier"] is not None or len(messages) < len(found["messages"])
    yield from _draw_heading(f"Thread, {f'the newest {count}' if is_cut else count}")
    for message in messages:
        yield from _draw_message(message, now)
    if is_cut or len(wakes) > MOST_WAKES:
        more = f"There is more. See all: taskmem show {found['task_id']} --all"
        yield from (Paragraph(Cell("")), Paragraph(Cell(more, "dim")))


def _find_current(found: Any) -> int | None:  # noqa: ANN401 - JSON
    """Return the number of the first step that is not done; None: all are."""
    return next((step["step"] for step in found["steps"] if not step["done"]), None)


def _draw_made(found: Any, now: datetime) -> Iterator[Table | Paragraph]:  # noqa: ANN401 - JSON
    """Draw what was made, with what proves it."""
    if not found["proofs"]:
        return
    yield from _draw_heading("Made")
    for proof in found["proofs"]:
        size = None if proof["size"] is None else f"{proof['size']:,} bytes"
        checksum = proof["sha256"] and format_checksum(proof["sha256"])
        looked = proof["looked_at"] and f"looked at {_format_time(proof['looked_at'], now)}"
        about = ", ".join(filter(None, (size, checksum, looked)))
        details = filter(None, (proof["tested"], about))
        yield from _draw_row(proof["what"], paint_state(proof["standing"]), *details)
    yield _draw_text(Cell(UNJUDGED_NOTE, "dim"))


def _draw_waits(waits: Sequence[Any], now: datetime) -> Iterator[Table | Paragraph]:
    if waits:
        yield from _draw_heading("Waits")
    for wait in waits:
        began = f"{format_short_id(wait['wait_id'])}, began {_format_time(wait['created_at'], now)}"
        yield from _draw_row(
            wait["target"],
            paint_state(wait["status"]),
            f"until {wait['wake_when']}",
            *filter(None, (wait["last_observation"],)),
            began,
        )


def _draw_wakes(wakes: Sequence[Any], count: int, now: datetime) -> Iterator[Table | Paragraph]:
    """Draw the newest wakes; `count`: how many there are."""
    if wakes:
        more = f"the last {len(wakes)} of {count}" if len(wakes) < count else str(count)
        yield from _draw_heading(f"Wakes, {more}")
    for wake in wakes:
        yield from _draw_row(
            f"{format_short_id(wake['wake_id'])}, {_format_time(wake['created_at'], now)}",
            paint_state(get_wake_state(wake)),
            wake["last_error"] or describe_wake_text(wake["text"]),
        )


def _draw_row(title: str, state: Cell, *details: str) -> Iterator[Table | Paragraph]:
    """Draw a title with a state, and details below it."""
    yield Paragraph(make_cell(title), make_cell(state), INDENT)
    for each in details:
        yield _draw_text(Cell(each, "dim"), DETAIL_BLANKS)


def _draw_message(message: Any, now: datetime) -> Iterator[Table | Paragraph]:  # noqa: ANN401 - JSON
    """Draw a message of any length."""
    who, kind = message["role"], message["msg_type"]
    about = "" if kind == "text" else f", {kind}"
    yield _draw_text(Cell(f"{_format_time(message['created_at'], now)}  {who}{about}", "dim"))
    yield from _draw_lines(message["content"])


def _draw_lines(text: str) -> Iterator[Table | Paragraph]:
    """Draw the lines of an agent or user, indented, so that none looks like ours."""
    for each in text.splitlines():
        yield Paragraph(Cell(to_printable(each, "\ufffd")), blanks=DETAIL_BLANKS)


def _draw_wait(found: Any, now: datetime) -> Iterator[Table | Paragraph]:  # noqa: ANN401 - JSON
    yield _draw_title(found["target"], found["status"])
    yield _draw_facts(
        {
            "id": found["wait_id"],
            "wake when": found["wake_when"],
            "last seen": found["last_observation"],
            "began": _format_time(found["created_at"], now),
            "ended": found["ended_at"] and _format_time(found["ended_at"], now),
            "at the latest": _format_time(found["deadline_at"], now),
            "task": found["task_id"],
            "pictures": ", ".join(found["pictures"]) or None,
        }
    )
    yield from _draw_heading("History")
    for event in found["history"]:
        title, *lines = event["lines"] or [event["kind"].replace("_", " ")]
        yield _draw_text(f"{_format_time(event['at'], now)}  {title}")
        yield from _draw_lines("\n".join(lines))


def _draw_wake(found: Any, now: datetime) -> Iterator[Table | Paragraph]:  # noqa: ANN401 - JSON
    yield _draw_title(f"Wake for {found['cause']}", get_wake_state(found))
    due = found["due_at"] and _format_time(found["due_at"], now)
    yield _draw_facts(
        {
            "id": found["wake_id"],
            "about": ", ".join(filter(None, (found["task_id"], found["wait_id"]))),
            "to": " in ".join(filter(None, (found["session_key"], found["host"]))) or None,
            "says": describe_wake_text(found["text"]),
            "owed since": _format_time(found["created_at"], now),
            "tries": str(found["attempts"]),
            "last sent": found["sent_at"] and _format_time(found["sent_at"], now),
            "last error": found["last_error"],
            "next try": found["held"] or due or "never",
        }
    )
    if (packet := _parse_packet(found["text"])) is not None:
        yield from _draw_heading("Packet, as its agent reads it")
        yield from _draw_lines(json.dumps(packet, ensure_ascii=False, indent=2))


def get_wake_state(wake: Mapping[str, Any]) -> str:
    """Return a wake's state; `kept`: it is due, and stays here until its agent fetches it."""
    is_kept = wake["state"] == "due" and wake["due_at"] is None
    return "kept" if is_kept else str(wake["state"])


def describe_wake_text(text: str) -> str:
    """Return what a wake says; of a packet, what it is and why it was sent."""
    packet = _parse_packet(text)
    return text if packet is None else f"the packet of its task: {packet.get('reason')}"


def _parse_packet(text: str) -> dict[str, Any] | None:
    """Return the packet in a wake's text; None: it says a sentence."""
    try:
        found = json.loads(text.partition(" ")[2])
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _draw_title(name: str, state: str) -> Table | Paragraph:
    return Paragraph(make_cell(Cell(name, "bold")), make_cell(paint_state(state)))


def _draw_facts(facts: Mapping[str, str | None]) -> Table | Paragraph:
    """Draw facts with their names; None: left out."""
    rows = [[name, value] for name, value in facts.items() if value is not None]
    columns = [Column("", fixed=True, style="dim"), Column("")]
    return Table(columns, rows, INDENT, titled=False)


def _draw_heading(text: str) -> Iterator[Paragraph]:
    return iter((Paragraph(Cell("")), Paragraph(Cell(text, "bold"))))


def _draw_text(text: str | Cell, blanks: int = INDENT) -> Paragraph:
    return Paragraph(make_cell(text), blanks=blanks)


def _format_time(instant: str, now: datetime) -> str:
    """Return a local time, and how long ago it was."""
    at = datetime.fromisoformat(instant)
    local = format_local_time(at, now)
    return local if at > now else f"{local} ({format_age(at, now)} ago)"
