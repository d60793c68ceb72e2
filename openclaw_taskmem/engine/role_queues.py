"""What is queued for a role, and what else waits for somebody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain import outbox, run_wakes, runs, session_run
from openclaw_taskmem.domain.callers import find_role_fault
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
"""Runs that are read at first; more while there are as many."""
PAGE: Final = 50
"""Queued runs that are read at first; doubled while nothing among them is found."""


def list_awaited(context: Context) -> Mapping[str, Run]:
    """Return the runs that wait for somebody else to act, by their task.

    The one that waits longest comes first.
    """
    states = (RunState.QUEUED, RunState.BLOCKED, RunState.REVIEW)
    limit = MOST
    while True:
        query = RunQuery(states=states, limit=limit, implicit=False)
        found = context.store.whole.find_runs(query)
        if len(found) < limit:
            break
        # The newest come first, and what waits longest is what is wanted.
        limit *= 4
    waiting = [run for run in found if session_run.find_awaited(run)]
    return {run.task_id: run for run in sorted(waiting, key=lambda r: r.changed_at)}


def find_role(context: Context, name: str) -> str:
    """Return the role that is meant by a name.

    Older homes may have runs for roles with other characters: those are meant by
    exactly their names.

    Raises:
        InvalidArguments: It is no role.
    """
    role = name.strip().lower()
    fault = find_role_fault(role)
    if fault is not None or role != name:
        open_ = tuple(state for state in RunState if not state.terminal)
        found = context.store.whole.find_runs(RunQuery(states=open_, limit=MOST))
        if any(run.role == name for run in found):
            return name
    if fault is not None:
        raise InvalidArguments(f"role {fault}. Nothing was claimed.")
    return role


def find_claimable(context: Context, role: str) -> Task | None:
    """Return what was queued first for a role, and can be claimed; None: nothing.

    What is queued for anybody, as what was sent back to no role, can be, too.
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
    """Whether a queued run is its own session's, which is there to go on with it."""
    run = facts.run
    if run is None:
        return False
    if facts.task.implicit:
        return True
    if runs.is_left_behind(run, now, context.runs):
        return run_wakes.is_on_its_way(facts, now)
    told = outbox.has_live_continuation(facts.wakes, now, context.outbox)
    return run.told_session is not None or told


def _iterate_queue(context: Context, role: str) -> Iterator[Run]:
    """Yield the queued runs that a role may claim, oldest first."""
    start, limit = 0, PAGE
    while True:
        queued = context.store.whole.find_runs(runs.build_queue_query(role, limit))
        yield from queued[start:]
        if len(queued) < limit:
            return
        start, limit = limit, limit * 2
