"""Carrying on: what becomes of a run when a turn of its session has ended.

A turn that ends with its task open and nothing awaited is followed by another: at once
where it brought something, and else after a rest that grows, with a reminder that asks
what the agent's last words meant. Reminders that bring nothing, and turns that fail for
the provider's sake, are counted, and end in a failure that says so. What waits for the
user is what the agent gave as its question.
Source: requirements F1, F3, F4, ruling "idle rounds".
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain import (
    checkpoints,
    continuations,
    events,
    lifecycle,
    notices,
    outbox,
    reminders,
    turns,
    working,
)
from openclaw_taskmem.domain.notices import Milestone
from openclaw_taskmem.domain.run_events import (
    Blocked,
    Claimed,
    Failed,
    ProviderFailed,
    Rested,
    RoundCounted,
    ToldToGoOn,
    TurnEnded,
    TurnSucceeded,
    UserSpoke,
)
from openclaw_taskmem.domain.run_machine import Moved, apply
from openclaw_taskmem.domain.run_policy import RunPolicy, Why
from openclaw_taskmem.domain.stuck import HELD
from openclaw_taskmem.domain.texts import (
    clip,
    duration,
    plain,
    plural,
)
from openclaw_taskmem.domain.turns import Origin, Trouble, Turn
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
"""For how long an agent may wait for its gateway's work before it is reminded."""
SAID_BYTES: Final = 200
"""Kept of what a provider said."""
REFUSED_BYTES: Final = 120
"""Shown of it where the user is to mend it, so that there is room for the way."""
_COUNTED: Final = (Origin.TASKMEM, Origin.RECOVERY, Origin.OTHER, Origin.USER)
"""Origins of turns that are expected to bring something."""


class Rest(Value):
    """Nothing is to be done; what is owed to the run may stay so."""

    run: Run
    keep: bool = False
    """Whether a wake that is owed to the run still goes out."""
    held: timedelta | None = None
    """How long no alert comes; None: as before."""


class Block(Value):
    """The user has the next word."""

    run: Run
    why: Why
    line: str | None = None
    """What the user is told; None: the agent has said it."""


class Fail(Value):
    """It is over."""

    run: Run
    why: Why
    said: str


class GoOn(Value):
    """The agent is told to go on, after a rest in seconds."""

    run: Run
    text: str
    seconds: float = 0.0
    events: tuple[Event, ...] = ()


Course = Rest | Block | Fail | GoOn


def after_turn(
    facts: TaskFacts, turn: Turn, *, wake_id: str, now: datetime, policy: RunPolicy
) -> Change:
    """Return what the end of a turn writes for the run that it worked on."""
    run = facts.run
    if run is None or run.state is not RunState.RUNNING:
        return Change()
    course = judge(facts, run, turn, now, policy)
    match course:
        case Rest():
            rested = apply(course.run, Rested(), now=now)
            held = None if course.held is None else now + course.held
            return change_of(facts, rested, now, keep=course.keep, held=held)
        case Block():
            return _blocked(facts, course, now)
        case Fail():
            return failed(facts, course, now)
        case GoOn():
            moved = apply(course.run, ToldToGoOn(), now=now).run
            rest = timedelta(seconds=course.seconds)
            wake = continuations.make_wake(moved, wake_id, course.text, now, rest)
            told = Moved(run=moved, events=course.events)
            return change_of(facts, told, now, wake=wake)


def promoted(
    facts: TaskFacts, owner: Owner, *, wake_id: str, now: datetime, policy: RunPolicy
) -> Change | None:
    """Return what gives a run its turn, once another of its session has ended.

    Nothing of the turn before counts for it. Empty: it was told to go on already;
    None: it waits for something, or is told nothing. Source: requirement D6.
    """
    run = facts.run
    if run is None or run.state not in working.OPEN:
        return None
    if facts.task.linkage.active_wait_ids or facts.task.implicit:
        return None
    if not policy.carry_on or continuations.list_open(facts):
        return Change()
    claim = (Claimed(owner=owner),) if run.state is RunState.QUEUED else ()
    told = apply(run, *claim, ToldToGoOn(), now=now, policy=policy)
    wake = continuations.make_wake(told.run, wake_id, reminders.go_on(facts.task), now)
    return change_of(facts, told, now, wake=wake)


def judge(
    facts: TaskFacts, run: Run, turn: Turn, now: datetime, policy: RunPolicy
) -> Course:
    """Return what the end of a turn means for the run that it worked on."""
    if facts.task.status is not TaskStatus.ACTIVE:
        return Rest(run=run)
    if turn.aborted:
        return Block(run=run, why=Why.STOPPED)
    if turn.empty:
        return Rest(run=run, keep=True)
    if turn.error is not None:
        return _after_failure(facts, run, turn, now, policy)
    progressed = _brought_news(run, turn)
    ended = apply(run, TurnEnded(), TurnSucceeded(), now=now).run
    counted = _count_turn(ended, turn, now, progressed=progressed)
    return _after_round(facts, counted, turn, now, policy, progressed=progressed)


def _after_round(
    facts: TaskFacts,
    run: Run,
    turn: Turn,
    now: datetime,
    policy: RunPolicy,
    *,
    progressed: bool,
) -> Course:
    if facts.task.linkage.active_wait_ids:
        return Rest(run=run)
    over = _limit(run, policy)
    if over is not None and not (turn.awaited and over[0] is Why.STALLED):
        return Fail(run=run, why=over[0], said=over[1])
    if turn.awaited:
        return _left_to_wait(facts, run, turn, now, policy)
    if (
        not policy.carry_on
        or run.session_key is None
        or continuations.is_on_its_way(facts, now)
    ):
        return Rest(run=run, keep=True)
    asks = turns.asks(turn.said)
    if progressed and not asks:
        return GoOn(run=run, text=reminders.go_on(facts.task))
    pause = policy.idle_pauses[max(run.idle_rounds - 1, 0)]
    if asks and run.idle_rounds <= 1:
        pause = policy.question_seconds
    return GoOn(run=run, text=reminders.ask_what_was_meant(facts.task), seconds=pause)


def _left_to_wait(
    facts: TaskFacts, run: Run, turn: Turn, now: datetime, policy: RunPolicy
) -> Course:
    """Return how a run rests while its gateway is at work on something for it."""
    if not policy.carry_on or run.session_key is None:
        return Rest(run=run, held=AWAITED)
    # What ends with the gateway, and what outlives it.
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
    text = reminders.name_awaited(facts.task, turn.awaited)
    hour, age = AWAITED.total_seconds(), turn.awaited_age
    # After an hour, then after as long as it has run by then: after 1, 2, 4, 8 hours.
    seconds = max(hour - age if age < hour else age, policy.idle_pauses[0])
    return GoOn(run=run, text=text, seconds=seconds, events=(awaits,))


def _limit(run: Run, policy: RunPolicy) -> tuple[Why, str] | None:
    """Return which limit a run has come to, and a sentence on it; None: none."""
    if run.idle_rounds > len(policy.idle_pauses):
        count = plural(run.idle_rounds - 1, "reminder")
        return Why.STALLED, f"{count} in a row brought nothing new."
    if run.rounds - run.rounds_before >= policy.max_rounds:
        times = plural(policy.max_rounds, "time")
        return Why.ROUNDS, f"its agent was told to go on {times}."
    if run.worked_seconds >= policy.max_hours * 3600:
        worked = duration(run.worked_seconds)
        return Why.HOURS, f"its agent has worked on it for {worked}."
    return None


def _after_failure(
    facts: TaskFacts, run: Run, turn: Turn, now: datetime, policy: RunPolicy
) -> Course:
    trouble = turns.trouble(turn.error or "", turn.reason)
    if facts.task.linkage.active_wait_ids:
        return Rest(run=run)
    sent = turn.origin is Origin.USER and not turn.calls
    if sent and trouble is Trouble.REFUSED:
        # What the user has sent was refused, and the user sees that.
        return Rest(run=run, keep=True)
    task = facts.task
    said = clip(plain(turn.error or ""), SAID_BYTES)
    run = apply(run, ProviderFailed(), now=now).run
    failures = run.provider_failures
    if trouble is Trouble.CREDENTIALS:
        how, said = notices.to_resume(task, run), clip(said, REFUSED_BYTES)
        line = f"the model's provider refuses ({said}). Mend that, then say {how}."
        return Block(run=run, why=Why.CREDENTIALS, line=line)
    if trouble is Trouble.REFUSED or failures > policy.provider_retries:
        times = plural(failures, "time")
        words = f"the model's provider failed {times}: {said}."
        return Fail(run=run, why=Why.PROVIDER, said=words)
    if not policy.carry_on or run.session_key is None:
        return Rest(run=run)
    seconds = policy.provider_rest_seconds * 4 ** (failures - 1)
    retry = Event(
        at=now,
        kind=events.PROVIDER_FAILED,
        task_id=run.task_id,
        run_id=run.run_id,
        data={"error": said, "failures": failures, "again_in": duration(seconds)},
    )
    text = reminders.tell_end(task, f"Your last turn failed ({said}).")
    return GoOn(run=run, text=text, seconds=seconds, events=(retry,))


def failed(facts: TaskFacts, course: Fail, now: datetime) -> Change:
    """Return what a failure writes: of the run, of its task, and for the user."""
    task, _ = lifecycle.move(facts.task, TaskStatus.FAILED, now)
    moved = apply(course.run, Failed(why=course.why), now=now)
    message = lifecycle.noted(task, f"Failed ({course.why}): {course.said}", now)
    # Whoever is told to say /resume says it where the run is heard of.
    session = course.run.told_session or task.session_key
    task = lifecycle.touch(task, now).model_copy(
        update={"message_count": task.message_count + 1, "session_key": session}
    )
    said = f"{course.said} {notices.to_resume(task, course.run)} tries again."
    told = notices.milestone(Milestone.FAILED, task, moved.run, now, said)
    log = lifecycle.status_changed(
        facts.task.status, task, now, run_id=moved.run.run_id, why=course.why
    )
    stall = Event(
        at=now,
        kind=events.RUN_STALLED,
        task_id=task.task_id,
        run_id=moved.run.run_id,
        data={"rounds": course.run.idle_rounds},
    )
    stalled = (stall,) if course.why is Why.STALLED else ()
    ended = Moved(run=moved.run, events=(*stalled, *moved.events, *log, told))
    return change_of(facts, ended, now, task=task, message=message)


def _blocked(facts: TaskFacts, course: Block, now: datetime) -> Change:
    moved = apply(course.run, Blocked(why=course.why), now=now)
    told: tuple[Event, ...] = ()
    if course.line is not None:
        line = f"{notices.name(facts.task)}: {course.line}"
        told = (notices.notice(course.why, facts.task, moved.run, line, now),)
    return change_of(facts, Moved(run=moved.run, events=(*moved.events, *told)), now)


def _brought_news(run: Run, turn: Turn) -> bool:
    """Whether a turn made a call that is new, or was told something new by one."""
    if run.news is News.RESULT:
        return _digest(turn.said) != run.said
    return run.news is News.CALL


def _count_turn(run: Run, turn: Turn, now: datetime, *, progressed: bool) -> Run:
    """Return a run with what a turn counts for its limits."""
    if turn.origin is Origin.USER:
        run = apply(run, UserSpoke(), now=now).run
    idle = run.idle_rounds
    if progressed:
        idle = 0
    elif turn.origin in _COUNTED and not turn.awaited:
        idle += 1
    counted = RoundCounted(idle_rounds=idle, said=_digest(turn.said))
    return apply(run, counted, now=now).run


def _digest(said: str) -> str | None:
    """Return a digest of words, whatever their spaces and case; None: no words."""
    return checkpoints.digest(" ".join(said.casefold().split())) if said else None


def change_of(
    facts: TaskFacts,
    moved: Moved,
    now: datetime,
    *,
    task: Task | None = None,
    message: Message | None = None,
    wake: Wake | None = None,
    keep: bool = False,
    held: datetime | None = None,
) -> Change:
    """Return what is written; `keep` leaves the wakes that are owed."""
    if wake is not None and wake.due_at:
        held = wake.due_at + HELD
    gone = () if keep else continuations.drop_open(facts)
    after = task or facts.task
    if not keep and after.held_until != held:
        after = after.model_copy(update={"held_until": held})
    return Change(
        tasks=(after,) if after != facts.task else (),
        messages=(message,) if message else (),
        runs=(moved.run,) if moved.run != facts.run else (),
        wakes=(*gone, *((wake,) if wake else ())),
        events=(*moved.events, *outbox.settled_events(gone, now)),
    )
