"""Use cases on the steps of a task: report one as done or failed, or ask for more calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.changes import plan_revision, quotas, run_calls
from openclaw_taskmem.domain.changes.task_update import UpdateRequest
from openclaw_taskmem.domain.runs.machine import StepFailed, StepGivenMore, apply_events
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.engine import tasks
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.run_guards import require_own_run
from taskmem_hookspecs import Change, Message, Task, TaskFacts, Value
from taskmem_hookspecs.errors import InvalidArguments

NOTHING = "nothing was written"


class StepResult(Value):
    """The task after a step was reported."""

    task: Task
    left_out: tuple[str, ...] = ()
    """Steps beyond the limit of a segmented task, left out of the plan."""
    unheard: tuple[Message, ...] = ()
    """The user's messages that the agent has not heard, oldest first."""


class StepOutcome(Value):
    """An agent's report on the step that it works on."""

    step: int | None = None
    """Counted from 1; None: the current step."""
    outcome: str = "done"
    """`done`, `failed` or `more_tools`."""
    note: str | None = None
    remaining: tuple[str, ...] = ()
    """Steps to replace a failed step and those after it."""
    token: int | None = None


def record_step_outcome(
    context: Context, task_id: str, wish: StepOutcome, caller: Caller
) -> StepResult:
    """Record a step as done or failed, or grant it more calls.

    Raises:
        InvalidArguments: There is no such step, or it was granted more calls already.
        RunNotFound: The task has no run, so its steps have no budget.
        LimitReached: The thread is full.
    """
    facts = context.store.read_task(task_id)
    require_own_run(context, facts, caller, NOTHING, wish.token)
    current = compute_progress(facts.task).current if wish.step is None else wish.step - 1
    if current is None or not 0 <= current < len(facts.task.plan):
        raise InvalidArguments(
            f"The plan of {task_id} has no such step; it has steps 1 to "
            f"{len(facts.task.plan)}. Nothing was written."
        )
    if wish.outcome == "done":
        update = UpdateRequest(
            message=wish.note, completed_steps=(current + 1,), token=wish.token, caller=caller
        )
        updated = tasks.write_update(context, task_id, update)
        return StepResult(task=updated.task, unheard=updated.unheard)
    if wish.outcome == "failed":
        quotas.guard_words(facts.task, caller)
        task, left_out = _record_failed_step(context, facts, current, wish, caller)
        return StepResult(task=task, left_out=tuple(left_out))
    return StepResult(task=_grant_more_calls(context, task_id, wish, caller))


def _grant_more_calls(context: Context, task_id: str, wish: StepOutcome, caller: Caller) -> Task:
    """Grant the current step of a segmented task its further calls, once."""

    def grant(facts: TaskFacts, now: datetime) -> Decision[Task]:
        run = require_own_run(context, facts, caller, NOTHING, wish.token)
        if not run.budget.segmented or caller.gateway_owner is None:
            raise InvalidArguments(
                "This step may call as many tools as it takes: nobody counts them. "
                "Nothing was written."
            )
        current = compute_progress(facts.task).current
        if current is None or wish.step not in (None, current + 1):
            raise InvalidArguments(
                "Only the step that is worked on has more calls, and that is "
                f"{'none' if current is None else current + 1}. Nothing was written."
            )
        same = run.budget.step == current
        if run.budget.step_bonus and same:
            raise InvalidArguments(
                f"Step {current + 1} has had its {context.policies.runs.step_bonus} more calls; "
                "end it as done or failed. Nothing was written."
            )
        given = apply_events(run, StepGivenMore(step=current), now=now).run
        seen = run_calls.note_call(given, caller, wish.token, now, context.policies.runs)
        return Change(runs=(seen,)), facts.task

    return context.update_task(task_id, grant)


def _record_failed_step(
    context: Context, facts: TaskFacts, current: int, wish: StepOutcome, caller: Caller
) -> tuple[Task, Sequence[str]]:
    """Mark a step as failed, or replace it and those after it by the remaining steps if given."""
    task_id = facts.task.task_id
    note = wish.note or "No reason was given."
    said = f"Step {current + 1} could not be done. {note}"

    def mark(again: TaskFacts, now: datetime) -> Decision[tuple[Task, Sequence[str]]]:
        run = require_own_run(context, again, caller, NOTHING, wish.token)
        seen = run_calls.note_call(run, caller, wish.token, now, context.policies.runs)
        marked = apply_events(seen, StepFailed(index=current), now=now).run
        task = lifecycle.touch_task(again.task, now)
        note_ = lifecycle.build_lifecycle_message(task, said, now)
        counted = task.model_copy(update={"message_count": task.message_count + 1})
        return Change(tasks=(counted,), messages=(note_,), runs=(marked,)), (counted, ())

    def replan(again: TaskFacts, now: datetime) -> Decision[tuple[Task, Sequence[str]]]:
        require_own_run(context, again, caller, NOTHING, wish.token)
        change, revised = plan_revision.revise_plan(
            again,
            (*again.task.plan[:current], *wish.remaining),
            said,
            now,
            caller=caller,
            token=wish.token,
            policy=context.policies.runs,
        )
        return change, (revised.task, revised.left_out)

    return context.update_task(task_id, replan if wish.remaining else mark)
