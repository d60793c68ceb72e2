"""Apply events to a run. Nothing else changes a run.

| state           | owner          | lease     |
| --------------- | -------------- | --------- |
| queued          | none           | none [1]  |
| running         | one            | until [2] |
| blocked, review | the last owner | none      |

A run that has ended never changes its state; it takes only events that every state allows, such as
`OwnerSeen`. Reopening its task begins a new run. Each change of state and each claim adds an entry
to the event log. `run_events` has the events, `run_claims` decides who
may claim a run and write for it.

[1] For a few seconds after a gateway's start it has one, for the gateway's own recovery.
[2] None between turns: the owner is not expected to report.

Source: docs/origins.md, "Runs and their states".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.runs.events import RunClaimed, RunEvent, end_turn
from openclaw_taskmem.domain.runs.fields import Fields, set_fields
from openclaw_taskmem.domain.runs.policy import POLICY, RunPolicy
from taskmem_hookspecs import Event, Run, RunState, StepBudget, Task, UserDialogue, Value
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
    """A run after its events, and the log entries to write."""

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
    """Create a queued run of a task.

    `role` may claim it; None: anybody may. `last` is the task's previous run, None if there was
    none: the new run continues its token and `heard_until`, and is created after it even if the
    clock went back.
    """
    run = Run(
        run_id=run_id,
        task_id=task.task_id,
        state=_QUEUED,
        role=role,
        session_key=session_key,
        home=home,
        budget=StepBudget(segmented=segmented),
        token=last.token if last else 0,
        dialogue=UserDialogue(heard_until=last.dialogue.heard_until if last else 0),
        created_at=max(now, last.created_at + _LATER) if last else now,
        changed_at=now,
        seen_at=now,
    )
    return RunTransition(run=run, events=(_build_change_event(run, None, now),))


def apply_events(
    run: Run | RunTransition, *happened: RunEvent, now: datetime, policy: RunPolicy = POLICY
) -> RunTransition:
    """Apply events to a run in order; return the run and the log entries.

    Raises:
        RunNotReady: An event is not allowed in the run's state.
        RunHeld: The owner may not claim the run: it is another's, or for another role.
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
        after = set_fields(before, fields)
        log = moved.events
        if enters:
            log = (*log, _build_change_event(after, before.state, now))
        elif isinstance(event, RunClaimed):
            log = (*log, _build_event(events.RUN_CLAIMED, after, now))
        moved = RunTransition(run=after, events=log)
    return moved


def describe_standing(run: Run) -> str:
    """Say which state a run is in and what can be done next, as the reason for a refusal."""
    ended = f"has ended as {run.state}; reopen its task with task_update and status"
    return f"{run.run_id} {_STANDS.get(run.state, f'{ended} active')}"


def _enter_state(run: Run, state: RunState, now: datetime) -> Fields:
    """Compute the fields that change when a run enters another state."""
    fields: dict[str, object] = {"state": state, "changed_at": now, "why": None}
    if state is not _RUNNING:
        # Waiting is not counted as work, even if the turn goes on.
        fields |= {"lease_until": None, **end_turn(run, now)}
    if state is not _BLOCKED:
        fields["question"] = None
    if state is _QUEUED:
        fields["owner"] = None
    return fields


def _build_change_event(run: Run, before: RunState | None, now: datetime) -> Event:
    data = {"from": before, "to": run.state, "why": run.why}
    return _build_event(events.RUN_CHANGED, run, now, **data)


def _build_event(kind: str, run: Run, now: datetime, **data: str | None) -> Event:
    holder = None if run.owner is None else run.owner.model_dump(exclude_none=True)
    return Event(
        at=now,
        kind=kind,
        task_id=run.task_id,
        run_id=run.run_id,
        data={**data, "token": run.token, "owner": holder},
    )
