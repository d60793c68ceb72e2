"""What an agent reads that is told to go on with its task: one line each.

Its context is still there, so that it needs no packet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openclaw_taskmem.domain.plan import progress
from openclaw_taskmem.domain.texts import clip, plain, step_name
from taskmem_hookspecs import Task

NAME_BYTES: Final = 160
"""Shown of a task's or a step's name."""
RUNNING_BYTES: Final = 400
"""Shown of what runs in the background."""
_ELSE: Final = (
    "If only the user can help, call task_update with ask, your question to them. If "
    'it waits for something, call smart_wait. If it is to rest, set status "paused"; '
    "if it is over, report how it ended."
)
"""What an agent that does not carry on does instead."""


def go_on(task: Task, before: str = "") -> str:
    """Tell an agent to go on at once; `before` says what has happened."""
    place = progress(task)
    if place.current is None:
        left = "all its steps are marked done. Check the result, then complete it."
    else:
        step = step_name(plain(task.plan[place.current]), NAME_BYTES)
        left = f"step {place.current + 1} of {len(task.plan)}, {step}, is next."
    said = f"{before} " if before else ""
    return _line(task, f"{said}Your task {_name(task)} is not done: {left} Go on now.")


def ask_what_was_meant(task: Task) -> str:
    """Remind an agent whose last turn brought nothing, or ended in a question mark."""
    return _line(
        task,
        f"Your task {_name(task)} is open, and your last turn ended without progress "
        "or with a question. If you asked only for leave to carry on with your own "
        "plan, carry on.",
    )


def name_what_runs(task: Task, awaited: Sequence[str]) -> str:
    """Remind an agent that has long waited for what its gateway runs."""
    running = clip(plain("; ".join(awaited)), RUNNING_BYTES)
    return _line(
        task,
        f"Your task {_name(task)} is open, and for an hour you have waited for what "
        f"runs in the background: {running}. See how far it is, and go on with what "
        "does not need it.",
    )


def _name(task: Task) -> str:
    return step_name(plain(task.name), NAME_BYTES)


def _line(task: Task, said: str) -> str:
    return f"[system] task_continue ({task.task_id}): {said} {_ELSE}"
