"""Decide what happens to a run whose owner may be gone.

A run is requeued only after its gateway restarted, its owner's process ended, or its lease expired.
It is never executed here. Source: docs/origins.md, "Recovery of runs" and "Resuming after a crash".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.changes import continuation
from openclaw_taskmem.domain.changes.continuation import Fail
from openclaw_taskmem.domain.changes.stuck import RESUME_HOLD
from openclaw_taskmem.domain.policies import OutboxPolicy, RunPolicy
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import (
    LeaseReleased,
    LeaseSet,
    ResumeTried,
    RunBlocked,
    RunClaimed,
    RunRequeued,
    RunTransition,
    ToldToGoOn,
    TurnSucceeded,
    apply_events,
)
from openclaw_taskmem.domain.tasks import lifecycle, thread
from openclaw_taskmem.domain.tasks.thread import StepMentions
from openclaw_taskmem.domain.text.texts import (
    format_count,
    format_duration,
    quote_line,
    to_plain_line,
)
from openclaw_taskmem.domain.wakes import notices, outbox
from openclaw_taskmem.domain.wakes.notices import NoticeKind
from openclaw_taskmem.domain.wakes.outbox import GATEWAY_RECOVERY_TIME
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
    WakeState,
)

MAY_LAPSE: Final = (RunState.RUNNING, RunState.QUEUED)
"""States in which a run may have a lease."""

CUT_SENTENCE: Final = "Your turn on this was cut"
_CUT_REASONS: Final = (RunReason.INTERRUPTED, RunReason.STALE, RunReason.PROMPT_CHANGED)
"""Reasons of runs whose turn was cut."""


class OwnerStatus(Value):
    """The present state of a run's owner, as far as it is known."""

    alive: bool = False
    """True if a turn of its session runs, or its process lives."""
    gone: bool = False
    """True if its process is known to have ended."""
    boot: str | None = None
    """Current start of its gateway; None: the gateway is not connected."""
    fingerprint: str | None = None
    """Digest of what shapes its agent's prompt now; None: not known."""


class LapseAction(StrEnum):
    """The decision on a run whose lease has expired."""

    RENEW = "renew"
    """Renew the lease: its owner lives, or it waits and its owner is not known to be gone."""
    REST = "rest"
    """Release the lease: it waits for something that will wake its gateway's session."""
    QUEUE = "queue"
    """Requeue it, to be claimed; the user is not notified, as they are of the next three."""
    RESUME = "resume"
    """Wake its session to go on with it."""
    ASK = "ask"
    """Ask the user."""
    FAIL = "fail"
    """Fail it: it was resumed too often."""


class LapseVerdict(Value):
    """The decision on a run whose lease has expired, with its reason."""

    action: LapseAction
    why: RunReason | None = None


ABANDONMENT: Final = LapseVerdict(action=LapseAction.QUEUE, why=RunReason.OWNER_GONE)
"""The decision on a run whose owner's process has ended."""
LEFT_SENTENCES: Final[Mapping[str | None, str]] = {
    RunReason.OWNER_GONE: "The process that held it before has ended",
    RunReason.LEASE_EXPIRED: "Whoever held it before was not seen within its lease",
}
"""Sentences for the next owner about the last one, by the reason that the run is queued."""
_CUT: Final = "Its agent's turn was cut"
_NOTE_BYTES: Final = 300


def describe_owner_gone(
    why: str | None, messages: Sequence[Message], mentions: StepMentions
) -> str:
    """Tell the agent that claims a run why the last owner is gone, with the last note.

    `why` is one of the keys of `LEFT_SENTENCES`; `messages` are the task's newest, oldest first;
    `mentions` tells the steps that they mean.
    """
    gone = LEFT_SENTENCES[why]
    spoken = [message for message in messages if message.role is not Role.SYSTEM]
    last = thread.choose_meaningful(spoken, most=1)
    if not last:
        return f"{gone}, and left no note, so look what is done before you go on."
    note = quote_line(to_plain_line(last[0].content), _NOTE_BYTES)
    note = mentions.add_old_steps(note, last[0])
    return f"{gone}; the last note is {note}, and task_update with a query tells more."


def judge_lapse(
    facts: TaskFacts, sight: OwnerStatus, now: datetime, policy: RunPolicy
) -> LapseVerdict:
    """Decide what to do with the task's run, whose lease has expired."""
    run = facts.run
    if run is None or run.state not in MAY_LAPSE:
        return LapseVerdict(action=LapseAction.REST)
    if sight.alive:
        return LapseVerdict(action=LapseAction.RENEW)
    waits = facts.task.rests
    if sight.boot is None or run.session_key is None:
        if waits and not sight.gone:
            return LapseVerdict(action=LapseAction.RENEW)
        return LapseVerdict(action=LapseAction.QUEUE, why=_find_requeue_reason(run, sight))
    if waits:
        return LapseVerdict(action=LapseAction.REST)
    return _judge_interrupted(run, sight, now, policy)


def judge_gateway_resume(
    facts: TaskFacts, sight: OwnerStatus, now: datetime, policy: RunPolicy
) -> LapseVerdict:
    """Decide whether the gateway may resume a run by itself.

    It may only on `RESUME`; any other action is carried out instead.
    """
    run = facts.run
    if run is None or run.state not in MAY_LAPSE:
        return LapseVerdict(action=LapseAction.RESUME)
    verdict = _judge_interrupted(run, sight, now, policy)
    if verdict.action is LapseAction.QUEUE:
        return LapseVerdict(action=LapseAction.RESUME)
    return verdict


def was_resumed(run: Run, owner: Owner, since: datetime | None) -> bool:
    """True if a run has gone on, or was told to, since its gateway started.

    `owner` is its agent in that gateway, `since` the gateway's start; None: not known.
    """
    if run.state is RunState.RUNNING:
        return run.owner == owner
    is_queued = run.state is RunState.QUEUED and run.why == RunReason.INTERRUPTED
    return is_queued and since is not None and run.changed_at >= since


def describe_cut(run: Run | None, boot: str | None) -> str | None:
    """Tell an agent what cut its turn; None: nothing is known to have cut it.

    `boot` is the current start of its gateway; None: not known.
    """
    owner = run.owner if run is not None else None
    if owner is not None and None not in (owner.boot, boot) and owner.boot != boot:
        return f"{CUT_SENTENCE} by a restart of the gateway."
    was_cut = run is not None and run.why in _CUT_REASONS
    return f"{CUT_SENTENCE}." if was_cut else None


def build_resumed_notice(task: Task, run: Run, now: datetime) -> Event:
    """Build the notice that a task resumes after an interruption."""
    line = f"{notices.format_task_name(task)}: resuming after an interruption."
    return notices.build_notice(NoticeKind.RESUMED, task, run, line, now)


def _judge_interrupted(
    run: Run, sight: OwnerStatus, now: datetime, policy: RunPolicy
) -> LapseVerdict:
    """Decide what to do with a run whose gateway is connected but runs no turn for it."""
    if run.limits.tries >= policy.tries:
        return LapseVerdict(action=LapseAction.FAIL, why=RunReason.INTERRUPTED)
    if (why := _find_doubt(run, sight, now, policy)) is not None:
        return LapseVerdict(action=LapseAction.ASK, why=why)
    if not policy.carry_on:
        return LapseVerdict(action=LapseAction.QUEUE, why=RunReason.INTERRUPTED)
    return LapseVerdict(action=LapseAction.RESUME, why=RunReason.INTERRUPTED)


def _find_doubt(run: Run, sight: OwnerStatus, now: datetime, policy: RunPolicy) -> RunReason | None:
    """Return why the user must be asked before a run resumes; None: it may resume."""
    if (now - run.seen_at).total_seconds() > policy.fresh_seconds:
        return RunReason.STALE
    known = None not in (run.agent.fingerprint, sight.fingerprint)
    if known and run.agent.fingerprint != sight.fingerprint:
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
    """Build the change that carries out a decision on a run whose lease has expired.

    `text` is the text of the wake if the run resumes.
    """
    run = facts.run
    assert run is not None  # noqa: S101 - only runs lapse
    match verdict.action:
        case LapseAction.RENEW:
            renewed = LeaseSet(lease_until=policy.lease_until(now))
            return Change(runs=(apply_events(run, renewed, now=now).run,))
        case LapseAction.REST:
            return Change(runs=(apply_events(run, LeaseReleased(), now=now).run,))
        case LapseAction.QUEUE:
            return _requeue_run(facts, run, verdict.why, now)
        case LapseAction.RESUME:
            return _resume_run(facts, run, wake_id, text, now)
        case LapseAction.ASK:
            return _ask_user(facts, run, verdict.why, now)
        case LapseAction.FAIL:
            times = format_count(run.limits.tries, "time")
            sentence = f"it was interrupted again after it was resumed {times}."
            return continuation.fail_run(
                facts, Fail(run=run, why=RunReason.INTERRUPTED, sentence=sentence), now
            )


def _queue_run(run: Run, why: RunReason | None, now: datetime) -> RunTransition:
    if run.state is RunState.QUEUED:
        return apply_events(run, LeaseReleased(), now=now)
    return apply_events(run, RunRequeued(why=why), now=now)


def _requeue_run(facts: TaskFacts, run: Run, why: RunReason | None, now: datetime) -> Change:
    moved = _queue_run(run, why, now)
    # The registrar's wake tells of the former owner, so it is out of date.
    gone = outbox.settle_registrar_wakes(facts.wakes)
    log = (*moved.events, *outbox.build_settled_events(gone, now))
    change = Change(runs=(moved.run,), wakes=gone, events=log)
    if run.state is RunState.QUEUED:
        return change
    sentence = f"{LEFT_SENTENCES.get(why, _CUT)}, so it is queued again."
    return lifecycle.enter_decision(change, facts.task, sentence, now)


def _resume_run(facts: TaskFacts, run: Run, wake_id: str, text: str, now: datetime) -> Change:
    queued = _queue_run(run, RunReason.INTERRUPTED, now)
    moved = apply_events(queued, ToldToGoOn(ages=True), ResumeTried(), now=now)
    again = moved.run
    notice = build_resumed_notice(facts.task, again, now)
    gone = continuation.supersede_open_wakes(facts)
    task = facts.task.model_copy(update={"held_until": now + RESUME_HOLD})
    change = Change(
        tasks=(task,),
        runs=(again,),
        wakes=(*gone, continuation.make_wake(again, wake_id, text, now, last_owner=run.owner)),
        events=(*moved.events, notice, *outbox.build_settled_events(gone, now)),
    )
    return lifecycle.enter_decision(change, task, f"{_CUT}, and it is told to go on.", now)


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
    notice = notices.build_notice(NoticeKind(why or RunReason.STALE), task, moved.run, line, now)
    # The user decides, so no wake may tell the agent to go on.
    gone = continuation.supersede_open_wakes(facts)
    change = Change(
        tasks=(task.model_copy(update={"held_until": None}),),
        runs=(moved.run,),
        wakes=gone,
        events=(*moved.events, notice, *outbox.build_settled_events(gone, now)),
    )
    sentence = f"Not gone on with: {because}, so the user is asked first."
    return lifecycle.enter_decision(change, task, sentence, now)


def set_restart_lease(run: Run, boot: str, started_at: datetime, now: datetime) -> Run | None:
    """Give a run a short lease after its gateway restarted; None: leave it as it is.

    Until it expires, the gateway's own recovery may resume the run.
    """
    if run.session_key is None or run.state not in MAY_LAPSE:
        return None
    if run.started_at is None:
        # The run never began, so nothing was interrupted.
        return None
    if run.owner is not None and run.owner.boot in (None, boot):
        return None
    due = started_at + GATEWAY_RECOVERY_TIME
    if run.lease_until is not None and run.lease_until <= due:
        return None
    return apply_events(run, LeaseSet(lease_until=due), now=now).run


def is_between_turns(
    facts: TaskFacts, sight: OwnerStatus, now: datetime, policy: RunPolicy, *, in_line: bool
) -> bool:
    """True if the task's run was between turns when its gateway restarted, and goes on by itself.

    Nothing of such a run was interrupted: a due wake, a wait, or the end of another run's work
    makes it go on. False also if the user must be asked first, as its agent was not seen for long
    or its instructions changed.

    `in_line`: another run of its session goes on before it.
    """
    run = facts.run
    if run is None or run.lease_until is not None:
        return False
    wakes = continuation.list_open_run_wakes(facts)
    rests = run.state is RunState.RUNNING and not wakes
    goes_on = any(wake.state is WakeState.DUE for wake in wakes) or (
        rests and (in_line or facts.task.rests)
    )
    return goes_on and _find_doubt(run, sight, now, policy) is None


def goes_on_by_itself(facts: TaskFacts) -> bool:
    """True if the task's run is at work or to be recovered, or a wake or wait makes it go on."""
    run = facts.run
    if run is None or run.state not in MAY_LAPSE or facts.task.implicit:
        return False
    waits = facts.task.rests
    return run.lease_until is not None or waits or bool(continuation.list_open_run_wakes(facts))


def take_up_resumed_run(facts: TaskFacts, owner: Owner, now: datetime, policy: RunPolicy) -> Change:
    """Build the change of a turn that took a resumed run's wake with those of others, and is over.

    The run is claimed, and its resumes no longer count. Empty: it was not resumed, or it has yet to
    be told. `owner` is the session's agent.
    """
    run = facts.run
    if run is None or run.lease_until is not None or not run.limits.tries:
        return Change()
    is_queued = run.state is RunState.QUEUED and run.why == RunReason.INTERRUPTED
    if not (is_queued or run.state is RunState.RUNNING) or continuation.list_open_run_wakes(facts):
        return Change()
    claim = (RunClaimed(owner=owner),) if is_queued else ()
    moved = apply_events(run, *claim, TurnSucceeded(), LeaseReleased(), now=now, policy=policy)
    return Change(runs=(moved.run,), events=moved.events)


def correct_wake_time(wake: Wake, now: datetime, policy: OutboxPolicy) -> Wake:
    """Correct a wake's due time after the clock was set back.

    An unsent wake is due now; a sent one at the latest when it would be resent if it had been sent
    now. `sent_at` stays.
    """
    if wake.due_at is None:
        return wake
    sent = wake.state is WakeState.SENT
    latest = now + policy.resend_after(wake) if sent else now
    return wake.model_copy(update={"due_at": min(wake.due_at, latest)})


def build_waiting_notice(task: Task, run: Run, now: datetime) -> Event:
    """Build the notice that a run still waits for the user."""
    need = current_run.describe_need(run) or "your word"
    how = notices.format_resume_command(task, run)
    line = f"{notices.format_task_name(task)}: still waits for {need}. Say {how} to go on."
    return notices.build_notice(NoticeKind.BLOCKED, task, run, line, now)


def was_announced(run: Run, newest: Sequence[Event]) -> bool:
    """True if the user was notified that a run waits for them since it began to wait.

    What they were told as they stopped its turn does not count.
    """
    return any(
        event.kind == events.NOTICE
        and event.run_id == run.run_id
        and event.at >= run.changed_at
        and not notices.is_small(event)
        and event.data.get("about") != NoticeKind.STOPPED
        for event in newest
    )


def adopt_run(facts: TaskFacts, moved: RunTransition, now: datetime) -> Change:
    """Build the change of a turn that takes up a run.

    The run's open wakes are superseded, unless one is on its way.
    """
    gone = (
        ()
        if continuation.has_wake_on_its_way(facts, now)
        else continuation.supersede_open_wakes(facts)
    )
    return Change(
        runs=(moved.run,),
        wakes=gone,
        events=(*moved.events, *outbox.build_settled_events(gone, now)),
    )
