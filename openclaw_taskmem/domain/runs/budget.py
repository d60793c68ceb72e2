"""Limit the tool calls of each step of a segmented task.

Only tasks that ask for it are segmented. Source: docs/origins.md, "Steps with budgets".
"""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.text.texts import format_count, quote_step
from taskmem_hookspecs import Run, RunState, Task, TaskFacts, TaskStatus, Value

MOST_STEPS: Final = 10
"""Most steps of a segmented plan."""


class Budget(Value):
    """Tool calls that the current step may still make."""

    left: int
    """Calls left; 0: none."""
    reason: str
    """The sentence that the agent reads when none are left."""


def compute_budget(facts: TaskFacts, policy: RunPolicy) -> Budget | None:
    """Compute the current step's budget; None: it has none."""
    run, task = facts.run, facts.task
    if run is None or not run.budget.segmented or run.state is not RunState.RUNNING:
        return None
    place = compute_progress(task)
    if task.status is not TaskStatus.ACTIVE or place.current is None:
        return None
    used = run.budget.step_calls if run.budget.step == place.current else 0
    bonus = run.budget.step_bonus and run.budget.step == place.current
    allowed = policy.step_tools + (policy.step_bonus if bonus else 0)
    return Budget(left=max(0, allowed - used), reason=_explain_used_up(task, run, allowed))


def cap_plan(plan: tuple[str, ...], done: int = 0) -> tuple[tuple[str, ...], int]:
    """Cut a plan to the steps that are worked on at once; return it and how many were cut.

    The first `done` steps are done and do not count.
    """
    kept = plan[: done + MOST_STEPS]
    return kept, len(plan) - len(kept)


def _explain_used_up(task: Task, run: Run, allowed: int) -> str:
    current = compute_progress(task).current or 0
    step = quote_step(task.plan[current], 120)
    given = run.budget.step_bonus and run.budget.step == current
    more = "" if given else 'outcome "more_tools" for a few more calls, once; with '
    return (
        f"Step {current + 1} of {len(task.plan)}, {step}, has used its "
        f"{format_count(allowed, 'tool call')}. Call task_step_done for {task.task_id} now: "
        f'with outcome "done" if it is done; with {more}outcome "failed" and the '
        "remaining steps if it cannot be done so; or task_abort to give the task up."
    )
