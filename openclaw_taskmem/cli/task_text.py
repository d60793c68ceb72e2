"""Tell people of tasks, waits and wakes: in lists (`taskmem`, `taskmem list`), and each as a whole.

`taskmem show` prints a task, a wait or a wake, with all that belongs to it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

import click

from openclaw_taskmem.cli.command_output import get_now, note_limit
from openclaw_taskmem.cli.tables import (
    Cell,
    Column,
    Paragraph,
    Table,
    find_screen,
    format_age,
    format_local_time,
    format_short_id,
    make_cell,
    paint_state,
    print_all,
    print_table,
)
from openclaw_taskmem.domain.text.texts import (
    CALLER_WORDS,
    format_checksum,
    format_clock,
    format_count,
    to_printable,
)

_NO_TASK: Final = (
    "There is no task. Tell your agent to start one, or see how it works: taskmem demo"
)
ALL_ENDED: Final = "No task is open. To see those that have ended: taskmem list --all"
NONE_READY: Final = "No task is ready. To see those that wait for others: taskmem list"
_SECTIONS: Final = {
    "needs_you": ("Needs you", "bold yellow"),
    "at_work": ("At work", "green"),
    "waiting": ("Waiting", "cyan"),
    "idle": ("Idle", "dim"),
    "ended": ("Ended in the last day", "dim"),
}
"""Titles of the sections, and their colours."""
_MOST_ENDED: Final = 5
"""Ended tasks in the overview, so that what needs the user does not scroll away."""
_MARKS: Final = {"completed": "✓", "failed": "✗", "cancelled": "-"}
_AGE_WIDTH: Final = 76
"""Columns of a terminal from which on ages are shown."""
_ID_WIDTH: Final = 60
_STEP_WIDTH: Final = 110
_OWNER_WIDTH: Final = 150


def print_overview(found: Any) -> None:  # noqa: ANN401 - JSON
    """Print the daemon's answer to `overview`."""
    print_all(draw_overview(found, find_screen().columns))


def print_loss(found: Any) -> None:  # noqa: ANN401 - JSON
    """Print what the daemon says is gone from the database."""
    print_all(_draw_loss(found))


def print_tasks(found: Any, limit: int) -> None:  # noqa: ANN401 - JSON
    """Print the daemon's answer to `tasks`; `limit`: how many it was asked for."""
    if not found["tasks"]:
        click.echo(_NO_TASK)
        return
    rows = [(_SECTIONS[line["section"]][1], line) for line in found["tasks"]]
    now = datetime.fromisoformat(found["now"])
    print_all([_draw_task_table(rows, now, find_screen().columns)])
    if len(found["tasks"]) == limit:
        note_limit(limit)


def draw_overview(found: Any, width: float) -> Iterator[Table | Paragraph]:  # noqa: ANN401 - JSON
    """Draw the daemon's answer to `overview`, with the columns for which there is room."""
    sections = found["sections"]
    yield from _draw_loss(found)
    if not any(sections.values()):
        yield Paragraph(Cell(ALL_ENDED if found["all_ended"] else _NO_TASK))
        return
    rows: list[tuple[str, Any]] = []
    for section, (title, style) in _SECTIONS.items():
        if sections[section]:
            shown = sections[section][: _MOST_ENDED if section == "ended" else None]
            rows.append((style, title))
            rows += [(style, line) for line in shown]
    yield _draw_task_table(rows, datetime.fromisoformat(found["now"]), width)
    if (unlisted := len(sections["ended"]) - _MOST_ENDED) > 0:
        more = format_count(unlisted, "more task")
        yield from _draw_hint(f"{more} ended in the last day; all: taskmem list --all")
    if found["unlisted_failed"]:
        more = format_count(found["unlisted_failed"], "older failed task")
        yield from _draw_hint(f"{more}; all: taskmem list --all")
    if found["unlisted"]:
        more = format_count(found["unlisted"], "more open task")
        yield from _draw_hint(f"{more}; all: taskmem list")
    needing = next(iter(sections["needs_you"]), None)
    if needing and (ways := _describe_next(needing, width)):
        yield from _draw_hint(*ways)


def _draw_loss(found: Any) -> Iterator[Paragraph]:  # noqa: ANN401 - JSON
    if loss := found.get("loss"):  # a daemon of an older version does not report it
        yield Paragraph(Cell(loss, "bold red"))


def _draw_hint(*lines: str) -> Iterator[Paragraph]:
    return (Paragraph(Cell(line, "dim")) for line in ("", *lines))


def _draw_task_table(rows: Sequence[tuple[str, Any]], now: datetime, width: float) -> Table:
    """Draw a table of tasks and titles, each with its style; a title is a text."""
    names = [line["name"].casefold() for _, line in rows if not isinstance(line, str)]
    # The id is what tells tasks of one name apart, and what a refusal of the name lists.
    identified = width >= _ID_WIDTH or len(set(names)) < len(names)
    columns = [
        Column("id", fixed=True, style="dim") if identified else None,
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
    sentences += [line["made"], line["unproved"]]
    if line["activity"] and (failed or line["section"] in ("at_work", "idle", "ended")):
        sentences.append(_format_activity(line["activity"], now))
    return "; ".join(filter(None, sentences))


def _format_activity(done: Any, now: datetime) -> str:  # noqa: ANN401 - JSON
    """Say what an agent does now, or did last, and when."""
    at = format_clock(datetime.fromisoformat(done["at"]), now)
    if done["running"]:
        return f"runs {done['what']}, since {at}"
    if not done["is_call"]:
        writer = f"{CALLER_WORDS[done['by']]} wrote {at}" if done["by"] else "the reason"
        return f"{writer}: {done['what']}"
    return f"last call {at}: {done['what']}{', failed' if done['failed'] else ''}"


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
        line["who"],
    )


def _describe_next(line: Any, width: float) -> list[str]:  # noqa: ANN401 - JSON
    """Say what the user may do with the first task that needs them.

    A command that does not fit beside its purpose has a line of its own.
    """
    task, actions = shlex.quote(line["task_id"]), line["actions"]
    ways = {
        "answer": (("Answer it", "answer {} WORDS"),),
        "approve": (
            ("Look at it", "show {}"),
            ("Accept it", "approve {}"),
            ("Or not", "send-back {}"),
        ),
        "accept": (("See why", "show {}"), ("If it is done all the same", "accept {}")),
        "seen": (
            ("See why", "show {}"),
            ("Let it go on", "resume {}"),
            ("Or leave it", "seen {}"),
        ),
        "resume": (("See why", "show {}"), ("Let it go on", "resume {}")),
    }
    found = next((way for action, way in ways.items() if action in actions), ())
    rows = [(f"{what}:", f"taskmem {command.format(task)}") for what, command in found]
    fitting = ((" ".join(row),) if len(" ".join(row)) <= width else row for row in rows)
    return [line for lines in fitting for line in lines]


# --- one as a whole ------------------------------------------------------------------------


MOST_WAKES: Final = 5
"""Newest wakes of a task that are shown unless all are asked for."""
MOST_MESSAGES: Final = 50
"""Newest messages of a task that are shown unless all are asked for."""
_INDENT: Final = 2
"""Blanks before a line that belongs to a heading."""
_DETAIL_BLANKS: Final = 4
"""Blanks before the details of a row, and before the lines of a message."""


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


def print_other(kind: str, found: Any) -> None:  # noqa: ANN401 - JSON
    """Print the daemon's answer about a wait or a wake; `kind`: which."""
    print_all((_draw_wait if kind == "wait" else _draw_wake)(found, get_now()))


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
    doing = line["activity"]
    is_call = doing is not None and doing["is_call"]
    yield _draw_facts(
        {
            "id": found["task_id"],
            "now": f"{line['says'].rstrip('.')}, since {_format_time(line['since'], now)}",
            "stopped" if line["status"] == "failed" else "at": at,
            "agent" if is_call else "last": doing and _format_activity(doing, now),
            "output": (doing and doing["outcome"]) or None,
            "proof": line["made"] or None,
            "no proof": line["unproved"] or None,
            "cost": line["cost"] or None,
            "asks you": line["question"],
            "you may": ", ".join(line["actions"]).replace("_", " ") or None,
            "who": line["who"] or None,
            "asked for": found["original_request"],
        }
    )
    yield from _draw_heading(f"Plan, {line['done']} of {line['steps']} done")
    current = next((step["step"] for step in found["steps"] if not step["done"]), None)
    for step in found["steps"]:
        is_next = step["text"] and step["step"] == current
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
    judged = found["line"]["judged"] or "nobody judged the content"
    note = f"Task memory tests that a thing exists and changed; {judged}."
    yield _draw_text(Cell(note, "dim"))


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
    yield Paragraph(make_cell(title), make_cell(state), _INDENT)
    for each in details:
        yield _draw_text(Cell(each, "dim"), _DETAIL_BLANKS)


def _draw_message(message: Any, now: datetime) -> Iterator[Table | Paragraph]:  # noqa: ANN401 - JSON
    """Draw a message of any length."""
    who = "taskmem call" if message["by_call"] else message["role"]
    kind = message["msg_type"]
    about = "" if kind == "text" else f", {kind}"
    yield _draw_text(Cell(f"{_format_time(message['created_at'], now)}  {who}{about}", "dim"))
    yield from _draw_lines(message["content"])


def _draw_lines(text: str) -> Iterator[Table | Paragraph]:
    """Draw the lines of an agent or user, indented, so that none looks like ours."""
    for each in text.splitlines():
        yield Paragraph(Cell(to_printable(each, "\ufffd")), blanks=_DETAIL_BLANKS)


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
            "who": found["who"] or None,
            "pictures": ", ".join(found["pictures"]) or None,
        }
    )
    yield from _draw_heading("History")
    for event in found["history"]:
        title, *lines = event["lines"] or [describe_event_kind(event["kind"])]
        yield _draw_text(f"{_format_time(event['at'], now)}  {title}")
        yield from _draw_lines("\n".join(lines))


def _draw_wake(found: Any, now: datetime) -> Iterator[Table | Paragraph]:  # noqa: ANN401 - JSON
    yield _draw_title(f"Wake for {found['cause']}", get_wake_state(found))
    due = found["due_at"] and _format_time(found["due_at"], now)
    yield _draw_facts(
        {
            "id": found["wake_id"],
            "about": ", ".join(filter(None, (found["task_id"], found["wait_id"]))),
            "to": found["who"] or None,
            "says": describe_wake_text(found["text"]),
            "owed since": _format_time(found["created_at"], now),
            "tries": count_tries(found),
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


def count_tries(wake: Mapping[str, Any]) -> str:
    """Return how often a wake was sent; a dash: its agent had the news before that."""
    is_needless = wake["state"] == "acknowledged" and not wake["attempts"]
    return "-" if is_needless else str(wake["attempts"])


_PLAIN_KINDS: Final = {"task_updated": "Task written to", "run_changed": "Work ended"}
"""Kinds of events of which the log has nothing more to say."""


def describe_event_kind(kind: str) -> str:
    """Return the kind of an event in words."""
    return _PLAIN_KINDS.get(kind, kind.replace("_", " ").capitalize())


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
    return Table(columns, rows, _INDENT, titled=False)


def _draw_heading(text: str) -> Iterator[Paragraph]:
    return iter((Paragraph(Cell("")), Paragraph(Cell(text, "bold"))))


def _draw_text(text: str | Cell, blanks: int = _INDENT) -> Paragraph:
    return Paragraph(make_cell(text), blanks=blanks)


def _format_time(instant: str, now: datetime) -> str:
    """Return a local time, and how long ago it was."""
    at = datetime.fromisoformat(instant)
    local = format_local_time(at, now)
    return local if at > now else f"{local} ({format_age(at, now)} ago)"
