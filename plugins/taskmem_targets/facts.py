"""Judge targets by what was found: states, numbers, how a command ended, and what is said."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final, cast

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
from taskmem_targets.beginnings import find_new_lines, find_new_value

SIZE: Final = "size"
"""The number of bytes of a file or page, or of the names in a folder."""
SECONDS_LEFT: Final = "seconds left"
"""The number of seconds until an instant."""
STATUS: Final = "status"
"""The status with which a page answers."""
CERTIFICATE_DAYS: Final = "certificate days"
"""For how many days a page's certificate is still good."""
PRICE: Final = "price"
"""The least price that a page names for programs."""
LARGEST_BODY: Final = 256 * 1024
"""Bytes that are read of a page."""
_MOST_NAMES: Final = 12
"""How many fields of JSON are named to whoever waits for another."""
_NAME: Final = re.compile(r"[\w-]{1,40}")
"""The names of fields that are told."""


class FactJudge:
    """Plays Judge for one wait on a target of this plug-in."""

    name = "rules"

    def __init__(self, condition: Condition, *, is_cased: bool = True) -> None:
        """Take a condition of which all sides have forms; is_cased: a capital letter counts."""
        self._sides = [side.forms for side in condition.sides]
        self._is_cased = is_cased

    async def rule(self, frame: Frame) -> Ruling:
        """Decide whether all forms of a side hold."""
        note = frame.note or frame.gone or "Nothing was found yet."
        reasons: list[str] = []
        for forms in self._sides:
            found = [_explain_form(form, frame, is_cased=self._is_cased) for form in forms]
            if None not in found:
                reasons = [*filter(None, found), note]
                break
        return Ruling(
            met=Met.YES if reasons else Met.NO,
            observation=" ".join(f"{each.rstrip('.')}." for each in reasons or (note,)),
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
    condition: Condition,
    forms: Mapping[Any, str],
    what: str,
    numbers: Collection[str] = (),
    *,
    is_cased: bool = True,
) -> FactJudge:
    """Return the judge of a condition that has only forms of these types.

    `forms`: by their types, how each is written; `what`: the target, as the refusal names it;
    `numbers`: the names of its numbers; empty: those of what it says, or it has none; `is_cased`:
    a capital letter in a quoted text counts.

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
    return FactJudge(condition, is_cased=is_cased)


def refuse_impossible_numbers(condition: Condition, url: str) -> None:
    """Refuse to wait for numbers that a page can never have.

    Raises:
        ConditionUnclear: As it says.
    """
    for index, side in enumerate(condition.sides):
        for form in side.forms:
            if not isinstance(form, NumberForm):
                continue
            name = form.number.lower()
            sizes = (0, LARGEST_BODY, min(form.value, LARGEST_BODY))
            if name == CERTIFICATE_DAYS and url.lower().startswith("http:"):
                why = (
                    f"Only pages of https:// have a certificate: wait for url:https:{url[5:]}, "
                    "until certificate days < 14."
                )
            elif name == SIZE and not any(form.op.holds(each, form.value) for each in sizes):
                why = (
                    f"Of a page {LARGEST_BODY:,} bytes are read at most, so {form} never holds; "
                    "wait until it changes."
                )
            else:
                continue
            raise ConditionUnclear(why, (index,))


def _is_known(form: Form, known: Collection[Any], numbers: Collection[str]) -> bool:
    """Return whether it can be told if a form holds.

    Of what says nothing only its own numbers are known, and not how it ended.
    """
    if TextForm in known:
        return True
    if isinstance(form, NumberForm):
        return form.number.lower() in numbers
    return not isinstance(form, ExitForm) or form.exit == ExitKind.ANY


def _explain_form(form: Form, frame: Frame, *, is_cased: bool) -> str | None:
    """Return what makes a form hold at a look; empty: the frame's note says it; None: nothing."""
    match form:
        case StateForm():
            holds = form.state in frame.states
        case NumberForm():
            return _explain_number(form, frame)
        case QuietForm():
            holds = frame.changed_at is not None and (
                (frame.seen_at - frame.changed_at).total_seconds() >= form.quiet
            )
        case ExitForm():
            holds = _holds_exit(form, frame)
        case FieldForm(value=None):
            return find_new_value(frame, form.field)
        case TextForm() | RegexForm() if frame.text is not None:
            return _explain_text(form, frame, is_cased=is_cased)
        case FieldForm() if frame.text is not None:
            values = map(_write_value, _find_fields(frame.text, form.field))
            return str(form) if any(value == form.value for value in values) else None
        case _:
            holds = False
    return "" if holds else None


def _explain_text(form: TextForm | RegexForm, frame: Frame, *, is_cased: bool) -> str | None:
    """Quote the line that has a text or matches; of one that is gone, say so; None: neither."""
    text = (find_new_lines(frame) if form.new else frame.text) or ""
    if isinstance(form, RegexForm):
        line = compile_regex(form.regex).find(text)
    else:
        # A text without capitals is found in any case.
        line = find_text(text, form.text if is_cased else form.text.lower())
        if form.gone:
            # An error page, or a command that printed nothing, says of no text that it is gone.
            is_sure = bool(text.strip()) and State.GONE not in frame.states
            return str(form) if line is None and is_sure else None
    return None if line is None else _quote_line(form, line)


def _quote_line(form: TextForm | RegexForm, line: str) -> str:
    return f'{form}: "{line.strip()[:200]}"'


def _holds_exit(form: ExitForm, frame: Frame) -> bool:
    status = frame.exit_status
    if status is None or form.exit == ExitKind.ANY:
        return form.exit == ExitKind.ANY and (status is not None or frame.gone is not None)
    if isinstance(form.exit, ExitKind):
        return (status == 0) is (form.exit == ExitKind.SUCCESS)
    return status == form.exit


def _explain_number(form: NumberForm, frame: Frame) -> str | None:
    """Say which number of the target, of a field of JSON or of a text meets its bound."""
    if (found := frame.numbers.get(form.number.lower())) is not None:
        numbers = [found]
    elif frame.text is None:
        return None
    elif form.number.startswith(FIELD_PREFIX):
        values = _find_fields(frame.text, form.number)
        numbers = [each for each in values if isinstance(each, int | float)]
    else:
        line = find_number(frame.text, form.number, form.op, form.value)
        return None if line is None else f'{form}: "{line.strip()[:200]}"'
    met = next((each for each in numbers if form.op.holds(each, form.value)), None)
    return None if met is None else f"{form.number} is {write_number(met)}"


def describe_content(text: str) -> str:
    """Say what a target answers, for whoever waits for something that is not there.

    Of JSON: its fields, the upper ones; of another text: its last line; empty: there is none.
    """
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if names := [*islice(_list_fields(whole, "$", 2), _MOST_NAMES + 1)]:
        more = ", …" if len(names) > _MOST_NAMES else ""
        return f"JSON with {', '.join(names[:_MOST_NAMES])}{more}"
    lines = text.split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f'"{last[:200]}"' if last else ""


def _list_fields(value: Any, path: str, depth: int) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield the paths of fields with their values.

    What lies deeper is left out, and so is what has no word for a name: it may be a sentence that
    talks to the model.
    """
    if isinstance(value, dict) and value:
        fields = cast("dict[str, Any]", value) if depth else {}
        for name in filter(_NAME.fullmatch, fields):
            yield from _list_fields(fields[name], f"{path}.{name}", depth - 1)
        if not depth:
            yield path
    elif isinstance(value, list) and value:
        yield from _list_fields(value[0], f"{path}[0]", depth)
    elif path != "$":
        yield f"{path} {json.dumps(value, ensure_ascii=False)[:40]}"


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
