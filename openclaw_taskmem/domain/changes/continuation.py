"""Decide what to do with a run when a turn of its session ends.

If the task is still open and waits for nothing, the agent is woken: at once after progress, else
after a growing rest, with a reminder. A run fails after too many reminders without progress, or too
many turns that failed because of the provider. Only a question that the agent put to the user
blocks the run for an answer.

Source: docs/origins.md, "Carrying on without the user".
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain import events, turns
from openclaw_taskmem.domain.changes import reminders, run_wakes
from openclaw_taskmem.domain.changes.stuck import HOLD_FOR_GO_ON
from openclaw_taskmem.domain.effects import checkpoints
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.events import (
    LeaseReleased,
    ProviderFailed,
    RoundCounted,
    RunBlocked,
    RunClaimed,
    RunFailed,
    RunTurnEnded,
    ToldToGoOn,
    TurnSucceeded,
    UserSpoke,
)
from openclaw_taskmem.domain.runs.machine import RunTransition, apply_events
from openclaw_taskmem.domain.runs.policy import RunPolicy, RunReason
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.text.texts import clip, format_count, format_duration, to_plain_line
from openclaw_taskmem.domain.turns import Origin, ProviderFailureKind, Turn
from openclaw_taskmem.domain.wakes import notices, outbox
from openclaw_taskmem.domain.wakes.notices import Milestone, NoticeKind
from taskmem_hookspecs import (
    Change,
    Event,
    Message,
    News,
    Owner,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    Value,
    Wake,
)

AWAITED: Final = timedelta(hours=1)
"""How long an agent may wait for its gateway's work before it is reminded."""
SAID_BYTES: Final = 200
"""Longest excerpt of a provider's error."""
REFUSED_BYTES: Final = 120
"""Longest excerpt of it if the user must act, so that there is room for what to do."""
_COUNTED: Final = (Origin.TASKMEM, Origin.RECOVERY, Origin.OTHER, Origin.USER)
"""Origins of turns that count as idle if they bring no progress."""


class RestRun(Value):
    """Release the lease, and wake nobody."""

    run: Run
    keep: bool = False
    """Keep the run's open wakes and the hold on stuck alerts; False: supersede and replace them."""
    held: timedelta | None = None
    """How long no stuck alert is sent; None: no hold. Ignored if `keep`."""


class Block(Value):
    """Block the run until the user acts."""

    run: Run
    why: RunReason
    line: str | None = None
    """Line for the user; None: the agent has said it already."""


class Fail(Value):
    """Fail the run and its task."""

    run: Run
    why: RunReason
    said: str


class GoOn(Value):
    """Wake the agent to go on after `seconds`."""

    run: Run
    text: str
    seconds: float = 0.0
    events: tuple[Event, ...] = ()


Course = RestRun | Block | Fail | GoOn


def apply_turn_end(
    facts: TaskFacts, turn: Turn, *, wake_id: str, now: datetime, policy: RunPolicy
) -> Change:
    """Build the change that the end of a turn makes to its task's run; empty: it is not running."""
    run = facts.run
    if run is None or run.state is not RunState.RUNNING:
        return Change()
    course = decide_course(facts, run, turn, now, policy)
    match course:
        case RestRun():
            rested = apply_events(course.run, LeaseReleased(), now=now)
            held = None if course.held is None else now + course.held
            return build_run_change(facts, rested, now, keep=course.keep, held=held)
        case Block():
            return _block_run(facts, course, now)
        case Fail():
            return fail_run(facts, course, now)
        case GoOn():
            moved = apply_events(course.run, ToldToGoOn(), now=now).run
            rest = timedelta(seconds=course.seconds)
            wake = run_wakes.make_wake(moved, wake_id, course.text, now, rest)
            transition = RunTransition(run=moved, events=course.events)
            return build_run_change(facts, transition, now, wake=wake)


def promote_run(
    facts: TaskFacts, owner: Owner, *, wake_id: str, now: datetime, policy: RunPolicy
) -> Change | None:
    """Build the change that starts a session's next run after another of its runs has ended.

    The turn before does not count for it. Empty: it was told to go on already, or automatic
    continuation is off. None: it is not open, waits for something, or its task is implicit. Source:
    docs/origins.md, "Runs and their states".
    """
    run = facts.run
    if run is None or run.state not in current_run.OPEN:
        return None
    if facts.task.linkage.active_wait_ids or facts.task.implicit:
        return None
    if not policy.carry_on or run_wakes.list_open_run_wakes(facts):
        return Change()
    claim = (RunClaimed(owner=owner),) if run.state is RunState.QUEUED else ()
    moved = apply_events(run, *claim, ToldToGoOn(), now=now, policy=policy)
    wake = run_wakes.make_wake(moved.run, wake_id, reminders.remind_to_go_on(facts.task), now)
    return build_run_change(facts, moved, now, wake=wake)


def decide_course(
    facts: TaskFacts, run: Run, turn: Turn, now: datetime, policy: RunPolicy
) -> Course:
    """Decide what to do with a run when a turn that worked on it ends."""
    if facts.task.status is not TaskStatus.ACTIVE:
        return RestRun(run=run)
    if turn.aborted:
        return Block(run=run, why=RunReason.STOPPED)
    if turn.is_empty:
        return RestRun(run=run, keep=True)
    if turn.error is not None:
        return _judge_failure(facts, run, turn, now, policy)
    progressed = _has_progress(run, turn)
    ended = apply_events(run, RunTurnEnded(), TurnSucceeded(), now=now).run
    counted = _count_turn(ended, turn, now, progressed=progressed)
    return _judge_round(facts, counted, turn, now, policy, progressed=progressed)


def _judge_round(
    facts: TaskFacts, run: Run, turn: Turn, now: datetime, policy: RunPolicy, *, progressed: bool
) -> Course:
    if facts.task.linkage.active_wait_ids:
        return RestRun(run=run)
    over = _find_limit(run, policy)
    if over is not None and not (turn.awaited_work and over[0] is RunReason.STALLED):
        return Fail(run=run, why=over[0], said=over[1])
    if turn.awaited_work:
        return _await_gateway_work(facts, run, turn, now, policy)
    if not policy.carry_on or run.session_key is None or run_wakes.has_wake_on_its_way(facts, now):
        return RestRun(run=run, keep=True)
    asks = turns.has_closing_question(turn.said)
    if progressed and not asks:
        return GoOn(run=run, text=reminders.remind_to_go_on(facts.task))
    pause = policy.idle_pauses[max(run.limits.idle_rounds - 1, 0)]
    if asks and run.limits.idle_rounds <= 1:
        pause = policy.question_seconds
    return GoOn(run=run, text=reminders.remind_of_no_progress(facts.task), seconds=pause)


def _await_gateway_work(
    facts: TaskFacts, run: Run, turn: Turn, now: datetime, policy: RunPolicy
) -> Course:
    """Decide how long a run rests while its gateway works on something for it."""
    if not policy.carry_on or run.session_key is None:
        return RestRun(run=run, held=AWAITED)
    # Commands end with the gateway, scheduled work outlives it.
    awaits = Event(
        at=now,
        kind=events.RUN_AWAITS,
        task_id=run.task_id,
        run_id=run.run_id,
        data={
            "commands": [*turn.commands],
            "scheduled": [*turn.scheduled],
            "sub_agents": turn.children,
        },
    )
    text = reminders.remind_of_awaited(facts.task, turn.awaited_work)
    hour, age = AWAITED.total_seconds(), turn.awaited_age
    # Remind after 1 hour, then each time the age has doubled: after 2, 4, 8 hours.
    seconds = max(hour - age if age < hour else age, policy.idle_pauses[0])
    return GoOn(run=run, text=text, seconds=seconds, events=(awaits,))


def _find_limit(run: Run, policy: RunPolicy) -> tuple[RunReason, str] | None:
    """Return which limit a run has reached, with a sentence; None: none."""
    if run.limits.idle_rounds > len(policy.idle_pauses):
        count = format_count(run.limits.idle_rounds - 1, "reminder")
        return RunReason.STALLED, f"{count} in a row brought nothing new."
    if run.limits.rounds - run.limits.rounds_before >= policy.max_rounds:
        times = format_count(policy.max_rounds, "time")
        return RunReason.ROUNDS, f"its agent was told to go on {times}."
    if run.limits.worked_seconds >= policy.max_hours * 3600:
        worked = format_duration(run.limits.worked_seconds)
        return RunReason.HOURS, f"its agent has worked on it for {worked}."
    return None


def _judge_failure(
    facts: TaskFacts, run: Run, turn: Turn, now: datetime, policy: RunPolicy
) -> Course:
    trouble = turns.classify_failure(turn.error or "", turn.reason)
    if facts.task.linkage.active_wait_ids:
        return RestRun(run=run)
    sent = turn.origin is Origin.USER and not turn.calls
    if sent and trouble is ProviderFailureKind.REFUSED:
        # The provider refused the user's own message, and the user sees that.
        return RestRun(run=run, keep=True)
    task = facts.task
    said = clip(to_plain_line(turn.error or ""), SAID_BYTES)
    run = apply_events(run, ProviderFailed(), now=now).run
    failures = run.limits.provider_failures
    if trouble is ProviderFailureKind.CREDENTIALS:
        how, said = notices.format_resume_command(task, run), clip(said, REFUSED_BYTES)
        line = f"the model's provider refuses ({said}). Mend that, then say {how}."
        return Block(run=run, why=RunReason.CREDENTIALS, line=line)
    if trouble is ProviderFailureKind.REFUSED or failures > policy.provider_retries:
        times = format_count(failures, "time")
        words = f"the model's provider failed {times}: {said}."
        return Fail(run=run, why=RunReason.PROVIDER, said=words)
    if not policy.carry_on or run.session_key is None:
        return RestRun(run=run)
    seconds = policy.provider_rest_seconds * 4 ** (failures - 1)
    retry = Event(
        at=now,
        kind=events.PROVIDER_FAILED,
        task_id=run.task_id,
        run_id=run.run_id,
        data={"error": said, "failures": failures, "again_in": format_duration(seconds)},
    )
    text = reminders.remind_of_end(task, f"Your last turn failed ({said}).")
    return GoOn(run=run, text=text, seconds=seconds, events=(retry,))


def fail_run(facts: TaskFacts, course: Fail, now: datetime) -> Change:
    """Build the change that fails a run and its task and notifies the user."""
    task, _ = lifecycle.change_status(facts.task, TaskStatus.FAILED, now)
    moved = apply_events(course.run, RunFailed(why=course.why), now=now)
    message = lifecycle.build_lifecycle_message(task, f"Failed ({course.why}): {course.said}", now)
    # The user says /resume in the chat that gets the run's notices.
    session = course.run.told_session or task.session_key
    task = lifecycle.touch_task(task, now).model_copy(
        update={"message_count": task.message_count + 1, "session_key": session}
    )
    said = f"{course.said} {notices.format_resume_command(task, course.run)} tries again."
    milestone = notices.build_milestone(Milestone.FAILED, task, moved.run, now, said)
    log = lifecycle.build_status_events(
        facts.task.status, task, now, run_id=moved.run.run_id, why=course.why
    )
    stall = Event(
        at=now,
        kind=events.RUN_STALLED,
        task_id=task.task_id,
        run_id=moved.run.run_id,
        data={"rounds": course.run.limits.idle_rounds},
    )
    stalled = (stall,) if course.why is RunReason.STALLED else ()
    ended = RunTransition(run=moved.run, events=(*stalled, *moved.events, *log, milestone))
    return build_run_change(facts, ended, now, task=task, message=message)


def _block_run(facts: TaskFacts, course: Block, now: datetime) -> Change:
    moved = apply_events(course.run, RunBlocked(why=course.why), now=now)
    notice: tuple[Event, ...] = ()
    if course.line is not None:
        line = f"{notices.format_task_name(facts.task)}: {course.line}"
        notice = (notices.build_notice(NoticeKind(course.why), facts.task, moved.run, line, now),)
    return build_run_change(
        facts, RunTransition(run=moved.run, events=(*moved.events, *notice)), now
    )


def _has_progress(run: Run, turn: Turn) -> bool:
    """True if a turn made a new call, or an old call's result and the last words are both new."""
    if run.progress.news is News.RESULT:
        return _digest_words(turn.said) != run.progress.said
    return run.progress.news is News.CALL


def _count_turn(run: Run, turn: Turn, now: datetime, *, progressed: bool) -> Run:
    """Count a turn for the run's limits."""
    if turn.origin is Origin.USER:
        run = apply_events(run, UserSpoke(), now=now).run
    idle = run.limits.idle_rounds
    if progressed:
        idle = 0
    elif turn.origin in _COUNTED and not turn.awaited_work:
        idle += 1
    counted = RoundCounted(idle_rounds=idle, said=_digest_words(turn.said))
    return apply_events(run, counted, now=now).run


def _digest_words(said: str) -> str | None:
    """Digest words, ignoring spaces and case; None: there are no words."""
    return checkpoints.digest_text(" ".join(said.casefold().split())) if said else None


def build_run_change(
    facts: TaskFacts,
    moved: RunTransition,
    now: datetime,
    *,
    task: Task | None = None,
    message: Message | None = None,
    wake: Wake | None = None,
    keep: bool = False,
    held: datetime | None = None,
) -> Change:
    """Build a change of a run and its task.

    Args:
        facts: The task before the change.
        moved: The run after it, with its log entries.
        now: The instant of the change.
        task: The task after it; None: unchanged.
        message: Entry to add to the thread; None: none.
        wake: Wake to send; None: none.
        keep: Keep the run's open wakes instead of superseding them, and the task's hold.
        held: Until when no stuck alert is sent; None: no hold. A wake's due time sets it.
    """
    if wake is not None and wake.due_at:
        held = wake.due_at + HOLD_FOR_GO_ON
    gone = () if keep else run_wakes.supersede_open_wakes(facts)
    after = task or facts.task
    if not keep and after.held_until != held:
        after = after.model_copy(update={"held_until": held})
    return Change(
        tasks=(after,) if after != facts.task else (),
        messages=(message,) if message else (),
        runs=(moved.run,) if moved.run != facts.run else (),
        wakes=(*gone, *((wake,) if wake else ())),
        events=(*moved.events, *outbox.build_settled_events(gone, now)),
    )
