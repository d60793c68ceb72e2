"""Recover runs whose lease has expired or whose gateway has restarted, and what a start must mend.

A start, a changed setting and a clock that was set back are mended alike. Recovery requeues runs,
makes wakes due, asks the user or fails the runs; it never does their work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from openclaw_taskmem.domain import callers, events
from openclaw_taskmem.domain.callers import GatewayPresence
from openclaw_taskmem.domain.changes import continuation, recovery, stuck, waits
from openclaw_taskmem.domain.changes.recovery import LapseAction, LapseVerdict, OwnerStatus
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import (
    ClockSetBack,
    LeaseReleased,
    LeaseSet,
    ResumeTried,
    apply_events,
)
from openclaw_taskmem.domain.tasks import thread
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.engine import run_history
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.wakes import update_wakes
from taskmem_hookspecs import (
    Change,
    Event,
    EventQuery,
    Message,
    PlanRevision,
    Run,
    RunQuery,
    RunState,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    Task,
    TaskFacts,
    TaskNotFound,
    TaskQuery,
    TaskStatus,
    Wake,
    WakeQuery,
    WakeState,
)
from taskmem_hookspecs.errors import Conflict, RunNotFound, WaitNotFound
from taskmem_hookspecs.roles import FOREVER

log = logging.getLogger(__name__)

ABANDONED_AGE: Final = timedelta(minutes=10)
"""How long after its lease expires another home's run may be recovered here."""
_UNREADABLE_DELAY: Final = timedelta(hours=1)
"""When to look again at a run whose task cannot be read."""
BATCH: Final = 200
"""Runs that one pass looks at; the next pass takes the rest."""
MOST_ROWS: Final = 10_000
_RESET: Final = (LapseAction.QUEUE, LapseAction.RESUME)
_END_ACTIONS: Final = (LapseAction.ASK, LapseAction.FAIL)
"""Decisions after which another run of the session has its turn."""
_NOT_RESUMED: Final[Mapping[RunState, Collection[str]]] = {
    RunState.FAILED: {RunReason.INTERRUPTED},
    RunState.BLOCKED: {RunReason.STALE, RunReason.PROMPT_CHANGED},
}
"""By state: the reasons for which a run that a restart interrupted is not resumed."""


def sweep_lapsed_runs(context: Context, gateways: Sequence[GatewayPresence]) -> int:
    """Recover the runs whose lease has expired, at most `BATCH`; return how many there were.

    What was reset is logged as one event. Source: docs/origins.md, "Claims and leases".
    """
    due = _find_lapsed_runs(context)
    reset: list[str] = []
    for run in due:
        if context.stopping.is_set():
            break
        try:
            verdict = context.update_task(
                run.task_id, partial(_handle_lapse, context, run, gateways)
            )
            if verdict is not None and verdict.action in _END_ACTIONS:
                _promote_next_run(context, run)
            if verdict is not None and verdict.action in _RESET:
                _log_reset(run, verdict.why)
                role = run.owner.role if run.owner else run.role
                reset.append(f"{run.run_id} (role {role})")
        except (StoreBusy, StoreFull, StoreUnavailable):
            raise
        except TaskNotFound:
            now = context.clock.now()
            later = now + _UNREADABLE_DELAY
            with suppress(Conflict):
                context.commit(
                    Change(runs=(apply_events(run, LeaseSet(lease_until=later), now=now).run,))
                )
        except Exception:
            log.exception("could not check %s; going on with the other runs", run.run_id)
    if reset:
        log.warning(
            "[Stale Cleanup] %d runs looked at, %d reset to queued: %s",
            len(due),
            len(reset),
            ", ".join(reset),
        )
        looked, now = len(due), context.clock.now()
        swept = events.build_event(events.RUN_SWEPT, None, now, looked_at=looked, reset=[*reset])
        context.commit(Change(events=(swept,)))
    return len(due)


def requeue_abandoned(
    context: Context,
    *,
    task_id: str | None = None,
    role: str | None = None,
    process: str | None = None,
) -> int:
    """Requeue the runs whose owner's process has ended; return how many.

    Without `task_id` and `role`, runs of gateway sessions are left to their leases. Source:
    docs/origins.md, "Recovery of runs".

    Args:
        context: The context of the use case.
        task_id: Only the run of this task; None: of any.
        role: Only runs owned in this role; None: in any.
        process: Only runs of this process; None: of any.
    """
    is_limited = task_id is not None or role is not None
    query = RunQuery(states=(RunState.RUNNING,), task_id=task_id, limit=MOST_ROWS)
    held = [
        run
        for run in context.store.find_runs(query)
        if run.owner is not None
        and context.store.serves(run.home)
        and role in (None, run.owner.role)
        and process in (None, run.owner.process)
    ]
    abandoned = [run for run in held if is_limited or not _is_gateway_run(context, run)]
    queued = 0
    for run in abandoned:
        # On a conflict the other writer has decided about the run.
        with suppress(Conflict, TaskNotFound):
            if is_abandoned(context, run):
                left_by = context.update_task(run.task_id, partial(_requeue_run, context))
                if left_by is not None:
                    queued += 1
                    _log_reset(left_by, recovery.ABANDONMENT.why)
    return queued


def is_abandoned(context: Context, run: Run) -> bool:
    """Tell whether a run is owned by a process that is known to have ended.

    Gateways' runs are excluded; they are recovered by `give_gateway_runs_recovery_time`.
    """
    in_gateway = run.owner is not None and run.owner.boot is not None
    running = run.state is RunState.RUNNING and not in_gateway
    return running and has_holder_ended(context, run)


def has_holder_ended(context: Context, run: Run) -> bool:
    """Tell whether the process that owns a run, or last did, is known to have ended."""
    return _is_holder_alive(context, run) is False


def is_unheard(context: Context, run: Run) -> bool:
    """Tell whether a run is held in another home, and neither its owner nor daemon is heard of."""
    return not context.store.serves(run.home) and current_run.is_unheard(run, context.clock.now())


def list_unheard(context: Context) -> Sequence[Run]:
    """Return the runs of this home's tasks whose owners in other homes are not heard of."""
    if not context.store.is_shared:
        return ()
    lapsed_by = context.clock.now() - current_run.UNHEARD_DELAY
    query = RunQuery(
        states=(RunState.RUNNING,),
        lapsed_by=lapsed_by,
        task_home=context.store.scope,
        limit=BATCH,
    )
    return [run for run in context.store.whole.find_runs(query) if is_unheard(context, run)]


def describe_last_holder(context: Context, task: Task, run: Run) -> str:
    """Tell the new owner of a run who abandoned it; empty: nobody did."""
    if run.why not in recovery.LEFT_SENTENCES:
        return ""
    messages = context.store.read_records(Message, run.task_id, thread.MOST_READ_MESSAGES)
    revisions = context.store.read_records(PlanRevision, run.task_id)
    mentions = thread.StepMentions(messages, revisions, task.plan)
    return recovery.describe_owner_gone(run.why, messages, mentions)


def _requeue_run(context: Context, facts: TaskFacts, now: datetime) -> Decision[Run | None]:
    """Requeue a task's run if it is abandoned; return it as it was, or None."""
    if facts.run is None or not is_abandoned(context, facts.run):
        return Change(), None
    change = recovery.apply_lapse(
        facts,
        recovery.ABANDONMENT,
        wake_id="",
        text="",
        now=now,
        policy=context.policies.runs,
    )
    tried = (apply_events(run, ResumeTried(), now=now).run for run in change.runs)
    return change.model_copy(update={"runs": tuple(tried)}), facts.run


def _log_reset(run: Run, why: RunReason | None) -> None:
    log.warning(
        "[State Recovery] task=%s run=%s role=%s action=reset_to_queued why=%s",
        run.task_id,
        run.run_id,
        run.owner.role if run.owner else run.role,
        why,
    )


def _find_lapsed_runs(context: Context) -> Sequence[Run]:
    """Return the runs whose lease has expired.

    Other homes' runs are included once they are overdue by `ABANDONED_AGE`: then that home's
    daemon must be gone, and a requeued run can be claimed from anywhere.
    """
    now = context.clock.now()
    own = context.store.find_runs(RunQuery(lapsed_by=now, limit=BATCH))
    if not context.store.is_shared or len(own) == BATCH:
        return own
    own_ids = {run.run_id for run in own}
    query = RunQuery(lapsed_by=now - ABANDONED_AGE, limit=BATCH - len(own))
    others = context.store.whole.find_runs(query)
    return [*own, *(run for run in others if run.run_id not in own_ids)]


def find_next_lapse(context: Context) -> datetime | None:
    """Return when the next lease expires; None: no run has one."""
    query = RunQuery(lapsed_by=FOREVER, limit=1)
    return next((run.lease_until for run in context.store.find_runs(query)), None)


def give_gateway_runs_recovery_time(
    context: Context, presence: GatewayPresence, others: Collection[str]
) -> None:
    """Give runs of an earlier start of a gateway time for its own recovery, before ours.

    A run between turns that goes on by itself, and without sub-agents, was not interrupted: it gets
    no such time, and is woken if commands that it awaited have ended with the gateway.

    `others`: boots of other connected gateways, whose runs are left alone. Source: docs/origins.md,
    "Recovery of runs".
    """
    for run in find_gateway_runs(context, recovery.MAY_LAPSE):
        if run.owner is not None and run.owner.boot in others:
            continue
        context.update_task(run.task_id, partial(_give_recovery_time, context, run, presence))


def has_lost_run(context: Context, session: str, since: datetime | None) -> bool:
    """Tell whether a session's turn is for a run that goes on elsewhere, or must not go on.

    `since`: when the gateway that resumed the turn by itself has started; None: it did not. Since
    then the run may have failed, or the user may have been asked whether it goes on.
    """
    run_id = context.sessions.find_background_run(session)
    if run_id is not None:
        with suppress(RunNotFound):
            run = context.store.read_run(run_id)
            if not run.state.terminal and run.session_key != session:
                return True
    if since is None:
        return False
    return any(
        run.session_key == session
        and run.why in _NOT_RESUMED.get(run.state, ())
        and run.changed_at >= since
        for run in context.store.find_runs(
            RunQuery(states=(*_NOT_RESUMED,), limit=BATCH, implicit=False)
        )
    )


def build_waiting_notices(context: Context) -> tuple[Event, ...]:
    """Return the notices of runs that wait for their user and were not announced yet.

    Each is announced once per time it waits. Source: docs/origins.md, "Recovery of runs".
    """
    now = context.clock.now()
    return tuple(
        recovery.build_waiting_notice(facts.task, run, now)
        for run in find_gateway_runs(context, (RunState.BLOCKED,))
        if current_run.needs_word(run)
        and (facts := context.find_task(run.task_id)) is not None
        and not recovery.was_announced(
            run, context.store.find_events(EventQuery(task_id=run.task_id, limit=MOST_ROWS))
        )
    )


def find_gateway_runs(context: Context, states: Collection[RunState]) -> Sequence[Run]:
    """Return the runs of this home's gateways that are in one of these states."""
    found = context.store.find_runs(RunQuery(states=tuple(states), limit=MOST_ROWS))
    return [run for run in found if _is_gateway_run(context, run)]


def drop_old_checkpoints(context: Context) -> None:
    """Drop checkpoints and implicit tasks that are too old.

    A run at work loses its oldest checkpoints, too; a run that waits for the user keeps all. Rows
    of other homes are left to their own daemons. Source: docs/origins.md, "Checkpoints".
    """
    days = timedelta(days=context.policies.runs.checkpoint_days)
    before = context.clock.now() - days
    context.commit(Change(forget_before=before))


def _give_recovery_time(
    context: Context, run: Run, presence: GatewayPresence, facts: TaskFacts, now: datetime
) -> Decision[None]:
    if facts.run is None or facts.run.run_id != run.run_id:
        return Change(), None
    sight = _read_owner_status(context, facts.run, (presence,))
    newest = context.store.find_events(EventQuery(task_id=run.task_id, limit=BATCH))
    # If its sub-agents were interrupted, so was the run.
    below = continuation.read_awaited(facts, newest).get("sub_agents")
    beside = () if facts.task.implicit else _read_other_runs(context, facts.run)
    in_line = any(map(recovery.goes_on_by_itself, beside))
    policy = context.policies.runs
    if not below and recovery.is_between_turns(facts, sight, now, policy, in_line=in_line):
        wake_id = context.new_id("wake", now)
        return (
            continuation.notify_gateway_restart(facts, newest, wake_id=wake_id, now=now),
            None,
        )
    lease = recovery.set_restart_lease(facts.run, presence.boot, presence.started_at, now)
    return Change(runs=() if lease is None else (lease,)), None


def _read_other_runs(context: Context, run: Run) -> Iterator[TaskFacts]:
    """Yield the tasks of the other open runs of a run's session, the latest first."""
    host = run.owner.host if run.owner else None
    for other in context.find_session_runs(run.session_key or "", host):
        facts = context.find_task(other.task_id) if other.run_id != run.run_id else None
        if facts is not None:
            yield facts


def _promote_next_run(context: Context, ended: Run) -> None:
    """Tell the session of a run that does not go on to go on with the next one that rests."""
    beside = [*_read_other_runs(context, ended)]
    if any(map(recovery.goes_on_by_itself, beside)):
        return

    def promote(facts: TaskFacts, now: datetime) -> Decision[bool]:
        run = facts.run
        if run is None or run.owner is None or run.state is not RunState.RUNNING:
            return Change(), False
        wake_id, policy = context.new_id("wake", now), context.policies.runs
        change = continuation.promote_run(facts, run.owner, wake_id=wake_id, now=now, policy=policy)
        return change or Change(), change is not None

    any(context.update_task(each.task.task_id, promote) for each in beside)


def _handle_lapse(
    context: Context,
    run: Run,
    gateways: Sequence[GatewayPresence],
    facts: TaskFacts,
    now: datetime,
) -> Decision[LapseVerdict | None]:
    """Decide what becomes of a run whose lease expired; None: it was renewed or has ended."""
    if facts.run is None or facts.run.run_id != run.run_id:
        ended = context.store.read_run(run.run_id)
        if ended.lease_until is None:
            return Change(), None
        return Change(runs=(apply_events(ended, LeaseReleased(), now=now).run,)), None
    if facts.run.lease_until is None or facts.run.lease_until > now:
        return Change(), None
    sight = _read_owner_status(context, facts.run, gateways)
    verdict = recovery.judge_lapse(facts, sight, now, context.policies.runs)
    wake_id = context.new_id("wake", now)
    text = ""
    if verdict.action is LapseAction.RESUME:
        cut = recovery.describe_cut(facts.run, sight.boot) or f"{recovery.CUT_SENTENCE}."
        text = run_history.render_resume_text(context, facts, wake_id, f"{cut} Go on with it now.")
    change = recovery.apply_lapse(
        facts, verdict, wake_id=wake_id, text=text, now=now, policy=context.policies.runs
    )
    return change, verdict


def _read_owner_status(
    context: Context, run: Run, gateways: Sequence[GatewayPresence]
) -> OwnerStatus:
    lives = _is_holder_alive(context, run)
    if run.session_key is None or not _is_gateway_run(context, run) or not gateways:
        return OwnerStatus(alive=lives is True, gone=lives is False)
    latest = max(gateways, key=lambda gateway: gateway.started_at)
    boot = run.owner.boot if run.owner else None
    there = next((each for each in gateways if each.boot == boot), latest)
    agent = run.owner.role if run.owner else run.role
    at_work = any(run.session_key in each.running for each in gateways)
    return OwnerStatus(
        alive=at_work or lives is True,
        gone=lives is False,
        boot=there.boot,
        fingerprint=there.fingerprints.get(agent or ""),
    )


def _is_holder_alive(context: Context, run: Run) -> bool | None:
    """Tell whether the process that owns a run is alive; None: unknown.

    A process of another home may be on another machine, where its id means another process.
    """
    owner = run.owner
    if owner is None or owner.process is None:
        return None
    here = context.store.serves(owner.home or run.home)
    return context.is_alive(owner.process) if here else None


def _is_gateway_run(context: Context, run: Run) -> bool:
    """Tell whether a run belongs to a session of this home's gateways."""
    session = run.session_key or ""
    return context.store.serves(run.home) and context.sessions.is_own(session)


# --- starts, settings and clocks --------------------------------------------------------


POLICY_BOOKMARK: Final = "stuck_policy"
_TASK_BATCH: Final = 500
"""Tasks rescheduled in one commit."""


def reschedule_tasks(context: Context, *, force: bool = False) -> int:
    """Reschedule the stuck check of each active task; return how many there were.

    Leases that are longer than possible are cut first. The tasks are rescheduled if the settings
    have changed since, if rows have times in the future, or if `force` says that the clock was set
    back; else 0 is returned. In the last two cases their times are reduced to now, due wakes become
    due now, and sent ones are sent again no later than if they had been sent now.
    """
    leased = RunQuery(states=recovery.MAY_LAPSE, limit=MOST_ROWS)
    for run in context.store.find_runs(leased):
        if _correct_run_time(context, run) != run:
            read = partial(context.store.read_run, run.run_id)
            context.update(run.task_id, read, partial(_cap_lease, context))
    policy = context.policies.stuck.model_dump_json()
    force = force or _has_future_rows(context)
    if not force and context.store.read_bookmark(POLICY_BOOKMARK) == policy:
        return 0
    seen, after = 0, ""
    while batch := context.store.find_tasks(
        TaskQuery(status=TaskStatus.ACTIVE, after=after, limit=_TASK_BATCH)
    ):
        after = batch[-1].task_id
        seen += len(batch)
        corrected = (_correct_task_time(context, task) for task in batch)
        ready = [stuck.set_due_time(task, context.policies.stuck) for task in corrected]
        moved = [new for old, new in zip(batch, ready, strict=True) if new != old]
        try:
            context.commit(Change(tasks=tuple(moved)))
        except Conflict:
            _reschedule_one_by_one(context, moved)
    if force:
        for wake in find_owed_wakes(context, *callers.OWED_STATES):
            if _correct_wake_time(context, wake) != wake:
                _update_wake(context, wake, partial(_correct_wake_time, context))
    context.commit(Change(bookmarks=(context.store.make_bookmark(POLICY_BOOKMARK, policy),)))
    return seen


def release_wakes(
    context: Context, session_key: str | None = None, opened: datetime | None = None
) -> None:
    """Make the wakes due that no transport reached, where one does now.

    `session_key`: a session that has connected, so what could not be delivered to it is due, too.
    `opened`: when its process started, so what an earlier one had not read is due; None: unknown.
    A wake that was claimed when a daemon was killed may have arrived, or arrive yet: it waits for
    the end of its claim. Wakes that rest for another reason stay, and in a shared database those
    without a home, which may be another's. The oldest go first, for each may be sent at once.
    """
    owed = find_owed_wakes(context, *callers.OWED_STATES)
    for wake in sorted(owed, key=lambda wake: wake.created_at):
        alone = wake.home is not None or not context.store.is_shared
        release = partial(_release_wake, context, session_key, opened)
        moved = alone and release(wake) != wake
        if moved and context.reaches(wake.host, wake.session_key):
            _update_wake(context, wake, release)


def _has_future_rows(context: Context) -> bool:
    """Tell whether any row of this home was written by a clock ahead of this one."""
    now = context.clock.now()
    newest = context.store.find_tasks(TaskQuery(limit=1))
    due = context.store.find_wakes(WakeQuery(states=(WakeState.DUE,), limit=1))
    return (
        any(task.updated_at > now for task in newest)
        or any(wake.created_at > now for wake in due)
        or any(
            _correct_wake_time(context, w) != w for w in find_owed_wakes(context, WakeState.SENT)
        )
    )


def find_owed_wakes(context: Context, *states: WakeState) -> Sequence[Wake]:
    """Return the wakes of this home that are in these states."""
    return context.store.find_wakes(WakeQuery(states=states, limit=MOST_ROWS))


def _update_wake(context: Context, wake: Wake, move: Callable[[Wake], Wake]) -> None:
    """Change a wake that is still owed, as it is then."""

    def change(current: Sequence[Wake], _: datetime) -> Change:
        return Change(wakes=tuple(move(w) for w in current if w.state in callers.OWED_STATES))

    update_wakes(context, wake.task_id or "", [wake.wake_id], change)


def _release_wake(
    context: Context, session_key: str | None, opened: datetime | None, wake: Wake
) -> Wake:
    """Make a wake due now that was kept, or that the session that has connected did not get."""
    is_connected = wake.session_key == session_key is not None
    failed = wake.last_error is not None and is_connected
    lost = (
        is_connected
        and opened is not None
        and wake.transport in context.volatile_transports
        and outbox.is_unread(wake, opened)
    )
    left = is_connected and opened is not None and _was_left(context, wake, opened)
    if not (callers.is_kept(wake) or failed or lost or left):
        return wake
    now = context.clock.now()
    due = now if left else _find_due_time(context, wake, now)
    return wake.model_copy(update={"due_at": min(due, wake.due_at or due)})


def _was_left(context: Context, wake: Wake, opened: datetime) -> bool:
    """Return True if a process that has ended was to ask how the wake's wait ended."""
    if wake.wait_id is None or wake.attempts > 0:
        return False
    with suppress(WaitNotFound):
        wait = context.store.read_wait(wake.wait_id)
        return wait.polled and wait.created_at < opened
    return False


def _find_due_time(context: Context, wake: Wake, now: datetime) -> datetime:
    """Return when a wake is due whose agent can be reached now, and could not before."""
    with suppress(WaitNotFound):
        if wake.wait_id is not None:
            return waits.find_due_time(context.store.read_wait(wake.wait_id), now)
    return now


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
