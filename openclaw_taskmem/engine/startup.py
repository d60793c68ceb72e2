"""Recover at a start, after a changed setting, and after the clock was set back.

Recovery only makes work due again; it never does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final

from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.changes import recovery
from openclaw_taskmem.domain.runs.machine import ClockSetBack, apply_events
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.wakes import update_wakes
from taskmem_hookspecs import (
    Change,
    Run,
    RunQuery,
    Task,
    TaskQuery,
    TaskStatus,
    Wake,
    WakeQuery,
    WakeState,
)
from taskmem_hookspecs.errors import Conflict

BOOKMARK: Final = "stuck_policy"
BATCH: Final = 500
MOST_WAKES: Final = 10_000
MOST_RUNS: Final = 10_000


def reschedule_tasks(context: Context, *, force: bool = False) -> int:
    """Reschedule the stuck check of each active task; return how many there were.

    Leases that are longer than possible are cut first. The tasks are rescheduled if the settings
    have changed since, if rows have times in the future, or if `force` says that the clock was set
    back; else 0 is returned. In the last two cases their times are reduced to now, due wakes become
    due now, and sent ones are sent again no later than if they had been sent now.
    """
    leased = RunQuery(states=recovery.MAY_LAPSE, limit=MOST_RUNS)
    for run in context.store.find_runs(leased):
        if _correct_run_time(context, run) != run:
            read = partial(context.store.read_run, run.run_id)
            context.update(run.task_id, read, partial(_cap_lease, context))
    policy = context.policies.stuck.model_dump_json()
    force = force or _has_future_rows(context)
    if not force and context.store.read_bookmark(BOOKMARK) == policy:
        return 0
    seen, after = 0, ""
    while batch := context.store.find_tasks(
        TaskQuery(status=TaskStatus.ACTIVE, after=after, limit=BATCH)
    ):
        after = batch[-1].task_id
        seen += len(batch)
        ready = [context.schedule(_correct_task_time(context, task)) for task in batch]
        moved = [new for old, new in zip(batch, ready, strict=True) if new != old]
        try:
            context.commit(Change(tasks=tuple(moved)))
        except Conflict:
            _reschedule_one_by_one(context, moved)
    if force:
        for wake in _find_owed_wakes(context, *callers.OWED_STATES):
            if _correct_wake_time(context, wake) != wake:
                _deliver_now(context, wake)
    context.commit(Change(bookmarks=(context.store.make_bookmark(BOOKMARK, policy),)))
    return seen


def release_startup_wakes(context: Context) -> None:
    """Requeue the wakes that this home had claimed: no delivery is in flight at startup.

    Otherwise they would wait for the end of their claim. Wakes that no transport reached are due,
    too, if one does now. Wakes that wait for another reason stay, and in a shared database those
    without a home, which may be another's.
    """
    now = context.clock.now()
    for wake in _find_owed_wakes(context, WakeState.DUE):
        alone = wake.home is not None or not context.store.is_shared
        is_kept = callers.is_kept(wake) and context.reaches(wake.host, wake.session_key)
        if alone and (is_kept or outbox.is_in_flight(wake, now)):
            _deliver_now(context, wake)


def _has_future_rows(context: Context) -> bool:
    """Tell whether any row of this home was written by a clock ahead of this one."""
    now = context.clock.now()
    newest = context.store.find_tasks(TaskQuery(limit=1))
    due = context.store.find_wakes(WakeQuery(states=(WakeState.DUE,), limit=1))
    return (
        any(task.updated_at > now for task in newest)
        or any(wake.created_at > now for wake in due)
        or any(
            _correct_wake_time(context, w) != w for w in _find_owed_wakes(context, WakeState.SENT)
        )
    )


def _find_owed_wakes(context: Context, *states: WakeState) -> Sequence[Wake]:
    """Return the wakes of this home that are in these states."""
    return context.store.find_wakes(WakeQuery(states=states, limit=MOST_WAKES))


def _deliver_now(context: Context, wake: Wake) -> None:
    def deliver(current: Sequence[Wake], now: datetime) -> Change:
        open_wakes = (each for each in current if each.state in callers.OWED_STATES)
        return Change(
            wakes=tuple(
                callers.deliver_kept(each, now)
                if callers.is_kept(each)
                else _correct_wake_time(context, each)
                for each in open_wakes
            )
        )

    update_wakes(context, wake.task_id or "", [wake.wake_id], deliver)


def _correct_wake_time(context: Context, wake: Wake) -> Wake:
    return recovery.correct_wake_time(wake, context.clock.now(), context.policies.outbox)


def _cap_lease(context: Context, run: Run, _: datetime) -> Decision[None]:
    capped = _correct_run_time(context, run)
    return Change(runs=(capped,) if capped != run else ()), None


def _correct_run_time(context: Context, run: Run) -> Run:
    return apply_events(
        run, ClockSetBack(), now=context.clock.now(), policy=context.policies.runs
    ).run


def _reschedule_one_by_one(context: Context, batch: Sequence[Task]) -> None:
    for task in batch:
        context.update_task(
            task.task_id,
            lambda facts, _: (Change(tasks=(_correct_task_time(context, facts.task),)), None),
        )


def _correct_task_time(context: Context, task: Task) -> Task:
    now = context.clock.now()
    alerted = task.last_stuck_alert_at
    return task.model_copy(
        update={
            "updated_at": min(task.updated_at, now),
            "last_stuck_alert_at": min(alerted, now) if alerted else None,
            # Whether to hold the alert back is decided again when it is due.
            "held_until": None,
        }
    )
