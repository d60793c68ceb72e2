"""Say whether a task's agent can be woken: for the pages, the command line and the doctor."""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.domain.callers import reachability
from openclaw_taskmem.domain.callers.callers import AGENT
from openclaw_taskmem.domain.callers.reachability import Unreached
from openclaw_taskmem.domain.changes import rights
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.packets import get_session_key
from taskmem_hookspecs import RunState, TaskFacts, TaskQuery, TaskStatus, WakeQuery

LOOKED_AT: Final = 500
"""How many of the active tasks, the newest, are looked at."""


def find_unreached(context: Context, facts: TaskFacts) -> Unreached | None:
    """Return why nobody can wake the agent that a task is left to; None: somebody can.

    An agent at work need not be woken, nor a role that looks into its queue.
    """
    task, run = facts.task, facts.run
    if run is not None:
        queued = run.state is RunState.QUEUED and run.session_key is None
        if current_run.is_at_work(run) or (queued and run.role not in (None, AGENT)):
            return None
    host = task.host if run is None else rights.find_host(task, run)
    reached = context.reaches(host, get_session_key(task, run) or None)
    newest = next(reversed(facts.wakes), None)
    if newest is None and reached and task.status is TaskStatus.ACTIVE:
        found = context.store.find_wakes(WakeQuery(task_id=task.task_id, limit=1))
        newest = next(iter(found), None)
    now = context.clock.now()
    return reachability.find_unreached(task.task_id, host, newest, now, reached=reached)


def count_hostless(context: Context) -> int:
    """Count the active tasks, if of none a host or a way to wake its agent is known; else 0.

    Only the newest are looked at.
    """
    query = TaskQuery(status=TaskStatus.ACTIVE, limit=LOOKED_AT, implicit=False)
    found = context.store.find_tasks(query)
    hostless = all(
        not reachability.is_named_host(task.host)
        and not context.reaches(task.host, task.session_key)
        for task in found
    )
    if not hostless:
        return 0
    return len(found) if len(found) < LOOKED_AT else context.store.count().tasks[TaskStatus.ACTIVE]
