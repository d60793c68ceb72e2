"""What the user is told of a run: five milestones, and what concerns the user.

Each is an entry of the log, and from there a line in the session's chat: no model
reads it, and it costs no tokens. Source: requirement F5, seed 004.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.texts import clip, plain, plural, quoted, step_name
from taskmem_hookspecs import Event, Run, Task

LINE_BYTES: Final = 400
NAME_BYTES: Final = 160
"""Of a task's name in a line, so that there is room for what is to be done."""
UNCLAIMED: Final = "unclaimed"
"""About what lies for a role; where its task has no session, the main one hears it."""


class Milestone(StrEnum):
    """What is worth a line, and nothing else is."""

    ACCEPTED = "accepted"
    """A task was registered by an agent that works on it."""
    STARTED = "started"
    """Its first tool was called."""
    WRITE_VERIFIED = "tool_write_verified"
    """Its evidence was looked at, and is there."""
    COMPLETED = "completed"
    """It is over, and all that it claims was seen."""
    FAILED = "failed"
    """It is over, and the line says why."""


def milestone(
    which: Milestone, task: Task, run: Run, now: datetime, said: str | None = None
) -> Event:
    """Return the entry of a milestone; `said` is what there is to add to it."""
    more = said or {
        Milestone.ACCEPTED: f"{plural(len(task.plan), 'step')}, {task.task_id}",
    }.get(which, task.task_id)
    line = f"{which}: {quoted(plain(task.name), 120)} ({plain(more)})"
    return _event(events.MILESTONE, task, run, line, now, name=which)


def progress(task: Task, run: Run, marked: frozenset[int], now: datetime) -> Event:
    """Return the entry of steps that a run in the background has done."""
    last = max(marked)
    line = (
        f"{name(task)}: {len(task.done)} of {plural(len(task.plan), 'step')} "
        f"done: {step_name(task.plan[last], 120)}. /cancel {task.task_id} stops it."
    )
    return notice("progress", task, run, line, now)


def made(task: Task, run: Run, said: str, now: datetime) -> Event:
    """Return the entry of the line that says what was made and proved."""
    line = f"{said} ({quoted(plain(task.name), 120)})"
    name = Milestone.WRITE_VERIFIED
    return _event(events.MILESTONE, task, run, line, now, name=name)


def unverified(task: Task, run: Run, said: str, now: datetime) -> Event:
    """Return the entry of the line that says what could not be verified."""
    line = f"{said} ({quoted(plain(task.name), 120)})"
    return notice("unverified", task, run, line, now)


def nothing_written(event: Event) -> Event:
    """Return the entry of a completion as it is told where nothing was written."""
    line, was = str(event.data.get("line")), f"{Milestone.COMPLETED}:"
    if event.data.get("name") != Milestone.COMPLETED or not line.startswith(was):
        return event
    told = f"{Milestone.COMPLETED}; nothing was written:{line.removeprefix(was)}"
    return event.model_copy(update={"data": {**event.data, "line": told}})


def stop(run: Run, session_key: str, now: datetime) -> Event:
    """Return the entry by which the turn of a session that works on a run is stopped.

    It is for a turn that had begun by now; the host is told how long ago that was.
    """
    return Event(
        at=now,
        kind=events.TURN_STOPPED,
        task_id=run.task_id,
        run_id=run.run_id,
        data={"session_key": session_key, "home": run.home},
    )


def notice(about: str, task: Task, run: Run, line: str, now: datetime) -> Event:
    """Return the entry of a line that concerns the user; `about` names its kind."""
    return _event(events.NOTICE, task, run, line, now, about=about)


def name(task: Task) -> str:
    """Return what a task is called in a line."""
    return clip(plain(task.name), NAME_BYTES)


def to_resume(task: Task, run: Run) -> str:
    """Return what the user says in the line's chat, for a run to go on."""
    return "/resume" if run.told_session is None else f"/resume {task.task_id}"


def _event(
    kind: str, task: Task, run: Run, line: str, now: datetime, **data: str
) -> Event:
    session = run.told_session or run.session_key or task.session_key
    said = clip(plain(line), LINE_BYTES)
    return Event(
        at=now,
        kind=kind,
        task_id=task.task_id,
        run_id=run.run_id,
        data={**data, "session_key": session, "line": said, "home": run.home},
    )
