"""Decide how a task stands for those who wait for it, and refuse what nobody can tell of a task.

A task is waited for by who may read it. It ends a wait with its own end, whatever was waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from openclaw_taskmem.domain.conditions.verdicts import TASK_FORMS, refuse_unread
from openclaw_taskmem.domain.text.texts import clip, format_count, quote_line, to_plain_line
from taskmem_hookspecs import (
    Condition,
    ConditionUnclear,
    Frame,
    InvalidArguments,
    Run,
    RunState,
    Task,
    TaskStatus,
)
from taskmem_hookspecs.conditions import Form, State, StateForm, StepForm

_NAME_BYTES: Final = 200
"""Longest excerpt of a task's name in an observation."""
_WHY_BYTES: Final = 500
"""Longest excerpt of the reason for which it failed."""
_SHOWN_STEPS: Final = 5
"""Steps that a refusal names at most."""
_ENDS: Final = {
    TaskStatus.COMPLETED: State.COMPLETED,
    TaskStatus.FAILED: State.FAILED,
    TaskStatus.CANCELLED: State.CANCELLED,
}


def list_states(task: Task, run: Run | None) -> frozenset[State]:
    """Return the states that a task is in; `run` is its open run."""
    if task.status.terminal:
        return frozenset((State.ENDED, _ENDS[task.status]))
    is_blocked = bool(task.blocked_by) or (run is not None and run.state is RunState.BLOCKED)
    return frozenset((State.BLOCKED,)) if is_blocked else frozenset()


def list_steps(task: Task) -> Mapping[str, float]:
    """Return 1 for each step of a task that is done, else 0, by its number and by its text.

    Steps with the same text are only named by their numbers.
    """
    texts = Counter(map(_fold, task.plan))
    numbers = {str(step.index + 1): float(step.done) for step in task.steps}
    by_text = {_name_text(s.text): float(s.done) for s in task.steps if texts[_fold(s.text)] == 1}
    return {**by_text, **numbers}


def is_met(form: Form, frame: Frame) -> bool:
    """Return whether a form holds at a look at a task."""
    match form:
        case StateForm():
            return form.state in frame.states
        case StepForm():
            return frame.numbers.get(_name_step(form.step)) == 1
        case _:
            return False


def describe_state(task: Task, run: Run | None, why: str = "") -> str:
    """Say how a task stands, in a sentence; `why`: for which reason it failed."""
    name = clip(to_plain_line(task.name), _NAME_BYTES)
    subject = f'{task.task_id} "{name}"'
    steps = f"{len(task.done)} of {format_count(len(task.plan), 'step')} done"
    if task.status.terminal:
        how = "was cancelled" if task.status is TaskStatus.CANCELLED else f"has {task.status}"
        reason = f" {clip(to_plain_line(why), _WHY_BYTES)}".rstrip() if why else ""
        ended = f"{subject} {how}, {steps}."
        return f"{ended}{reason}"
    standing = str(task.status)
    if State.BLOCKED in list_states(task, run):
        what = " and ".join(task.blocked_by[:_SHOWN_STEPS]) or "its user"
        standing = f"blocked: it waits for {what}"
    return f"{subject} is {standing}, {steps}."


def refuse_condition(condition: Condition) -> ConditionUnclear | None:
    """Return why nobody can tell a condition of a task; None: it can be told."""
    return refuse_unread(
        condition,
        (StateForm, StepForm),
        TASK_FORMS,
        "Of a task it is told how it stands and which steps are done, in the words of `forms`, "
        "joined by or / and.",
    )


def require_steps(task: Task, condition: Condition) -> None:
    """Refuse a wait for a step that a task's plan has not.

    Raises:
        InvalidArguments: It has no such step; the sentence names those that it has.
    """
    steps = list_steps(task)
    for form in (each for side in condition.sides for each in side.forms):
        if not isinstance(form, StepForm) or _name_step(form.step) in steps:
            continue
        shown = "; ".join(
            f"{step.index + 1} {quote_line(to_plain_line(step.text), 60)}"
            for step in task.steps[:_SHOWN_STEPS]
        )
        more = len(task.plan) - _SHOWN_STEPS
        added = f" and {more} more" if more > 0 else ""
        which = form.step if isinstance(form.step, int) else quote_line(form.step, 80)
        raise InvalidArguments(
            f"{task.task_id} has no step {which}; its steps are {shown}{added}. "
            "Nothing was written."
        )


def _name_step(step: int | str) -> str:
    return str(step) if isinstance(step, int) else _name_text(step)


def _name_text(text: str) -> str:
    return f"step {_fold(text)}"


def _fold(text: str) -> str:
    return " ".join(text.casefold().rstrip(".").split())
