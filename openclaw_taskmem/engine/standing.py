"""Where a task and the work on it stand, and which task a session means."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Final

from openclaw_taskmem.domain import budget
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.gateway import StillRunning
from openclaw_taskmem.engine import packets
from openclaw_taskmem.engine.history import (
    HistoryPage,
    Past,
    Place,
    read_page,
    read_past,
)
from openclaw_taskmem.engine.holding import away, list_tasks, own_tasks
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import Run, Task, TaskNotFound, TaskStatus, Value

_RESUMABLE: Final = (TaskStatus.ACTIVE, TaskStatus.FAILED, TaskStatus.PAUSED)


class Standing(Value):
    """A task with its newest run, and what is known of the work on it."""

    task: Task
    run: Run | None
    past: Past
    page: HistoryPage
    still_running: tuple[StillRunning, ...]
    """What the gateway of its session runs for it now."""
    budget: budget.Budget | None
    now: datetime


def status(
    shell: Shell, task_id: str | None, caller: Caller, place: Place | None = None
) -> Standing:
    """Return where a task and its run stand. None: the session's own.

    `place`: where the page of the history begins that is wanted; None: at the newest.

    Raises:
        TaskNotFound: No task has that id, or the session has none.
    """
    facts = shell.store.read_task(task_id or own_task(shell, caller))
    past = read_past(shell, facts.task.task_id)
    return Standing(
        task=facts.task,
        run=facts.run or past.run,
        past=past,
        page=read_page(shell, facts.task.task_id, place),
        still_running=shell.still_running.get(
            packets.session_of(facts.task, facts.run), ()
        ),
        budget=budget.budget(facts, shell.runs),
        now=shell.clock.now(),
    )


def own_task(shell: Shell, caller: Caller) -> str:
    """Return the task of the caller's session: open, else failed, else paused.

    An implicit one comes after all that are open and were registered.
    """
    session = caller.session_key
    if session is not None:
        for task_id in _list_own(shell, session):
            return task_id
    where = (
        "No session_key was given" if session is None else "Your session has no task"
    )
    raise TaskNotFound(f"{where}, so give a task_id; task_list shows the tasks.")


def _list_own(shell: Shell, session: str) -> Iterator[str]:
    """Yield the tasks that a session may mean, the likeliest first."""
    for run in shell.store.session_runs(session, shell.only):
        if not shell.store.read_task(run.task_id).task.implicit:
            yield run.task_id
    yield from (run.task_id for run in away(shell, session))
    active = (TaskStatus.ACTIVE,)
    listed = chain(
        own_tasks(shell, session, active),
        own_tasks(shell, session, active, implicit=True),
        own_tasks(shell, session, _RESUMABLE),
        # What it has given away comes last: there it is told who has it.
        list_tasks(shell, session, _RESUMABLE),
    )
    yield from (task.task_id for task in listed)
