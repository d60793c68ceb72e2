"""What calls, turns and the state of a task mean for its run, and what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain import run_ownership
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.run_events import (
    LeaseReleased,
    OwnerSeen,
    RunBlocked,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunContinued,
    RunEvent,
    RunFailed,
    TurnBegan,
)
from openclaw_taskmem.domain.run_machine import RunTransition, apply_events
from openclaw_taskmem.domain.run_policy import RunPolicy, RunReason
from taskmem_hookspecs import Owner, Run, RunQuery, RunState, TaskStatus

_FOLLOWS: Final[Mapping[TaskStatus, tuple[RunState, RunEvent]]] = {
    TaskStatus.PAUSED: (RunState.BLOCKED, RunBlocked(why=RunReason.PAUSED)),
    TaskStatus.COMPLETED: (RunState.COMPLETED, RunCompleted()),
    TaskStatus.FAILED: (RunState.FAILED, RunFailed()),
    TaskStatus.CANCELLED: (RunState.CANCELLED, RunCancelled()),
}


def build_queue_query(role: str, limit: int) -> RunQuery:
    """Return what finds the queued runs that a role may claim, oldest first."""
    states = (RunState.QUEUED,)
    return RunQuery(states=states, oldest_first=True, role=role, limit=limit)


def follow_status(run: Run, status: TaskStatus, now: datetime) -> RunTransition:
    """Return the open run of a task whose status has changed: it goes the same way.

    One that is in review waits for the user already, and is not blocked besides.
    """
    state, event = _FOLLOWS.get(status, (run.state, None))
    waits = state is RunState.BLOCKED and run.state is RunState.REVIEW
    if event is None or state is run.state or waits:
        return RunTransition(run=run)
    return apply_events(run, event, now=now)


def take_up_run(run: Run, owner: Owner, now: datetime, policy: RunPolicy) -> RunTransition:
    """Return a run that rested as an owner goes on with it.

    A process that goes on with what it holds keeps its role and its token.
    """
    by_itself = owner.boot is None and owner.same(run.owner)
    same = run.owner == owner or by_itself
    event = RunContinued() if same else RunClaimed(owner=owner)
    return apply_events(run, event, now=now, policy=policy)


def begin_turn_or_rest(moved: RunTransition, caller: Caller, now: datetime) -> RunTransition:
    """Return a run as a caller holds it: what a sub-agent claims rests.

    In a turn of a gateway's session work on it begins, unless it has begun before.
    """
    run = moved.run
    if not caller.in_turn:
        return apply_events(moved, LeaseReleased(), now=now)
    if caller.gateway_owner is None or run.turn_began_at is not None:
        return moved
    return apply_events(moved, TurnBegan(turn_began_at=run.seen_at), now=now)


def note_call(run: Run, caller: Caller, token: int | None, now: datetime, policy: RunPolicy) -> Run:
    """Return a run after a call on its task: one by who holds it shows it at work.

    What a sub-agent calls while the run rests leaves it at rest.
    """
    if not run_ownership.has_claim(run, caller, token):
        return run
    seen = apply_events(run, OwnerSeen(), now=now, policy=policy)
    return (seen if run.lease_until is not None else begin_turn_or_rest(seen, caller, now)).run


def was_blocked_since(run: Run, since: datetime | None) -> bool:
    """Whether a run was blocked since an instant; of None that is not known."""
    blocked = run.state is RunState.BLOCKED
    return blocked and since is not None and run.changed_at >= since


def is_given_away(run: Run) -> bool:
    """Whether a run was handed to a role, and is no session's until one claims it."""
    return run.role is not None and run.session_key is None


def has_visible_calls(run: Run | None) -> bool:
    """Whether the calls of a run's agent are seen: its gateway's hooks report them."""
    if run is None:
        return False
    return run.checkpoints > 0 or (run.owner is not None and run.owner.boot is not None)


def is_left_behind(run: Run, now: datetime, policy: RunPolicy) -> bool:
    """Whether a run is queued for its session, which must be gone: it never went on."""
    unseen = (now - run.seen_at).total_seconds()
    return run.state is RunState.QUEUED and unseen > policy.fresh_seconds
