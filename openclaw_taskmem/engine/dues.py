"""What a start, a changed setting or a clock that went back asks for.

Recovery puts things back to be looked at; it never does what they are about.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from openclaw_taskmem.domain import outbox, recovery, ways
from openclaw_taskmem.domain.run_events import ClockSetBack
from openclaw_taskmem.domain.run_machine import apply_events
from openclaw_taskmem.engine.shell import Shell
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


def reschedule_tasks(shell: Shell, *, force: bool = False) -> int:
    """Decide anew when each active task is looked at; return how many there were.

    No run is leased for longer than from now, whatever its clock said. The rest is
    done when the settings are others than those that the stored instants rest on,
    when something stored lies in the future, and when `force` says that the wall
    clock went back: then no task may have been touched in what is now the future,
    and no owed wake waits for it, sent already or not.
    """
    leased = RunQuery(states=recovery.MAY_LAPSE, limit=MOST_RUNS)
    for run in shell.store.find_runs(leased):
        if _correct_run_time(shell, run) != run:
            shell.retry_on_conflict(run.task_id, partial(_cap_lease, shell, run.run_id))
    policy = shell.stuck.model_dump_json()
    force = force or _has_future_rows(shell)
    if not force and shell.store.read_bookmark(BOOKMARK) == policy:
        return 0
    seen, after = 0, ""
    while batch := shell.store.find_tasks(
        TaskQuery(status=TaskStatus.ACTIVE, after=after, limit=BATCH)
    ):
        after = batch[-1].task_id
        seen += len(batch)
        ready = [shell.schedule(_correct_task_time(shell, task)) for task in batch]
        moved = [new for old, new in zip(batch, ready, strict=True) if new != old]
        try:
            shell.commit(Change(tasks=tuple(moved)))
        except Conflict:
            _reschedule_one_by_one(shell, moved)
    if force:
        for wake in _find_owed_wakes(shell, WakeState.DUE, WakeState.SENT):
            if _correct_wake_time(shell, wake) != wake:
                once = partial(_deliver_now, shell, wake.wake_id)
                shell.retry_on_conflict(wake.task_id or "", once)
    shell.commit(Change(bookmarks=(shell.store.make_bookmark(BOOKMARK, policy),)))
    return seen


def release_claimed_wakes(shell: Shell) -> None:
    """Make every wake due now that was claimed here: nobody is on the way with any.

    A home has one daemon, so what was claimed by the one that was killed would
    otherwise rest until its lease ends. So is what was kept for want of a way, where
    there is one now. What rests for another reason goes on resting; a wake of no home
    may be another's.
    """
    now = shell.clock.now()
    for wake in _find_owed_wakes(shell, WakeState.DUE):
        alone = wake.home is not None or not shell.store.is_shared
        kept = ways.is_kept(wake) and shell.reaches(wake.host, wake.session_key)
        if alone and (kept or outbox.is_in_flight(wake, now)):
            shell.retry_on_conflict(wake.task_id or "", partial(_deliver_now, shell, wake.wake_id))


def _has_future_rows(shell: Shell) -> bool:
    """Whether anything of this home was written by a clock ahead of this one."""
    now = shell.clock.now()
    newest = shell.store.find_tasks(TaskQuery(limit=1))
    owed = shell.store.find_wakes(WakeQuery(states=(WakeState.DUE,), limit=1))
    return (
        any(task.updated_at > now for task in newest)
        or any(wake.created_at > now for wake in owed)
        or any(_correct_wake_time(shell, w) != w for w in _find_owed_wakes(shell, WakeState.SENT))
    )


def _find_owed_wakes(shell: Shell, *states: WakeState) -> Sequence[Wake]:
    """Return the wakes of this home that nobody has acted on, in these states."""
    return shell.store.find_wakes(WakeQuery(states=states, limit=MOST_WAKES))


def _deliver_now(shell: Shell, wake_id: str) -> None:
    now = shell.clock.now()
    owed = tuple(
        ways.deliver_kept(wake, now) if ways.is_kept(wake) else _correct_wake_time(shell, wake)
        for wake in shell.store.find_wakes(WakeQuery(wake_ids=(wake_id,)))
        if wake.state in (WakeState.DUE, WakeState.SENT)
    )
    shell.commit(Change(wakes=owed))


def _correct_wake_time(shell: Shell, wake: Wake) -> Wake:
    return recovery.correct_wake_time(wake, shell.clock.now(), shell.outbox)


def _cap_lease(shell: Shell, run_id: str) -> None:
    run = shell.store.read_run(run_id)
    capped = _correct_run_time(shell, run)
    shell.commit(Change(runs=(capped,) if capped != run else ()))


def _correct_run_time(shell: Shell, run: Run) -> Run:
    return apply_events(run, ClockSetBack(), now=shell.clock.now(), policy=shell.runs).run


def _reschedule_one_by_one(shell: Shell, batch: Sequence[Task]) -> None:
    for task in batch:

        def once(task_id: str = task.task_id) -> None:
            fresh = shell.store.read_task(task_id).task
            shell.commit(Change(tasks=(_correct_task_time(shell, fresh),)))

        shell.retry_on_conflict(task.task_id, once)


def _correct_task_time(shell: Shell, task: Task) -> Task:
    now = shell.clock.now()
    alerted = task.last_stuck_alert_at
    return task.model_copy(
        update={
            "updated_at": min(task.updated_at, now),
            "last_stuck_alert_at": min(alerted, now) if alerted else None,
            # What holds an alert back still is seen when it is due.
            "held_until": None,
        }
    )
