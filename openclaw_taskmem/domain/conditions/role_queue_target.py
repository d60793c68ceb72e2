"""The queue of a role as a target: `queue:ROLE`.

The condition is that a run is queued for that role and can be claimed now. Source:
docs/decisions/0024-the-registrar-is-told.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.conditions.verdicts import UnderstoodSide
from openclaw_taskmem.domain.text.texts import clip, to_plain_line
from taskmem_hookspecs import Condition, ConditionUnclear, InvalidArguments, Target, Task

SCHEME: Final = "queue"
"""Scheme of queue targets."""
FORM: Final = "a task is queued"
"""The only condition of a queue; it may be left out."""
NAME_BYTES: Final = 200
"""Longest excerpt of a queued task's name."""


def is_queue(target: str) -> bool:
    """True if a target, as an agent writes it, is a queue."""
    return target.strip().lower().startswith(f"{SCHEME}:")


def refuse_condition(condition: Condition) -> ConditionUnclear | None:
    """Return why a queue cannot meet a condition; None: it can."""
    if condition.sentence.strip().rstrip(".").lower() == FORM:
        return None
    refusal = ConditionUnclear(
        f'Of a queue one thing can be waited for, "{FORM}": give that as wake_when, or '
        "leave wake_when out. Nothing was written.",
        tuple(range(len(condition.sides))),
    )
    refusal.details = {
        "sides": [side.words for side in condition.sides],
        "forms": [FORM],
        "suggestion": FORM,
    }
    return refusal


def name_form(understood: Sequence[UnderstoodSide]) -> tuple[UnderstoodSide, ...]:
    """Set the form of a queue's condition in how it was understood."""
    return tuple(each.model_copy(update={"form": FORM}) for each in understood)


def guard_wait(target: Target, caller: Caller) -> None:
    """Refuse a wait for a queue from which the caller cannot claim.

    Raises:
        InvalidArguments: The caller's gateway gives it another role.
    """
    owner = caller.gateway_owner
    if target.scheme == SCHEME and owner is not None and owner.role != target.name:
        raise InvalidArguments(
            f"Your gateway says that you are {owner.role}, so you cannot claim as "
            f"{target.name}; wait for {SCHEME}:{owner.role}, or let an agent of that "
            "role wait. Nothing was written."
        )


def describe_queued(task: Task, role: str) -> str:
    """Say that a role may claim a task, and how."""
    name = clip(to_plain_line(task.name), NAME_BYTES)
    return (
        f'{task.task_id} "{name}" is queued, and {role} may claim it: call task_claim '
        f'with role "{role}".'
    )


def describe_empty(role: str) -> str:
    """Say that nothing is queued for a role."""
    return f"Nothing is queued for {role}."
