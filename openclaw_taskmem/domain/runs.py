"""Who works on a task: every way in which a run changes, and no other.

Each change of state, and each claim, is an entry in the audit log. Who holds a run
does so under a lease, with a fencing token that only grows; who lost it is told so.
Who may claim it and write for it in which state, `domain/fencing.py` says.

| state           | owner            | lease     |
| --------------- | ---------------- | --------- |
| queued          | none             | none [1]  |
| running         | one              | until [2] |
| blocked, review | who held it last | none      |

What has ended is past: who reopens its task begins the next.

[1] A moment, in which the gateway's own recovery may take it up.
[2] None while it rests: nothing is expected of its owner.

Source: seeds 002 and 004, requirement D.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain import events, fencing
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.scrub import scrub
from openclaw_taskmem.domain.texts import clip_start
from taskmem_hookspecs import Event, News, Owner, Run, RunState, Task, TaskStatus, Value
from taskmem_hookspecs.errors import RunNotReady

_ENDS: Final = {RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED}
_NEXT: Final[Mapping[RunState, set[RunState]]] = {
    RunState.QUEUED: {RunState.RUNNING, RunState.BLOCKED, RunState.REVIEW, *_ENDS},
    RunState.RUNNING: {RunState.QUEUED, RunState.BLOCKED, RunState.REVIEW, *_ENDS},
    RunState.BLOCKED: {RunState.QUEUED, RunState.RUNNING, RunState.REVIEW, *_ENDS},
    RunState.REVIEW: {RunState.QUEUED, RunState.RUNNING, *_ENDS},
    RunState.COMPLETED: set(),
    RunState.FAILED: set(),
    RunState.CANCELLED: set(),
}
_STANDS: Final[Mapping[RunState, str]] = {
    RunState.QUEUED: "is queued already; claim it with task_claim to work on it",
    RunState.RUNNING: "runs already; task_status tells how far it is",
    RunState.BLOCKED: "waits for the user already; task_resume takes it up again",
    RunState.REVIEW: "is with the user for review already; once they "
    "have answered, task_resume with their words as answer takes it up again, and "
    "task_update with status completed ends it then",
}
LAST_WORDS_BYTES: Final = 1000
"""Kept of what an agent said last in a turn."""
_LATER: Final = timedelta(milliseconds=1)
_FOLLOWS: Final = {
    TaskStatus.PAUSED: RunState.BLOCKED,
    TaskStatus.COMPLETED: RunState.COMPLETED,
    TaskStatus.FAILED: RunState.FAILED,
    TaskStatus.CANCELLED: RunState.CANCELLED,
}


class Why(StrEnum):
    """Why a run is blocked, queued again, or has failed: what `Run.why` holds."""

    QUESTION = "question"
    """Blocked: its agent asks the user something, and waits for the answer."""
    ANSWERED = "answered"
    """Blocked: the user has answered, and its agent has not acted on that yet."""
    STOPPED = "stopped"
    """Blocked: somebody stopped its turn."""
    PAUSED = "paused"
    """Blocked: its task was paused."""
    STALE = "stale"
    """Blocked: it was interrupted too long ago to resume unasked."""
    PROMPT_CHANGED = "prompt_changed"
    """Blocked: its agent has other instructions than it began with."""
    CREDENTIALS = "credentials"
    """Blocked: the provider wants another key, or to be paid."""
    INTERRUPTED = "interrupted"
    """Queued: its owner began anew. Failed: that happened too often."""
    LEASE_EXPIRED = "lease_expired"
    """Queued: its lease ran out, and nothing was seen of its owner."""
    OWNER_GONE = "owner_gone"
    """Queued: the process of its owner has ended."""
    RESET = "reset"
    """Queued: somebody reset it."""
    BACKGROUND = "background"
    """Queued: it goes on in a session of its own."""
    HANDED_OFF = "handed_off"
    """Queued for another role, or for the user's review."""
    STALLED = "stalled_loop"
    """Failed: rounds in a row brought nothing new."""
    ROUNDS = "round_limit"
    """Failed: it was told to go on as often as is allowed."""
    HOURS = "hour_limit"
    """Failed: it was worked on for as long as is allowed."""
    PROVIDER = "provider_error"
    """Failed: the provider did, as often as it is tried."""
    ABORTED = "aborted"
    """Failed: its agent gave it up."""


class RunPolicy(Value):
    """How long a run is trusted, and how often it is helped along. Times in seconds."""

    lease_seconds: float = 300.0
    """After which an owner of whom nothing was seen counts as gone; longer than
    OpenClaw's own retries of a provider, which take 134 s."""
    fresh_seconds: float = 3600.0
    """Age up to which an interrupted run resumes by itself. Source: requirement E3."""
    tries: int = 2
    """Resumes in a row, OpenClaw's own included, after which a run fails."""
    carry_on: bool = True
    """Whether a run is told to go on when its turn ended before its task."""
    idle_pauses: tuple[float, ...] = (60.0, 240.0, 900.0)
    """The rests after turns in a row that brought nothing; after as many reminders
    without effect a run has stalled."""
    question_seconds: float = 120.0
    """The first of them where the agent's last words end in a question mark."""
    max_rounds: int = 200
    """How often a run is told to go on before its user says more."""
    max_hours: float = 48.0
    """Hours of work in turns after which it ends likewise."""
    provider_retries: int = 3
    """Turns in a row that may fail for the provider's sake and are begun again."""
    provider_rest_seconds: float = 90.0
    """The rest before the first such turn; four times as long each time."""
    step_calls: int = 3
    """Tool calls that a step of a segmented task has."""
    step_bonus: int = 2
    """How many more it has on request, once."""
    background: int = 3
    """Runs in the background at once; one of them for each session."""
    checkpoint_days: float = 7.0
    """Days for which checkpoints are kept, and implicit tasks."""
    implicit_tasks: bool = True
    """Whether a user's turn of several calls without a task is covered by one."""


POLICY: Final = RunPolicy()
"""What holds unless the settings say otherwise."""


class Moved(Value):
    """A run as it is now, and what the log says of that."""

    run: Run
    events: tuple[Event, ...]


def begin(
    task: Task,
    *,
    run_id: str,
    now: datetime,
    role: str | None = None,
    session_key: str | None = None,
    home: str | None = None,
    segmented: bool = False,
    last: Run | None = None,
) -> Moved:
    """Return a new run of a task, queued.

    `role` may claim it; None: anybody may. `last` is the task's run before it, for
    tokens grow over all of them, as does what its holders have heard, and none is as
    old as that one, whatever the clock says; None: there was none.
    """
    run = Run(
        run_id=run_id,
        task_id=task.task_id,
        state=RunState.QUEUED,
        role=role,
        session_key=session_key,
        home=home,
        segmented=segmented,
        token=last.token if last else 0,
        heard_until=last.heard_until if last else 0,
        created_at=max(now, last.created_at + _LATER) if last else now,
        changed_at=now,
        seen_at=now,
    )
    return Moved(run=run, events=(_changed(run, None, now),))


def claim(run: Run, owner: Owner, now: datetime, policy: RunPolicy) -> Moved:
    """Return a run as its new owner holds it, with a token that nobody had before.

    Raises:
        RunHeld: Another holds it; the sentence says who.
        RunNotReady: It has ended.
    """
    fencing.guard_claim(run, owner)
    here = run.session_key is not None and run.session_key == owner.session_key
    held = run.model_copy(
        update={
            "owner": owner,
            "session_key": owner.session_key or run.told_session or run.session_key,
            # Who goes on with it elsewhere takes it out of the background.
            "told_session": run.told_session if here else None,
            "home": owner.home or run.home,
            "token": run.token + 1,
            "started_at": run.started_at or now,
        }
    )
    held = seen(held, now, policy)
    if run.state is RunState.RUNNING:
        return Moved(run=held, events=(_event(events.RUN_CLAIMED, held, now),))
    return move(held, RunState.RUNNING, now)


def move(run: Run, state: RunState, now: datetime, why: str | None = None) -> Moved:
    """Return a run in another state; one that is queued is held by nobody.

    Raises:
        RunNotReady: That state does not follow the one it is in.
    """
    if state not in _NEXT[run.state]:
        raise RunNotReady(f"{standing(run)}.")
    if state is RunState.RUNNING and run.owner is None:
        raise RunNotReady(f"{run.run_id} is held by nobody; claim it with task_claim.")
    update: dict[str, object] = {"state": state, "why": why, "changed_at": now}
    if state is not RunState.RUNNING:
        # What it waits is no work, also where its turn goes on.
        run = turn_ended(run, now)
        update["lease_until"] = None
    if state is not RunState.BLOCKED:
        update["question"] = None
    if state is RunState.QUEUED:
        update["owner"] = None
    if state.terminal:
        update |= {"ended_at": now}
    moved = run.model_copy(update=update)
    return Moved(run=moved, events=(_changed(moved, run.state, now),))


def standing(run: Run) -> str:
    """Return where a run is, and what can be done there: why it goes nowhere else."""
    ended = f"has ended as {run.state}; reopen its task with task_update and status"
    return f"{run.run_id} {_STANDS.get(run.state, f'{ended} active')}"


def follow(run: Run, status: TaskStatus, now: datetime, why: str | None) -> Moved:
    """Return the open run of a task whose status has changed: it goes the same way.

    One that is in review waits for the user already, and is not blocked besides.
    """
    wanted = _FOLLOWS.get(status)
    waits = wanted is RunState.BLOCKED and run.state is RunState.REVIEW
    if wanted is None or wanted is run.state or waits:
        return Moved(run=run, events=())
    return move(run, wanted, now, why)


def seen(run: Run, now: datetime, policy: RunPolicy) -> Run:
    """Return a run whose owner was seen at work: its lease begins anew."""
    until = now + timedelta(seconds=policy.lease_seconds)
    return run.model_copy(update={"seen_at": now, "lease_until": until})


def held_by(run: Run, caller: Caller) -> Run:
    """Return a run as a caller holds it: what a sub-agent claims rests.

    In a turn of a gateway's session work on it begins, unless it has begun before.
    """
    if not caller.in_turn:
        return rest(run)
    if caller.in_gateway is None or run.turn_began_at is not None:
        return run
    return run.model_copy(update={"turn_began_at": run.seen_at})


def called(
    run: Run, caller: Caller, token: int | None, now: datetime, policy: RunPolicy
) -> Run:
    """Return a run after a call on its task: one by who holds it shows it at work.

    What a sub-agent calls while the run rests leaves it at rest.
    """
    if not fencing.holds(run, caller, token):
        return run
    after = seen(run, now, policy)
    return after if run.lease_until is not None else held_by(after, caller)


def rest(run: Run) -> Run:
    """Return a run that rests: nothing is expected of its owner until a turn begins."""
    return run.model_copy(update={"lease_until": None})


def came_to_an_end(run: Run) -> Run:
    """Return a run after a turn that ended in order: what failed before is over."""
    return run.model_copy(update={"tries": 0, "provider_failures": 0})


def turn_ended(run: Run, now: datetime) -> Run:
    """Return a run whose turn has ended: the time that it took counts."""
    began = run.turn_began_at
    spent = 0.0 if began is None else max((now - began).total_seconds(), 0.0)
    worked = run.worked_seconds + spent
    return run.model_copy(update={"turn_began_at": None, "worked_seconds": worked})


def was_blocked_since(run: Run, since: datetime | None) -> bool:
    """Whether a run was blocked since an instant; of None that is not known."""
    blocked = run.state is RunState.BLOCKED
    return blocked and since is not None and run.changed_at >= since


def spoken(run: Run, said: str) -> Run:
    """Return a run with the end of what its agent said last, without credentials."""
    words = clip_start(scrub(said), LAST_WORDS_BYTES)
    return run.model_copy(update={"last_response": words})


def asked_by_user(run: Run) -> Run:
    """Return a run in whose session the user has spoken: its limits count anew."""
    anew = {"rounds_before": run.rounds, "worked_seconds": 0.0, "idle_rounds": 0}
    return run.model_copy(update=anew)


def next_round(run: Run, now: datetime) -> Run:
    """Return a run that is told to go on; what comes is measured anew."""
    return run.model_copy(
        update={
            "rounds": run.rounds + 1,
            "news": News.NONE,
            "lease_until": None,
            "seen_at": max(run.seen_at, now),
        }
    )


def given_away(run: Run) -> bool:
    """Whether a run was handed to a role, and is no session's until one claims it."""
    return run.role is not None and run.session_key is None


def shows_calls(run: Run | None) -> bool:
    """Whether the calls of a run's agent are seen: its gateway's hooks report them."""
    if run is None:
        return False
    return run.checkpoints > 0 or (run.owner is not None and run.owner.boot is not None)


def left(run: Run, now: datetime, policy: RunPolicy) -> bool:
    """Whether a run is queued for its session, which must be gone: it never went on."""
    unseen = (now - run.seen_at).total_seconds()
    return run.state is RunState.QUEUED and unseen > policy.fresh_seconds


def _changed(run: Run, before: RunState | None, now: datetime) -> Event:
    told = {"from": before, "to": run.state, "why": run.why}
    return _event(events.RUN_CHANGED, run, now, **told)


def _event(kind: str, run: Run, now: datetime, **data: str | None) -> Event:
    holder = None if run.owner is None else run.owner.model_dump(exclude_none=True)
    return Event(
        at=now,
        kind=kind,
        task_id=run.task_id,
        run_id=run.run_id,
        data={**data, "token": run.token, "owner": holder},
    )
