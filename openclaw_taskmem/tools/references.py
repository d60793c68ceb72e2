"""Read numbers, ids and steps as models write them, and look up those that are named by words.

Source: docs/tools.md, "How arguments are read".
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol, cast

from pydantic import JsonValue

from openclaw_taskmem.domain.tasks.plan import identify_step
from openclaw_taskmem.domain.text.texts import clip, quote_line
from taskmem_hookspecs import InvalidArguments

ID_KINDS: Final = {"task_id": "task", "wait_id": "wait", "attach": "task", "blocked_by": "task"}
"""Kind of thing that each argument with an id names."""
STEP_ARGUMENTS: Final = frozenset(("completed_steps", "reopened_steps", "step"))
"""Arguments that name steps of a plan."""
QUOTES: Final = "\"'`“”‘’.,;"
"""Quotation marks and stops that may stand around an id or a word."""
MOST_VALUES: Final = 40_000
"""Values in one call, at most; metadata of the largest size has fewer."""
MOST_PLAN_STEPS: Final = 200
MOST_ATTACHED: Final = 50
"""Tasks that one review takes along, at most."""
NOTHING_WRITTEN: Final = "Nothing was written."


class Lookup(Protocol):
    """Finds the tasks, waits and steps of the home that a call names."""

    def find_id(self, kind: str, name: str) -> str:
        """Return the id of the one task or wait (`kind`) that a shortened id or a name means.

        A name that means none is returned as it is.

        Raises:
            TaskmemError: Several are meant; the text lists them.
        """
        ...

    def read_plan(self, task_id: str, session_key: str | None) -> Sequence[str]:
        """Return a task's steps, for a caller who may have named a session.

        Raises:
            TaskmemError: There is no such task, or the caller may not read it.
        """
        ...


# --- numbers -------------------------------------------------------------------------------


_MOST_WHOLE: Final = 10**15
_NUMBER: Final = re.compile(r"[-+]?[0-9]{1,15}(?:\.[0-9]{0,15})?")


def parse_number(value: JsonValue) -> float | None:
    """Return the number that a value is or writes; None: it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    text = value.strip() if isinstance(value, str) else ""
    return float(text) if _NUMBER.fullmatch(text) else None


def is_whole(number: float) -> bool:
    """Tell whether a number is whole, and exact if it is a float."""
    return isinstance(number, int) or (number.is_integer() and abs(number) < _MOST_WHOLE)


# --- steps and ids -------------------------------------------------------------------------


_STEP_NUMBER: Final = re.compile(
    r"(?:steps?\s*)?(?:(?:no\.?|number)\s*)?(?:#\s*)?([0-9]{1,6})(?:\.0*)?[.):]?"
)
_LEADING_NUMBER: Final = re.compile(r"\s*(?:step\s*)?#?([0-9]{1,3})(?:[.):]|\s*[-–—])\s")
"""The number of a step before its words: `3. Build`, `step 2 - Build`."""
_STEP_RANGE: Final = re.compile(
    r"(?:steps?\s*)?#?([0-9]{1,3})\s*(?:-|–|to|through)\s*#?([0-9]{1,3})"
)


def read_steps(value: JsonValue, *, many: bool) -> JsonValue:
    """Return the numbers of steps; words that name a step stay, for `resolve_names`."""
    if isinstance(value, str) and value.strip()[:1] == "[":
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    listed = value if isinstance(value, list) else [value]
    found = (step for each in listed if each is not None for step in _read_step(each))
    steps = [*islice(found, MOST_VALUES + 1)]  # with one more, the call is refused
    if many:
        return cast("JsonValue", steps)
    return steps[0] if len(steps) == 1 else value


def _read_step(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, dict):
        value = next(
            (value[key] for key in ("step", "number", "index", "id") if key in value), value
        )
    number = parse_number(value)
    if number is not None and is_whole(number):
        yield int(number)
        return
    if not isinstance(value, str):
        yield value
        return
    text = value.strip().strip("`*").strip()
    parts = map(str.strip, re.split(r"[,;&]|\band\b", text.lower()))
    numbers = [_parse_step_numbers(part) for part in parts if part]
    if numbers and all(numbers):
        yield from (number for listed in numbers for number in listed)
    else:
        yield text


def _parse_step_numbers(text: str) -> Sequence[int]:
    """Return the numbers that a text writes: `step 2`, `#2`, `2.`, `1-3`; none: it writes none."""
    if found := _STEP_NUMBER.fullmatch(text):
        return (int(found[1]),)
    found = _STEP_RANGE.fullmatch(text)
    if found and int(found[2]) <= MOST_PLAN_STEPS:
        return range(int(found[1]), int(found[2]) + 1)
    return ()


_ID: Final = re.compile(r"(task|wait)_[0-9a-z]{16}")
_BARE_ID: Final = re.compile(r"[0-9a-z]{16}")
_LABELLED_ID: Final = re.compile(
    r"(?:[a-z]{1,20}://|(?:task|wait)?[ _-]?(?:id)?[:=# ]{0,3})(task|wait)[_-]([0-9][0-9a-z]{15})"
)
"""An id after what it is called: `Task ID: task_…`, `task_id=task_…`, `taskmem://task_…`."""
_WRITTEN_ID: Final = re.compile(r"\b(?:task|wait)_[0-9][0-9a-z]{15}\b")
_CUT_BEGINNING: Final = re.compile(r"(?:task|wait)[_-]?(?:…|\.{2,})")
"""The sign for the beginning of a shortened id."""


def read_id(text: str, kind: str) -> str:
    """Return an id without what is written around it, in its own letters."""
    small = _cut_signs(text).lower()
    if _ID.fullmatch(small):
        return small
    if found := _LABELLED_ID.fullmatch(small):
        return f"{found[1]}_{found[2]}"
    return f"{kind}_{small}" if _BARE_ID.fullmatch(small) else text.strip()


def _cut_signs(text: str) -> str:
    """Return an id or a name without the quotes, brackets and stops around it."""
    return text.strip().strip(QUOTES + "…<>()[]#:").strip()


def resolve_names(
    arguments: dict[str, JsonValue],
    known: Mapping[str, object],
    lookup: Lookup,
    notes: list[str],
) -> None:
    """Put ids for names and shortened ids, and numbers for steps that are named by their words."""
    for name, kind in ID_KINDS.items():
        value = arguments.get(name)
        if name not in known or value is None:
            continue
        listed = value if isinstance(value, list) else [value]
        if len(listed) > MOST_ATTACHED:
            continue  # for the form to refuse
        read: list[JsonValue] = [_find_id(each, name, kind, lookup, notes) for each in listed]
        arguments[name] = read if isinstance(value, list) else read[0]
    task_id, session = arguments.get("task_id"), arguments.get("session_key")
    session_key = session if isinstance(session, str) else None
    for name in STEP_ARGUMENTS & known.keys() & arguments.keys():
        value = arguments[name]
        entries = value if isinstance(value, list) else [value]
        if not any(isinstance(each, str) for each in entries) or not isinstance(task_id, str):
            continue
        plan = lookup.read_plan(task_id, session_key)
        places = defaultdict[tuple[str, ...], list[int]](list)
        for number, step in enumerate(plan, 1):
            places[identify_step(step)].append(number)
        steps: list[JsonValue] = [_find_step(each, name, plan, places, notes) for each in entries]
        arguments[name] = steps if isinstance(value, list) else steps[0]


def _find_id(value: JsonValue, name: str, kind: str, lookup: Lookup, notes: list[str]) -> JsonValue:
    if not isinstance(value, str) or _ID.fullmatch(value) or not value:
        return value
    bare = _cut_signs(value)
    found = value
    for words in dict.fromkeys((value, bare, _CUT_BEGINNING.sub("", bare, count=1))):
        found = lookup.find_id(kind, words)
        if found != words:
            break
    else:
        # An id beside its name: `task_… (Deploy site)`, `Deploy site (task_…)`.
        small = bare.lower()
        beside = {*_WRITTEN_ID.findall(small)}
        whole = beside.pop() if len(beside) == 1 else ""
        is_beside = whole.startswith(kind) and whole in (small[:21], small[-21:])
        found = whole if is_beside else value
    if found != value:
        notes.append(f"{name} {quote_line(value, 80)} as {found}")
    return found


def _find_step(
    value: JsonValue,
    name: str,
    plan: Sequence[str],
    places: Mapping[tuple[str, ...], Sequence[int]],
    notes: list[str],
) -> JsonValue:
    """Return the number of the step that a text names by its words.

    `places`: the numbers of the plan's steps by what `identify_step` makes of them.

    Raises:
        InvalidArguments: It names none, or several.
    """
    if not isinstance(value, str):
        return value
    found = places.get(identify_step(value), ())
    number = _LEADING_NUMBER.match(value.lower())
    if number and int(number[1]) <= len(plan) and len(found) == 1:
        is_same = plan[found[0] - 1].strip() == value.strip()
        found = found if is_same else sorted({*found, int(number[1])})
    if len(found) == 1:
        notes.append(f"{name} {quote_line(value, 80)} as {found[0]}")
        return found[0]
    steps = "; ".join(f"{number} {quote_line(step, 60)}" for number, step in enumerate(plan, 1))
    which = f"means {len(found)} steps" if found else "is no step of the plan"
    raise InvalidArguments(
        f"{name} {quote_line(value, 80)} {which}; give its number: {clip(steps, 1_000)}. "
        f"{NOTHING_WRITTEN}"
    )
