"""Where a task and the work on it stand, and which task a session means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Final

from openclaw_taskmem.domain import budget, rights
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.gateway import StillRunning
from openclaw_taskmem.domain.rights import Act, Held
from openclaw_taskmem.engine import packets
from openclaw_taskmem.engine.history import (
    HistoryPage,
    Past,
    Place,
    read_page,
    read_past,
)
from openclaw_taskmem.engine.holding import (
    at_home,
    away,
    find_holders,
    guard,
    list_tasks,
    own_tasks,
)
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import Run, Task, TaskNotFound, TaskQuery, TaskStatus, Value

MORE: Final = 8
"""By how much more is read where too little of it is a caller's to see."""
READ: Final = 500
"""Tasks of which is read at once who works on them."""
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
    guard(shell, Act.READ, facts, caller)
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
        for task_id in _list_own(shell, session, caller.host):
            return task_id
    where = (
        "No session_key was given" if session is None else "Your session has no task"
    )
    raise TaskNotFound(f"{where}, so give a task_id; task_list shows the tasks.")


def _list_own(shell: Shell, session: str, host: str | None) -> Iterator[str]:
    """Yield the tasks that a session may mean, the likeliest first."""
    for run in shell.session_runs(session, host):
        if not shell.store.read_task(run.task_id).task.implicit:
            yield run.task_id
    yield from (run.task_id for run in away(shell, session, host))
    active = (TaskStatus.ACTIVE,)
    listed = chain(
        own_tasks(shell, session, host, active),
        own_tasks(shell, session, host, active, implicit=True),
        own_tasks(shell, session, host, _RESUMABLE),
        # What it has given away comes last: there it is told who has it.
        list_tasks(shell, session, host, _RESUMABLE),
    )
    yield from (task.task_id for task in listed)


def list_all(
    shell: Shell,
    status: TaskStatus | None,
    limit: int,
    caller: Caller,
    *,
    implicit: bool = False,
) -> Sequence[Task]:
    """Return what a caller may see, most recently updated first; None: every status."""
    some = limit
    while True:
        query = TaskQuery(status=status, limit=some, implicit=implicit)
        tasks = shell.store.whole.find_tasks(query)
        seen = [*islice(list_seen(shell, tasks, caller), limit)]
        if len(seen) == limit or len(tasks) < some:
            return seen
        some *= MORE


def list_named(
    shell: Shell, task_ids: Iterable[str], limit: int, caller: Caller
) -> Sequence[Task]:
    """Return the first tasks that are named and a caller may see, in that order."""
    tasks = (shell.store.read_task(each).task for each in task_ids)
    return [*islice(list_seen(shell, tasks, caller), limit)]


def list_seen(shell: Shell, tasks: Iterable[Task], caller: Caller) -> Iterator[Task]:
    """Yield those of tasks that a caller may see."""
    if caller.person:
        yield from tasks
        return
    here, left = at_home(shell, caller), iter(tasks)
    while some := [*islice(left, READ)]:
        held = find_holders(shell, [task.task_id for task in some])
        for task in some:
            its = held.get(task.task_id, Held())
            if rights.may(Act.LIST, rights.find_tie(here, task, its), its):
                yield task
