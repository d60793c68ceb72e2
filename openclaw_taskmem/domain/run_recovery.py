"""Recovery: what becomes of a run whose owner may be gone.

Runs are taken back on proof, never on silence alone: their gateway has started anew,
their process has ended, or their lease ran out and nothing was seen since. They are
put back to be worked on, and never worked on here. Source: requirements D2, D3, E3, F7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain import (
    events,
    notices,
    outbox,
    run_continuation,
    run_registrars,
    run_wakes,
    session_run,
    thread,
)
from openclaw_taskmem.domain.gateways import SETTLES
from openclaw_taskmem.domain.outbox import OutboxPolicy
from openclaw_taskmem.domain.run_continuation import Fail
from openclaw_taskmem.domain.run_events import (
    LeaseReleased,
    LeaseSet,
    ResumeTried,
    RunBlocked,
    RunRequeued,
    ToldToGoOn,
)
from openclaw_taskmem.domain.run_machine import RunTransition, apply_events
from openclaw_taskmem.domain.run_policy import RunPolicy, RunReason
from openclaw_taskmem.domain.stuck import HELD
from openclaw_taskmem.domain.texts import format_count, format_duration, quote_line, to_plain_line
from taskmem_hookspecs import (
    Change,
    Event,
    Message,
    Owner,
    Role,
    Run,
    RunState,
    Task,
    TaskFacts,
    Value,
    Wake,
    WakeCause,
    WakeState,
)

MAY_LAPSE: Final = (RunState.RUNNING, RunState.QUEUED)
"""The states in which a run may have a lease."""

CUT: Final = "Your turn on this was cut"
_CUT: Final = (RunReason.INTERRUPTED, RunReason.STALE, RunReason.PROMPT_CHANGED)
"""Why a run is as it is whose turn did not come to its end."""


class OwnerStatus(Value):
    """What can be seen of a run's owner now."""

    alive: bool = False
    """A turn of its session is known to run, or its process lives."""
    gone: bool = False
    """Its process is known to have ended."""
    boot: str | None = None
    """The start of the gateway that is there; None: none is."""
    fingerprint: str | None = None
    """Of what shapes its agent's prompt now; None: not known."""


class LapseAction(StrEnum):
    """What becomes of a run whose lease has run out."""

    RENEW = "renew"
    """Its owner lives, or waits for something and is not known to be gone."""
    REST = "rest"
    """It waits for something, and its gateway's session is woken by that."""
    QUEUE = "queue"
    """Whoever may claims it."""
    RESUME = "resume"
    """Its session is told to go on with it."""
    ASK = "ask"
    """The user is asked."""
    FAIL = "fail"
    """That has happened too often."""


class LapseVerdict(Value):
    """What becomes of a run whose lease has run out, and why."""

    course: LapseAction
    why: RunReason | None = None


ABANDONED: Final = LapseVerdict(course=LapseAction.QUEUE, why=RunReason.OWNER_GONE)
"""What becomes of a run that is held by a process which has ended."""
LEFT: Final[Mapping[str | None, str]] = {
    RunReason.OWNER_GONE: "The process that held it before has ended",
    RunReason.LEASE_EXPIRED: "Whoever held it before was not seen within its lease",
}
"""What is told of who held a run before, by why it is queued."""
_NOTE_BYTES: Final = 300


def describe_owner_gone(why: str | None, messages: Sequence[Message]) -> str:
    """Return for who claims a run that its holder is gone, and the last note on it.

    `why` it is queued, one of `LEFT`; `messages` are the newest of its task, oldest
    first.
    """
    gone = LEFT[why]
    spoken = [message for message in messages if message.role is not Role.SYSTEM]
    last = thread.choose_meaningful(spoken, most=1)
    if not last:
        return f"{gone}, and left no note, so look what is done before you go on."
    note = quote_line(to_plain_line(last[0].content), _NOTE_BYTES)
    return f"{gone}; the last note is {note}, and task_update with a query tells more."


def judge_lapse(
    facts: TaskFacts, sight: OwnerStatus, now: datetime, policy: RunPolicy
) -> LapseVerdict:
    """Return what becomes of the task's run, whose lease has run out."""
    run = facts.run
    if run is None or run.state not in MAY_LAPSE:
        return LapseVerdict(course=LapseAction.REST)
    if sight.alive:
        return LapseVerdict(course=LapseAction.RENEW)
    waits = bool(facts.task.linkage.active_wait_ids)
    if sight.boot is None or run.session_key is None:
        if waits and not sight.gone:
            return LapseVerdict(course=LapseAction.RENEW)
        return LapseVerdict(course=LapseAction.QUEUE, why=_find_requeue_reason(run, sight))
    if waits:
        return LapseVerdict(course=LapseAction.REST)
    return _judge_interrupted(run, sight, now, policy)


def judge_gateway_resume(
    facts: TaskFacts, sight: OwnerStatus, now: datetime, policy: RunPolicy
) -> LapseVerdict:
    """Return what becomes of a run that its gateway resumes by itself.

    Anything but `RESUME` means that it must not: who would be asked here is asked.
    """
    run = facts.run
    if run is None or run.state not in MAY_LAPSE:
        return LapseVerdict(course=LapseAction.RESUME)
    verdict = _judge_interrupted(run, sight, now, policy)
    if verdict.course is LapseAction.QUEUE:
        return LapseVerdict(course=LapseAction.RESUME)
    return verdict


def was_resumed(run: Run, owner: Owner, since: datetime | None) -> bool:
    """Whether a run has gone on, or was told to, since its gateway started.

    `owner` is its agent in that gateway, `since` when it started; None: not known.
    """
    if run.state is RunState.RUNNING:
        return run.owner == owner
    told = run.state is RunState.QUEUED and run.why == RunReason.INTERRUPTED
    return told and since is not None and run.changed_at >= since


def describe_cut(run: Run | None, boot: str | None) -> str | None:
    """Return what an agent is told of what cut its turn; None: nothing is known to.

    `boot` is the start of its gateway that is there; None: none is known.
    """
    owner = run.owner if run is not None else None
    if owner is not None and None not in (owner.boot, boot) and owner.boot != boot:
        return f"{CUT} by a restart of the gateway."
    was_cut = run is not None and run.why in _CUT
    return f"{CUT}." if was_cut else None


def build_resumed_notice(task: Task, run: Run, now: datetime) -> Event:
    """Return the line that tells the user of a task that goes on."""
    line = f"{notices.format_task_name(task)}: resuming after an interruption."
    return notices.build_notice("resumed", task, run, line, now)


def _judge_interrupted(
    run: Run, sight: OwnerStatus, now: datetime, policy: RunPolicy
) -> LapseVerdict:
    """Return what becomes of a run whose gateway is there, and has no turn for it."""
    if run.tries >= policy.tries:
        return LapseVerdict(course=LapseAction.FAIL, why=RunReason.INTERRUPTED)
    if (why := _find_doubt(run, sight, now, policy)) is not None:
        return LapseVerdict(course=LapseAction.ASK, why=why)
    if not policy.carry_on:
        return LapseVerdict(course=LapseAction.QUEUE, why=RunReason.INTERRUPTED)
    return LapseVerdict(course=LapseAction.RESUME, why=RunReason.INTERRUPTED)


def _find_doubt(run: Run, sight: OwnerStatus, now: datetime, policy: RunPolicy) -> RunReason | None:
    """Return why the user is asked before a run goes on; None: it may."""
    if (now - run.seen_at).total_seconds() > policy.fresh_seconds:
        return RunReason.STALE
    known = None not in (run.fingerprint, sight.fingerprint)
    if known and run.fingerprint != sight.fingerprint:
        return RunReason.PROMPT_CHANGED
    return None


def _find_requeue_reason(run: Run, sight: OwnerStatus) -> RunReason:
    if sight.gone:
        return RunReason.OWNER_GONE
    return RunReason.LEASE_EXPIRED if run.owner is None or not sight.boot else RunReason.INTERRUPTED


def apply_lapse(
    facts: TaskFacts,
    verdict: LapseVerdict,
    *,
    wake_id: str,
    text: str,
    now: datetime,
    policy: RunPolicy,
) -> Change:
    """Return what is written of a run whose lease has run out.

    `text` is the wake's, where the run resumes.
    """
    run = facts.run
    assert run is not None  # noqa: S101 - only runs lapse
    match verdict.course:
        case LapseAction.RENEW:
            renewed = LeaseSet(lease_until=policy.lease_until(now))
            return Change(runs=(apply_events(run, renewed, now=now).run,))
        case LapseAction.REST:
            return Change(runs=(apply_events(run, LeaseReleased(), now=now).run,))
        case LapseAction.QUEUE:
            return _put_back_run(facts, run, verdict.why, now)
        case LapseAction.RESUME:
            return _resume_run(facts, run, wake_id, text, now)
        case LapseAction.ASK:
            return _ask_user(facts, run, verdict.why, now)
        case LapseAction.FAIL:
            times = format_count(run.tries, "time")
            said = f"it was interrupted again after it was resumed {times}."
            return run_continuation.fail_run(
                facts, Fail(run=run, why=RunReason.INTERRUPTED, said=said), now
            )


def _put_back_run(facts: TaskFacts, run: Run, why: RunReason | None, now: datetime) -> Change:
    moved = _queue_run(run, why, now)
    # That it lies with whoever held it is true no more.
    gone = run_registrars.settle_wakes(facts.wakes)
    log = (*moved.events, *outbox.build_settled_events(gone, now))
    return Change(runs=(moved.run,), wakes=gone, events=log)


def _queue_run(run: Run, why: RunReason | None, now: datetime) -> RunTransition:
    if run.state is RunState.QUEUED:
        return apply_events(run, LeaseReleased(), now=now)
    return apply_events(run, RunRequeued(why=why), now=now)


def _resume_run(facts: TaskFacts, run: Run, wake_id: str, text: str, now: datetime) -> Change:
    queued = _queue_run(run, RunReason.INTERRUPTED, now)
    moved = apply_events(queued, ToldToGoOn(ages=True), ResumeTried(), now=now)
    again = moved.run
    told = build_resumed_notice(facts.task, again, now)
    gone = run_wakes.drop_open_run_wakes(facts)
    task = facts.task.model_copy(update={"held_until": now + HELD})
    return Change(
        tasks=(task,),
        runs=(again,),
        wakes=(*gone, run_wakes.make_wake(again, wake_id, text, now)),
        events=(*moved.events, told, *outbox.build_settled_events(gone, now)),
    )


def _ask_user(facts: TaskFacts, run: Run, why: RunReason | None, now: datetime) -> Change:
    task = facts.task
    moved = apply_events(run, RunBlocked(why=why), now=now)
    age = format_duration((now - run.seen_at).total_seconds())
    because = {
        RunReason.STALE: f"it was interrupted {age} ago",
        RunReason.PROMPT_CHANGED: "it was interrupted, and its agent's instructions have "
        "changed since",
    }.get(why or RunReason.STALE, "it waits for you")
    how = notices.format_resume_command(task, run)
    also = "continue or " if run.told_session is None else ""
    line = f"{notices.format_task_name(task)}: {because}. Say {also}{how} to go on."
    told = notices.build_notice(why or RunReason.STALE, task, moved.run, line, now)
    # Nobody is told to go on with what the user is asked about.
    gone = run_wakes.drop_open_run_wakes(facts)
    free = task.model_copy(update={"held_until": None})
    return Change(
        tasks=(free,) if free != task else (),
        runs=(moved.run,),
        wakes=gone,
        events=(*moved.events, told, *outbox.build_settled_events(gone, now)),
    )


def set_restart_lease(run: Run, boot: str, started_at: datetime, now: datetime) -> Run | None:
    """Return a run as the new start of its gateway leaves it; None: as it was.

    Whoever held it has until the gateway's own recovery had its time.
    Source: requirement D2.
    """
    if run.session_key is None or run.state not in MAY_LAPSE:
        return None
    if run.started_at is None:
        # It was never begun, so nothing of it was interrupted.
        return None
    if run.owner is not None and run.owner.boot in (None, boot):
        return None
    due = started_at + SETTLES
    if run.lease_until is not None and run.lease_until <= due:
        return None
    return apply_events(run, LeaseSet(lease_until=due), now=now).run


def is_between_turns(
    facts: TaskFacts, sight: OwnerStatus, now: datetime, policy: RunPolicy
) -> bool:
    """Whether the task's run goes on by itself, whatever became of its gateway.

    It was between two turns, and is told to go on: nothing of it was interrupted.
    """
    run = facts.run
    if run is None or run.lease_until is not None:
        return False
    owed = any(wake.cause is WakeCause.RUN and wake.state is WakeState.DUE for wake in facts.wakes)
    return owed and _find_doubt(run, sight, now, policy) is None


def correct_wake_time(wake: Wake, now: datetime, policy: OutboxPolicy) -> Wake:
    """Return an owed wake as no clock that is ahead has left it.

    What is still to be sent is due now, and what was sent is due again no later than
    if it had been sent now. When it was sent stays: it was not within this minute.
    """
    if wake.due_at is None:
        return wake
    sent = wake.state is WakeState.SENT
    latest = now + policy.resend_after(wake) if sent else now
    return wake.model_copy(update={"due_at": min(wake.due_at, latest)})


def build_waiting_notice(task: Task, run: Run, now: datetime) -> Event:
    """Return what tells the user of a run that still waits for them.

    Source: requirement F7.
    """
    need = session_run.describe_need(run) or "your word"
    how = notices.format_resume_command(task, run)
    line = f"{notices.format_task_name(task)}: still waits for {need}. Say {how} to go on."
    return notices.build_notice("blocked", task, run, line, now)


def was_announced(run: Run, newest: Sequence[Event]) -> bool:
    """Whether the user was told that a run waits for them, since it does."""
    return any(
        event.kind == events.NOTICE
        and event.run_id == run.run_id
        and event.at >= run.changed_at
        and not notices.is_small(event)
        for event in newest
    )


def adopt_run(facts: TaskFacts, moved: RunTransition, now: datetime) -> Change:
    """Return what a turn writes that takes up a run: no wake need tell it to."""
    gone = () if run_wakes.is_on_its_way(facts, now) else run_wakes.drop_open_run_wakes(facts)
    return Change(
        runs=(moved.run,),
        wakes=gone,
        events=(*moved.events, *outbox.build_settled_events(gone, now)),
    )
