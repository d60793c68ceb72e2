"""Apply calls, turns and task status changes to a task's run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.runs import claims
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import (
    LeaseReleased,
    OwnerSeen,
    RunBlocked,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunContinued,
    RunEvent,
    RunFailed,
    RunTransition,
    TurnBegan,
    apply_events,
)
from taskmem_hookspecs import Owner, Run, RunQuery, RunState, TaskStatus

OPEN_STATES: Final = tuple(state for state in RunState if not state.terminal)
_RUN_STATES: Final[Mapping[TaskStatus, tuple[RunState, RunEvent]]] = {
    TaskStatus.PAUSED: (RunState.BLOCKED, RunBlocked(why=RunReason.PAUSED)),
    TaskStatus.COMPLETED: (RunState.COMPLETED, RunCompleted()),
    TaskStatus.FAILED: (RunState.FAILED, RunFailed()),
    TaskStatus.CANCELLED: (RunState.CANCELLED, RunCancelled()),
}


def build_queue_query(role: str, limit: int) -> RunQuery:
    """Build the query for the queued runs that a role may claim, oldest first."""
    states = (RunState.QUEUED,)
    return RunQuery(states=states, oldest_first=True, role=role, limit=limit)


def follow_status(run: Run, status: TaskStatus, now: datetime) -> RunTransition:
    """Move a task's open run to the state that matches the task's new status.

    A run in review is not blocked when its task is paused: it already waits for the user.
    """
    state, event = _RUN_STATES.get(status, (run.state, None))
    waits = state is RunState.BLOCKED and run.state is RunState.REVIEW
    if event is None or state is run.state or waits:
        return RunTransition(run=run)
    return apply_events(run, event, now=now)


def take_up_run(run: Run, owner: Owner, now: datetime, policy: RunPolicy) -> RunTransition:
    """Set a resting run running for an owner.

    An owner that already holds the run keeps its role and token; anyone else claims it.
    """
    by_itself = owner.boot is None and owner.same(run.owner)
    same = run.owner == owner or by_itself
    event = RunContinued() if same else RunClaimed(owner=owner)
    return apply_events(run, event, now=now, policy=policy)


def begin_turn_or_rest(moved: RunTransition, caller: Caller, now: datetime) -> RunTransition:
    """Start the turn of a claimed run, or release its lease if no turn works on it.

    A sub-agent's claim takes no lease. A gateway's turn begins only once.
    """
    run = moved.run
    if not caller.in_turn:
        return apply_events(moved, LeaseReleased(), now=now)
    if caller.gateway_owner is None or run.limits.turn_began_at is not None:
        return moved
    return apply_events(moved, TurnBegan(turn_began_at=run.seen_at), now=now)


def note_call(run: Run, caller: Caller, token: int | None, now: datetime, policy: RunPolicy) -> Run:
    """Renew the run's lease if the caller of a task's tool owns the run.

    A sub-agent's call leaves a resting run without a lease.
    """
    if not claims.has_claim(run, caller, token):
        return run
    seen = apply_events(run, OwnerSeen(), now=now, policy=policy)
    return (seen if run.lease_until is not None else begin_turn_or_rest(seen, caller, now)).run


def was_blocked_since(run: Run, since: datetime | None) -> bool:
    """True if the run was blocked at or after `since` and still is; None: not known, so False."""
    blocked = run.state is RunState.BLOCKED
    return blocked and since is not None and run.changed_at >= since


def is_given_away(run: Run) -> bool:
    """True if the run was handed to a role and no session has claimed it yet."""
    return run.role is not None and run.session_key is None


def has_visible_calls(run: Run | None) -> bool:
    """True if the gateway's hooks report the tool calls of the run's agent."""
    if run is None:
        return False
    return run.progress.checkpoints > 0 or (run.owner is not None and run.owner.boot is not None)


def is_left_behind(run: Run, now: datetime, policy: RunPolicy) -> bool:
    """True if the run is queued and its owner was not seen for `fresh_seconds`."""
    unseen = (now - run.seen_at).total_seconds()
    return run.state is RunState.QUEUED and unseen > policy.fresh_seconds
