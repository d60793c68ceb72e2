"""Find runs that are queued for a role or wait for somebody else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain.callers.callers import find_role_fault
from openclaw_taskmem.domain.changes import continuation, run_calls
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import (
    InvalidArguments,
    Run,
    RunQuery,
    RunState,
    Task,
    TaskFacts,
    TaskNotFound,
    TaskStatus,
)

MOST: Final = 1000
"""Runs read at first; more if there are as many."""
PAGE: Final = 50
"""Queued runs read at first; doubled while none of them is claimable."""


def list_awaited(context: Context) -> Mapping[str, Run]:
    """Return by task the runs of all homes that wait for somebody else to act.

    The longest waiting comes first.
    """
    states = (RunState.QUEUED, RunState.BLOCKED, RunState.REVIEW)
    limit = MOST
    while True:
        query = RunQuery(states=states, limit=limit, implicit=False)
        found = context.store.whole.find_runs(query)
        if len(found) < limit:
            break
        # The store returns the newest first; the longest waiting are wanted.
        limit *= 4
    waiting = [run for run in found if current_run.find_awaited(run, context.sessions)]
    return {run.task_id: run for run in sorted(waiting, key=lambda r: r.changed_at)}


def find_role(context: Context, name: str) -> str:
    """Return the role that a name means: the name in lower case, without spaces around it.

    Older homes may have runs of roles with other characters; those are found by their exact names.

    Raises:
        InvalidArguments: It is no role.
    """
    role = name.strip().lower()
    fault = find_role_fault(role)
    if fault is not None or role != name:
        found = context.store.whole.find_runs(RunQuery(states=run_calls.OPEN_STATES, limit=MOST))
        if any(run.role == name for run in found):
            return name
    if fault is not None:
        raise InvalidArguments(f"role {fault}. Nothing was claimed.")
    return role


def find_claimable(context: Context, role: str) -> Task | None:
    """Return the first task queued for a role that can be claimed; None: there is none.

    Runs queued for no role count, too.
    """
    now = context.clock.now()
    for run in _iterate_queue(context, role):
        with suppress(TaskNotFound):
            facts = context.store.read_task(run.task_id)
            same = facts.run is not None and facts.run.run_id == run.run_id
            queued = same and facts.run is not None and facts.run.state
            if (
                queued is RunState.QUEUED
                and facts.task.status is TaskStatus.ACTIVE
                and not has_own_session(context, facts, now)
            ):
                return facts.task
    return None


def has_own_session(context: Context, facts: TaskFacts, now: datetime) -> bool:
    """Whether a queued run has a session of its own that will go on with it."""
    run = facts.run
    if run is None:
        return False
    if facts.task.implicit:
        return True
    if run_calls.is_left_behind(run, now, context.policies.runs):
        return continuation.has_wake_on_its_way(facts, now)
    is_continued = outbox.has_live_continuation(facts.wakes, now, context.policies.outbox)
    return run.told_session is not None or is_continued


def _iterate_queue(context: Context, role: str) -> Iterator[Run]:
    """Yield the queued runs that a role may claim, oldest first."""
    start, limit = 0, PAGE
    while True:
        queued = context.store.whole.find_runs(run_calls.build_queue_query(role, limit))
        yield from queued[start:]
        if len(queued) < limit:
            return
        start, limit = limit, limit * 2
