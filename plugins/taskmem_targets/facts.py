"""Judge targets by what was found: whether they are there, have changed, and their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskmem_hookspecs import Condition, ConditionUnclear, Frame, Met, Ruling
from taskmem_hookspecs.conditions import (
    ExitForm,
    ExitKind,
    Form,
    NumberForm,
    QuietForm,
    StateForm,
)

SIZE: Final = "size"
"""The number of bytes of a file, or of what a folder lists."""
SECONDS_LEFT: Final = "seconds left"
"""The number of seconds until an instant."""


class FactJudge:
    """Plays Judge for one wait on a target of this plug-in."""

    name = "rules"

    def __init__(self, condition: Condition) -> None:
        """Take a condition of which all sides have forms."""
        self._sides = [side.forms for side in condition.sides]

    async def rule(self, frame: Frame) -> Ruling:
        """Decide whether all forms of a side hold."""
        holds = any(all(_holds(form, frame) for form in forms) for forms in self._sides)
        return Ruling(
            met=Met.YES if holds else Met.NO,
            observation=frame.note or frame.gone or "Nothing was found yet.",
            look_again_seconds=min(self._list_rests(frame), default=None),
        )

    def _list_rests(self, frame: Frame) -> Iterator[float]:
        """Yield the seconds until an instant comes, or silence may hold."""
        if left := frame.numbers.get(SECONDS_LEFT):
            yield left
        if frame.changed_at is not None:
            since = (frame.seen_at - frame.changed_at).total_seconds()
            for form in (each for forms in self._sides for each in forms):
                if isinstance(form, QuietForm) and since < form.quiet:
                    yield form.quiet - since


def check_condition(condition: Condition, forms: Mapping[Any, str], what: str) -> FactJudge:
    """Return the judge of a condition that has only forms of these types.

    `forms`: by their types, how each is written; `what`: the target, as the refusal names it.

    Raises:
        ConditionUnclear: A side has another form, or none.
    """
    unclear = tuple(
        index
        for index, side in enumerate(condition.sides)
        if not side.forms
        or not all(isinstance(form, tuple(forms)) and _is_known(form) for form in side.forms)
    )
    if unclear:
        *first, last = forms.values()
        listed = f"{', '.join(first)} or {last}" if first else last
        raise ConditionUnclear(f"Of {what} it is told when it {listed}.", unclear)
    return FactJudge(condition)


def _is_known(form: Form) -> bool:
    """Return whether it can be told if a form holds: nobody tells how a process ended."""
    if isinstance(form, NumberForm):
        return form.number.lower() == SIZE
    return not isinstance(form, ExitForm) or form.exit == ExitKind.ANY


def _holds(form: Form, frame: Frame) -> bool:
    """Return whether a form holds at a look."""
    match form:
        case StateForm():
            return form.state in frame.states
        case NumberForm():
            found = frame.numbers.get(form.number.lower())
            return found is not None and form.op.holds(found, form.value)
        case QuietForm():
            if frame.changed_at is None:
                return False
            return (frame.seen_at - frame.changed_at).total_seconds() >= form.quiet
        case ExitForm():
            return frame.gone is not None
        case _:
            return False
