"""Report the state of a task and its run; find the tasks that a caller means or may see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Final

from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.callers.reachability import RunningWork
from openclaw_taskmem.domain.changes import rights
from openclaw_taskmem.domain.changes.rights import Act, TaskHolder
from openclaw_taskmem.domain.runs import budget as run_budget
from openclaw_taskmem.domain.runs.budget import Budget
from openclaw_taskmem.domain.wakes import notices
from openclaw_taskmem.engine import packets
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.run_guards import (
    PAGE,
    fill_in_home,
    find_holders,
    guard_task,
    list_background_runs,
    list_own_tasks,
    list_tasks,
)
from openclaw_taskmem.engine.run_history import (
    HistoryPage,
    HistoryPosition,
    PastWork,
    read_history_page,
    read_past_work,
)
from taskmem_hookspecs import EventQuery, Run, Task, TaskNotFound, TaskQuery, TaskStatus, Value

MORE: Final = 8
"""Factor by which more tasks are read if too few are visible to the caller."""
READ: Final = 500
"""Tasks whose owners are looked up at once."""
_RESUMABLE: Final = (TaskStatus.ACTIVE, TaskStatus.FAILED, TaskStatus.PAUSED)


class TaskOverview(Value):
    """A task with its newest run and its history."""

    task: Task
    run: Run | None
    past: PastWork
    page: HistoryPage
    still_running: tuple[RunningWork, ...]
    """Work that the gateway of its session runs for it now."""
    budget: Budget | None
    now: datetime


def read_overview(
    context: Context, task_id: str | None, caller: Caller, place: HistoryPosition | None = None
) -> TaskOverview:
    """Return the state of a task and its run; `task_id` None: the session's own task.

    `place`: where the page of the history begins; None: at the newest call.

    Raises:
        TaskNotFound: No task has that id, or the session has none.
        NotAllowed: The caller may not read it.
    """
    facts = context.store.read_task(task_id or find_own_task(context, caller))
    guard_task(context, Act.READ, facts, caller)
    past = read_past_work(context, facts.task.task_id)
    return TaskOverview(
        task=facts.task,
        run=facts.run or past.run,
        past=past,
        page=read_history_page(context, facts.task.task_id, place),
        still_running=context.live.running_work.get(
            packets.get_session_key(facts.task, facts.run), ()
        ),
        budget=run_budget.compute_budget(facts, context.policies.runs),
        now=context.clock.now(),
    )


def find_own_task(context: Context, caller: Caller) -> str:
    """Return the task of the caller's session: open, else failed, else paused.

    Implicit tasks come after all open tasks that were registered, and tasks that the session has
    handed off come last.

    Raises:
        TaskNotFound: The session has none, or is unknown.
    """
    session = caller.session_key
    if session is not None:
        for task_id in _list_own(context, session, caller.host):
            return task_id
    where = "No session_key was given" if session is None else "Your session has no task"
    raise TaskNotFound(f"{where}, so give a task_id; task_list shows the tasks.")


def _list_own(context: Context, session: str, host: str | None) -> Iterator[str]:
    """Yield the tasks that a session may mean, likeliest first."""
    for run in context.find_session_runs(session, host):
        if not context.store.read_task(run.task_id).task.implicit:
            yield run.task_id
    yield from (run.task_id for run in list_background_runs(context, session, host))
    active = (TaskStatus.ACTIVE,)
    listed = chain(
        list_own_tasks(context, session, host, active),
        list_own_tasks(context, session, host, active, implicit=True),
        list_own_tasks(context, session, host, _RESUMABLE),
        # Tasks that it has handed off come last; the caller learns who owns them.
        list_tasks(context, session, host, _RESUMABLE),
    )
    yield from (task.task_id for task in listed)


def find_failure(context: Context, task: Task, run: Run | None) -> str:
    """Return the reason of a task's failure as its user was told; empty: it has not failed."""
    if task.status is not TaskStatus.FAILED:
        return ""
    newest = context.store.find_events(EventQuery(task_id=task.task_id, limit=PAGE))
    said = (notices.find_failure(event, task, run) for event in reversed(newest))
    return next(filter(None, said), "")


def list_visible_tasks(
    context: Context,
    status: TaskStatus | None,
    limit: int,
    caller: Caller,
    *,
    implicit: bool = False,
) -> Sequence[Task]:
    """Return the tasks that a caller may see, latest update first; `status` None: any status."""
    some = limit
    while True:
        query = TaskQuery(status=status, limit=some, implicit=implicit)
        tasks = context.store.whole.find_tasks(query)
        seen = [*islice(list_visible(context, tasks, caller), limit)]
        if len(seen) == limit or len(tasks) < some:
            return seen
        some *= MORE


def list_visible_named(
    context: Context, task_ids: Iterable[str], limit: int, caller: Caller
) -> Sequence[Task]:
    """Return the first `limit` of the named tasks that a caller may see, in that order.

    Raises:
        TaskNotFound: No task has one of the ids.
    """
    tasks = (context.store.read_task(each).task for each in task_ids)
    return [*islice(list_visible(context, tasks, caller), limit)]


def list_visible(context: Context, tasks: Iterable[Task], caller: Caller) -> Iterator[Task]:
    """Yield the tasks that a caller may see."""
    if caller.person:
        yield from tasks
        return
    here, left = fill_in_home(context, caller), iter(tasks)
    while some := [*islice(left, READ)]:
        held = find_holders(context, [task.task_id for task in some])
        for task in some:
            its = held.get(task.task_id, TaskHolder())
            if rights.is_allowed(Act.LIST, rights.find_tie(here, task, its, context.sessions), its):
                yield task
