"""Judge targets by what was found: states, numbers, how a command ended, and what is said."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from taskmem_hookspecs import Condition, ConditionUnclear, Frame, Met, Ruling
from taskmem_hookspecs.conditions import (
    FIELD_PREFIX,
    ExitForm,
    ExitKind,
    FieldForm,
    Form,
    NumberForm,
    QuietForm,
    RegexForm,
    State,
    StateForm,
    TextForm,
    write_number,
)
from taskmem_hookspecs.matching import compile_regex, find_number, find_text

SIZE: Final = "size"
"""The number of bytes of a file or page, or of the names in a folder."""
SECONDS_LEFT: Final = "seconds left"
"""The number of seconds until an instant."""
STATUS: Final = "status"
"""The status with which a page answers."""
CERTIFICATE_DAYS: Final = "certificate days"
PRICE: Final = "price"
"""For how many days a page's certificate is still good."""


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


def check_condition(
    condition: Condition, forms: Mapping[Any, str], what: str, numbers: Collection[str] = ()
) -> FactJudge:
    """Return the judge of a condition that has only forms of these types.

    `forms`: by their types, how each is written; `what`: the target, as the refusal names it;
    `numbers`: the names of its numbers; empty: those of what it says, or it has none.

    Raises:
        ConditionUnclear: A side has another form, or none.
    """
    known = tuple(forms)
    unclear = tuple(
        index
        for index, side in enumerate(condition.sides)
        if not side.forms
        or not all(
            isinstance(form, known) and _is_known(form, known, numbers) for form in side.forms
        )
    )
    if unclear:
        *first, last = forms.values()
        listed = f"{', '.join(first)} or {last}" if first else last
        raise ConditionUnclear(f"Of {what} it is told when it {listed}.", unclear)
    return FactJudge(condition)


def _is_known(form: Form, known: Collection[Any], numbers: Collection[str]) -> bool:
    """Return whether it can be told if a form holds.

    Of what says nothing only its own numbers are known, and not how it ended.
    """
    if TextForm in known:
        return True
    if isinstance(form, NumberForm):
        return form.number.lower() in numbers
    return not isinstance(form, ExitForm) or form.exit == ExitKind.ANY


def _holds(form: Form, frame: Frame) -> bool:
    """Return whether a form holds at a look."""
    match form:
        case StateForm():
            holds = form.state in frame.states
        case NumberForm():
            holds = _holds_number(form, frame)
        case QuietForm():
            holds = frame.changed_at is not None and (
                (frame.seen_at - frame.changed_at).total_seconds() >= form.quiet
            )
        case ExitForm():
            holds = _holds_exit(form, frame)
        case TextForm() if frame.text is not None:
            is_shown = find_text(frame.text, form.text) is not None
            # An error page, or a command that printed nothing, says of no text that it is gone.
            is_sure = bool(frame.text.strip()) and State.GONE not in frame.states
            holds = not is_shown and is_sure if form.gone else is_shown
        case RegexForm() if frame.text is not None:
            holds = compile_regex(form.regex).find(frame.text) is not None
        case FieldForm() if frame.text is not None:
            holds = form.value in map(_write_value, _find_fields(frame.text, form.field))
        case _:
            holds = False
    return holds


def _holds_exit(form: ExitForm, frame: Frame) -> bool:
    status = frame.exit_status
    if status is None or form.exit == ExitKind.ANY:
        return form.exit == ExitKind.ANY and (status is not None or frame.gone is not None)
    if isinstance(form.exit, ExitKind):
        return (status == 0) is (form.exit == ExitKind.SUCCESS)
    return status == form.exit


def _holds_number(form: NumberForm, frame: Frame) -> bool:
    """Return whether a number of the target, of a field of JSON or of a text meets its bound."""
    if (found := frame.numbers.get(form.number.lower())) is not None:
        return form.op.holds(found, form.value)
    if frame.text is None:
        return False
    if form.number.startswith(FIELD_PREFIX):
        values = _find_fields(frame.text, form.number)
        numbers = [each for each in values if isinstance(each, int | float)]
        return any(form.op.holds(each, form.value) for each in numbers)
    return find_number(frame.text, form.number, form.op, form.value) is not None


def _find_fields(text: str, path: str) -> Iterator[Any]:
    """Yield the value of JSON at a path such as `$.jobs[0].state`, or at `$.jobs[].state` each."""
    try:
        found = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    for name in path.removeprefix("$").replace("[", ".[").split(".")[1:]:
        found = [value for each in found for value in _get_values(each, name)]
    yield from found


def _get_values(value: Any, name: str) -> Iterator[Any]:  # noqa: ANN401 - JSON
    """Yield the value of a field; of a list that of an item `[N]`, or of all, `[]`."""
    if isinstance(value, dict):
        if name in value:
            yield value[name]
    elif isinstance(value, list):
        if name in ("[]", "[*]"):
            yield from value
        elif name[1:-1].isdecimal():
            place = int(name[1:-1])
            yield from value[place : place + 1]


def _write_value(value: Any) -> str:  # noqa: ANN401 - JSON
    """Write a value of JSON as a condition names it."""
    if isinstance(value, str):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return write_number(value) if is_number else json.dumps(value)
