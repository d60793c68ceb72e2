"""Open and end implicit tasks, which cover a user's turn of several calls without a task.

So the calls are recorded and the turn survives a crash. The user and the agent are not notified.
The task ends with its turn, or becomes the task that the agent registers in it. Source:
docs/origins.md, "Turns without a task".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import continuation, task_runs
from openclaw_taskmem.domain.changes.continuation import Turn
from openclaw_taskmem.domain.effects import checkpoints
from openclaw_taskmem.domain.effects.checkpoints import CallEndEntry, CallStartEntry
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.runs.machine import (
    AgentDescribed,
    LeaseReleased,
    PlanReplaced,
    RunClaimed,
    RunCompleted,
    RunTurnEnded,
    TaskRegistered,
    TurnBegan,
    TurnCovered,
    apply_events,
    begin_run,
)
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.text.texts import clip, to_plain_line
from openclaw_taskmem.domain.wakes import notices, outbox
from openclaw_taskmem.domain.wakes.notices import Milestone
from taskmem_hookspecs import Change, Owner, Run, Task, TaskFacts, TaskStatus, Value
from taskmem_hookspecs.model import Instant

_COVERED_CALLS: Final = 3
"""Calls of a turn after which it is covered."""
NAME_BYTES: Final = 120
"""Longest excerpt of the user's message as the task's name."""
STEP_BYTES: Final = 400
"""Longest excerpt of the user's message as its only step."""
_WORDLESS_NAME: Final = "A message without words"


class UncoveredCallEntry(Value):
    """The start or end of a call that belongs to no task yet."""

    at: Instant
    entry: CallStartEntry | CallEndEntry


def needs_task(seen: Sequence[UncoveredCallEntry]) -> bool:
    """True if a turn has made enough calls to be covered by a task."""
    return sum(isinstance(each.entry, CallStartEntry) for each in seen) >= _COVERED_CALLS


def has_seen_start(seen: Sequence[UncoveredCallEntry], entry: CallEndEntry) -> bool:
    """True if the start of a call that ends was seen."""
    ids = [each.entry.call_id for each in seen if isinstance(each.entry, CallStartEntry)]
    ends = [each.entry.call_id for each in seen if isinstance(each.entry, CallEndEntry)]
    return ids.count(entry.call_id) > ends.count(entry.call_id)


def is_task_of_turn(task: Task, run: Run) -> bool:
    """True if a run's current turn is the one for which its implicit task was opened."""
    began = run.limits.turn_began_at
    return task.implicit and began is not None and began <= task.created_at


def open_task(
    seen: Sequence[UncoveredCallEntry],
    request: str,
    owner: Owner,
    *,
    task_id: str,
    run_id: str,
    folder: str | None,
    fingerprint: str | None,
    now: datetime,
    policy: RunPolicy,
) -> Change:
    """Build the change that opens an implicit task for a user's turn, with its calls so far.

    `request` is the message with which the user began the turn.
    """
    words = to_plain_line(lifecycle.clean_request(request)) or _WORDLESS_NAME
    change = lifecycle.build_task(
        task_id=task_id,
        name=clip(words, NAME_BYTES),
        plan=(clip(words, STEP_BYTES),),
        metadata={},
        session_key=owner.session_key,
        host=owner.host,
        now=now,
        request=request,
        implicit=True,
    )
    begun = begin_run(
        change.tasks[0], run_id=run_id, now=now, role=owner.role, session_key=owner.session_key
    )
    covered = TurnCovered(
        step_calls=_COVERED_CALLS,
        checkpoints=len(seen),
        calls=sum(isinstance(each.entry, CallEndEntry) for each in seen),
    )
    moved = apply_events(
        begun,
        RunClaimed(owner=owner),
        AgentDescribed(folder=folder, fingerprint=fingerprint),
        covered,
        TurnBegan(turn_began_at=seen[0].at),
        now=now,
        policy=policy,
    )
    written = (
        checkpoints.build_checkpoint(
            run_id, number, each.entry.model_copy(update={"step": 0}), each.at
        )
        for number, each in enumerate(seen, start=1)
    )
    return change.model_copy(
        update={
            "runs": (moved.run,),
            "checkpoints": tuple(written),
            "events": (*change.events, *moved.events),
        }
    )


def end_turn(facts: TaskFacts, run: Run, turn: Turn, now: datetime) -> Change:
    """Build the change at the end of a turn that an implicit task covers.

    The task is completed even if the turn failed or was stopped: the user sees that. If the turn is
    empty, or the task waits for something and the turn was not aborted, only the run's turn ends; a
    later turn ends the task.
    """
    waits = bool(facts.task.linkage.active_wait_ids or turn.children)
    if turn.is_empty or (waits and not turn.aborted):
        return Change(runs=(apply_events(run, RunTurnEnded(), LeaseReleased(), now=now).run,))
    return end_task(facts, run, now)


def end_task(facts: TaskFacts, run: Run, now: datetime) -> Change:
    """Build the change that completes an implicit task and its run without a notice."""
    task, _ = lifecycle.change_status(facts.task, TaskStatus.COMPLETED, now)
    done = frozenset(range(len(task.plan)))
    task = lifecycle.touch_task(task, now).model_copy(update={"done": done})
    moved = apply_events(run, RunCompleted(), now=now)
    log = lifecycle.build_status_events(facts.task.status, task, now, run_id=moved.run.run_id)
    gone = continuation.supersede_open_wakes(facts)
    return Change(
        tasks=(task,),
        runs=(moved.run,),
        wakes=gone,
        events=(*moved.events, *log, *outbox.build_settled_events(gone, now)),
    )


def register_task(
    facts: TaskFacts,
    run: Run,
    *,
    name: str,
    plan: tuple[str, ...],
    metadata: Mapping[str, JsonValue],
    caller: Caller,
    segmented: bool,
    done: frozenset[int] = frozenset(),
    now: datetime,
) -> Change:
    """Build the change that turns an implicit task into the one that its agent registers.

    The calls made before belong to it.
    """
    known = facts.task
    task = lifecycle.touch_task(known, now).model_copy(
        update={
            "name": name,
            "plan": plan,
            "done": done,
            "metadata": metadata,
            "session_key": caller.session_key,
            "host": caller.host,
            "registrar_session": caller.session_key,
            "registrar_host": caller.host,
            "implicit": False,
        }
    )
    own = apply_events(
        run,
        TaskRegistered(segmented=segmented, attached=task_runs.list_attached(metadata)),
        PlanReplaced(step=None, same=False),
        AgentDescribed(folder=caller.folder),
        now=now,
    ).run
    milestones = (
        notices.build_milestone(which, task, own, now)
        for which in (Milestone.ACCEPTED, Milestone.STARTED)
    )
    log = (lifecycle.build_registration_event(task, now), *milestones)
    return Change(tasks=(task,), runs=(own,), events=log)
