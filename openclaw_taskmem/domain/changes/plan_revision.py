"""Replace a task's plan, with a reason, keeping the marks of steps that stay.

Source: docs/origins.md, "The plan".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from pydantic import JsonValue

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.dependencies import Blockers, add_blockers
from openclaw_taskmem.domain.changes.task_runs import note_call
from openclaw_taskmem.domain.policies import RUN_POLICY, RunPolicy
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.machine import PlanReplaced, apply_events
from openclaw_taskmem.domain.tasks import lifecycle, plan
from openclaw_taskmem.domain.tasks.required_artifacts import (
    find_artifact_fault,
    list_required_artifacts,
)
from openclaw_taskmem.domain.text.texts import quote_step, to_plain_line
from openclaw_taskmem.domain.wakes import outbox
from taskmem_hookspecs import Author, Change, MessageType, PlanRevision, Run, Task, TaskFacts, Value
from taskmem_hookspecs.errors import InvalidArguments


class RevisionResult(Value):
    """The result of a revision."""

    task: Task
    remap: plan.Remap
    blockers: Blockers | None = None
    """The tasks that must end before it goes on; None: those were left as they are."""
    left_out: tuple[str, ...] = ()
    """Steps that were cut from the end of a segmented task's plan, which had too many."""


def revise_plan(
    facts: TaskFacts,
    new_plan: tuple[str, ...],
    reason: str,
    now: datetime,
    *,
    caller: Caller,
    artifacts: Sequence[JsonValue] | None = None,
    token: int | None = None,
    policy: RunPolicy = RUN_POLICY,
    done: frozenset[int] = frozenset(),
    reopened: frozenset[int] = frozenset(),
    blockers: Blockers | None = None,
) -> tuple[Change, RevisionResult]:
    """Build the change that revises a plan: the task, the revision, a message, the marks.

    `artifacts` replaces the metadata's artifacts; None: they stay. `done` and `reopened` are steps
    of the new plan, from 0, whose marks the caller says; the others keep theirs. `blockers`: what
    must end before the task goes on; None: that stays.

    Raises:
        InvalidArguments: The artifacts are too many or too long, or cannot be verified.
        TaskEnded: The task has ended.
        Fenced: The token is not that of the last claim, or the task has no open run.
        RunHeld: The caller may not write for the task's run.
    """
    before, run = facts.task, facts.run
    lifecycle.require_open(before, "its plan stays as it is")
    current_run.guard_token(before.task_id, run, token, "its plan stays as it is")
    current_run.guard_write(run, caller, token, "its plan stays as it is")
    left_out: tuple[str, ...] = ()
    if run is not None and run.budget.segmented:
        over = plan.count_leading_done(plan.remap_marks(before.plan, before.done, new_plan).done)
        whole = new_plan
        new_plan, _ = current_run.cap_plan(whole, over)
        left_out = whole[len(new_plan) :]
    remap = plan.remap_marks(before.plan, before.done, new_plan)
    marks = (remap.done | {step for step in done if step < len(new_plan)}) - reopened
    remap = remap.model_copy(update={"done": marks})
    keys, renamed = before.metadata, ""
    if artifacts is not None:
        keys, renamed = lifecycle.replace_artifacts(keys, artifacts)
    task = lifecycle.touch_task(before, now).model_copy(
        update={
            "plan": new_plan,
            "metadata": keys,
            "done": remap.done,
            "message_count": before.message_count + 1,
        }
    )
    if artifacts is not None:
        fault = lifecycle.find_metadata_fault(task.metadata)
        first_fault = (
            find_artifact_fault(list_required_artifacts(task))
            if fault is None
            else f"metadata {fault}."
        )
        if first_fault is not None:
            raise InvalidArguments(f"{first_fault} Nothing was written.")
    wakes = outbox.settle_answered(
        facts.wakes, acts=caller.acts_as(before.session_key, before.home), moved=True, now=now
    )
    worked: tuple[Run, ...] = ()
    if run is not None:
        worked = (note_call(_replan_run(run, before, task, now), caller, token, now, policy),)
    lost = f"Marks lost: {_list_steps(step.text for step in remap.dropped)}."
    cut = f"Left out, as the plan is too long: {_list_steps(left_out)}."
    lines = [renamed, lost if remap.dropped else "", cut if left_out else ""]
    if blockers is not None:
        lines.append(f"Blocked by: {', '.join(blockers.open) or 'nothing'}.")
    entry = "\n".join((f"Plan revised: {reason}", *filter(None, lines)))
    change = Change(
        tasks=(task,),
        runs=worked,
        revisions=(
            PlanRevision(
                task_id=task.task_id,
                old_plan=before.plan,
                new_plan=new_plan,
                reason=reason,
                author=Author.AGENT,
                created_at=now,
            ),
        ),
        messages=(lifecycle.build_system_message(task, entry, now, MessageType.PLAN),),
        wakes=wakes,
        events=(
            events.build_event(
                events.PLAN_REVISED,
                task,
                now,
                reason=reason,
                author=Author.AGENT,
                steps=len(new_plan),
                kept=len(remap.done),
                dropped=len(remap.dropped),
            ),
            *outbox.build_settled_events(wakes, now),
        ),
    )
    if blockers is not None:
        change = add_blockers(change, task.task_id, blockers)
    return change, RevisionResult(
        task=change.tasks[0], remap=remap, left_out=left_out, blockers=blockers
    )


def _list_steps(steps: Iterable[str]) -> str:
    return ", ".join(quote_step(to_plain_line(step)) for step in steps)


def _replan_run(run: Run, before: Task, task: Task, now: datetime) -> Run:
    """Tell a run that its plan was replaced. The budget goes on only if the current step stays."""
    was, step = (plan.compute_progress(before).current, plan.compute_progress(task).current)
    same = run.budget.step == was and _identify_current_step(before, was) == _identify_current_step(
        task, step
    )
    return apply_events(run, PlanReplaced(step=step, same=same), now=now).run


def _identify_current_step(task: Task, index: int | None) -> tuple[str, ...] | None:
    return None if index is None else plan.identify_step(task.plan[index])
