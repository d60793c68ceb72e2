"""Implicit tasks: a user's turn of several calls whose agent registers no task.

Such a turn is covered by a task of its own, so that its calls are written down and it
survives a crash. Its user and its agent hear nothing of it: it ends with its turn, and
a task that is registered in that turn takes its place.
Source: seed 003 §P2.4, rulings "implicit tasks".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain import (
    notices,
    outbox,
    run_checkpoints,
    run_wakes,
    task_lifecycle,
    task_runs,
)
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.notices import Milestone
from openclaw_taskmem.domain.run_checkpoints import CallEndEntry, CallStartEntry
from openclaw_taskmem.domain.run_events import (
    AgentDescribed,
    LeaseReleased,
    PlanReplaced,
    RunClaimed,
    RunCompleted,
    RunTurnEnded,
    TaskRegistered,
    TurnBegan,
    TurnCovered,
)
from openclaw_taskmem.domain.run_machine import apply_events, begin_run
from openclaw_taskmem.domain.run_policy import RunPolicy
from openclaw_taskmem.domain.texts import clip, to_plain_line
from openclaw_taskmem.domain.turns import Turn
from taskmem_hookspecs import Change, Owner, Run, Task, TaskFacts, TaskStatus, Value
from taskmem_hookspecs.value import Instant

CALLS: Final = 3
"""Calls of a turn from which on it is covered."""
NAME_BYTES: Final = 120
"""Kept of the user's words as the name of the task."""
STEP_BYTES: Final = 400
"""Kept of them as its one step."""
_WORDLESS: Final = "A message without words"


class UncoveredCallEntry(Value):
    """The beginning or end of a call that belongs to no task so far."""

    at: Instant
    entry: CallStartEntry | CallEndEntry


def needs_task(seen: Sequence[UncoveredCallEntry]) -> bool:
    """Whether a turn that has called so much is to be covered by a task."""
    return sum(isinstance(each.entry, CallStartEntry) for each in seen) >= CALLS


def has_seen_start(seen: Sequence[UncoveredCallEntry], entry: CallEndEntry) -> bool:
    """Whether the end of a call belongs to one of those whose beginning was seen."""
    ids = [each.entry.call_id for each in seen if isinstance(each.entry, CallStartEntry)]
    ends = [each.entry.call_id for each in seen if isinstance(each.entry, CallEndEntry)]
    return ids.count(entry.call_id) > ends.count(entry.call_id)


def is_task_of_turn(task: Task, run: Run) -> bool:
    """Whether the turn that works on a run is the one that its task was opened for."""
    began = run.turn_began_at
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
    """Return the change that opens a task for a user's turn, with its calls so far.

    `request` is what the user said to begin it.
    """
    words = to_plain_line(task_lifecycle.clean_request(request)) or _WORDLESS
    change = task_lifecycle.build_task(
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
        step_calls=CALLS,
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
        run_checkpoints.build_checkpoint(run_id, number, _assign_first_step(each.entry), each.at)
        for number, each in enumerate(seen, start=1)
    )
    return change.model_copy(
        update={
            "runs": (moved.run,),
            "checkpoints": tuple(written),
            "events": (*change.events, *moved.events),
        }
    )


def _assign_first_step(entry: CallStartEntry | CallEndEntry) -> CallStartEntry | CallEndEntry:
    return entry.model_copy(update={"step": 0})


def end_turn(facts: TaskFacts, run: Run, turn: Turn, now: datetime) -> Change:
    """Return the change that a turn's end makes to the implicit task that covered it.

    It ends, however the turn did: whoever stopped it has the next word, and of a
    provider's failure the user reads. While something that it has begun is at work,
    the turn that hears of that is its last.
    """
    waits = bool(facts.task.linkage.active_wait_ids or turn.children)
    if turn.is_empty or (waits and not turn.aborted):
        return Change(runs=(apply_events(run, RunTurnEnded(), LeaseReleased(), now=now).run,))
    return end_task(facts, run, now)


def end_task(facts: TaskFacts, run: Run, now: datetime) -> Change:
    """Return the change that completes an implicit task and its run in silence."""
    task, _ = task_lifecycle.change_status(facts.task, TaskStatus.COMPLETED, now)
    done = frozenset(range(len(task.plan)))
    task = task_lifecycle.touch_task(task, now).model_copy(update={"done": done})
    moved = apply_events(run, RunCompleted(), now=now)
    log = task_lifecycle.build_status_events(facts.task.status, task, now, run_id=moved.run.run_id)
    gone = run_wakes.drop_open_run_wakes(facts)
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
    now: datetime,
) -> Change:
    """Return the change that makes an implicit task the one that its agent registers.

    The calls that were made before belong to it.
    """
    known = facts.task
    task = task_lifecycle.touch_task(known, now).model_copy(
        update={
            "name": name,
            "plan": plan,
            "done": frozenset(),
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
    told = (
        notices.build_milestone(which, task, own, now)
        for which in (Milestone.ACCEPTED, Milestone.STARTED)
    )
    log = (task_lifecycle.build_registration_event(task, now), *told)
    return Change(tasks=(task,), runs=(own,), events=log)
