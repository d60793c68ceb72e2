"""Every way in which a run changes: `apply` gives it an event, and nothing else does.

| state           | owner            | lease     |
| --------------- | ---------------- | --------- |
| queued          | none             | none [1]  |
| running         | one              | until [2] |
| blocked, review | who held it last | none      |

What has ended takes no event: who reopens its task begins the next run. Each change of
state, and each claim, is an entry in the audit log. `run_events` has the events, and
`fencing` says who may claim a run and write for it.

[1] A moment, in which the gateway's own recovery may take it up.
[2] None while it rests: nothing is expected of its owner.

Source: seeds 002 and 004, requirement D.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.run_events import Fields, RunClaimed, RunEvent, end_turn
from openclaw_taskmem.domain.run_policy import POLICY, RunPolicy
from taskmem_hookspecs import Event, Run, RunState, Task, Value
from taskmem_hookspecs.errors import RunNotReady

_QUEUED, _RUNNING = RunState.QUEUED, RunState.RUNNING
_BLOCKED, _REVIEW = RunState.BLOCKED, RunState.REVIEW
_LATER: Final = timedelta(milliseconds=1)
_STANDS: Final[Mapping[RunState, str]] = {
    _QUEUED: "is queued already; claim it with task_claim to work on it",
    _RUNNING: "runs already; task_status tells how far it is",
    _BLOCKED: "waits for the user already; task_resume takes it up again",
    _REVIEW: "is with the user for review already; once they "
    "have answered, task_resume with their words as answer takes it up again, and "
    "task_update with status completed ends it then",
}


class RunTransition(Value):
    """A run as it is now, and what the log says of how it came to be so."""

    run: Run
    events: tuple[Event, ...] = ()


def begin_run(
    task: Task,
    *,
    run_id: str,
    now: datetime,
    role: str | None = None,
    session_key: str | None = None,
    home: str | None = None,
    segmented: bool = False,
    last: Run | None = None,
) -> RunTransition:
    """Return a new run of a task, queued.

    `role` may claim it; None: anybody may. `last` is the task's run before it, for
    tokens grow over all of them, as does what its holders have heard, and none is as
    old as that one, whatever the clock says; None: there was none.
    """
    run = Run(
        run_id=run_id,
        task_id=task.task_id,
        state=_QUEUED,
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
    return RunTransition(run=run, events=(_build_change_event(run, None, now),))


def apply_events(
    run: Run | RunTransition, *happened: RunEvent, now: datetime, policy: RunPolicy = POLICY
) -> RunTransition:
    """Return a run after events, in their order, and what the log says of them.

    Raises:
        RunNotReady: One cannot happen in the state that the run is in.
        RunHeld: Another holds what is claimed; the sentence says who.
    """
    moved = run if isinstance(run, RunTransition) else RunTransition(run=run)
    for event in happened:
        before = moved.run
        if before.state not in event.states:
            raise RunNotReady(f"{describe_standing(before)}.")
        fields = event.change(before, now, policy)
        enters = event.to not in (None, before.state)
        if event.to is not None and enters:
            fields = {**_enter_state(before, event.to, now), **fields}
        after = before.model_copy(update=fields)
        log = moved.events
        if enters:
            log = (*log, _build_change_event(after, before.state, now))
        elif isinstance(event, RunClaimed):
            log = (*log, _build_event(events.RUN_CLAIMED, after, now))
        moved = RunTransition(run=after, events=log)
    return moved


def describe_standing(run: Run) -> str:
    """Return where a run is, and what can be done there: why it goes nowhere else."""
    ended = f"has ended as {run.state}; reopen its task with task_update and status"
    return f"{run.run_id} {_STANDS.get(run.state, f'{ended} active')}"


def _enter_state(run: Run, state: RunState, now: datetime) -> Fields:
    """Return what changes as a run enters another state."""
    fields: dict[str, object] = {"state": state, "changed_at": now, "why": None}
    if state is not _RUNNING:
        # What it waits is no work, also where its turn goes on.
        fields |= {"lease_until": None, **end_turn(run, now)}
    if state is not _BLOCKED:
        fields["question"] = None
    if state is _QUEUED:
        fields["owner"] = None
    if state.terminal:
        fields["ended_at"] = now
    return fields


def _build_change_event(run: Run, before: RunState | None, now: datetime) -> Event:
    told = {"from": before, "to": run.state, "why": run.why}
    return _build_event(events.RUN_CHANGED, run, now, **told)


def _build_event(kind: str, run: Run, now: datetime, **data: str | None) -> Event:
    holder = None if run.owner is None else run.owner.model_dump(exclude_none=True)
    return Event(
        at=now,
        kind=kind,
        task_id=run.task_id,
        run_id=run.run_id,
        data={**data, "token": run.token, "owner": holder},
    )
