"""Read the arguments of a tool call as models and hosts send them.

What has one meaning is taken; the answer says how it was read where words were, or something was
left out. What has two meanings is refused, with both. Limits come first: nothing is read of a call
that is too deep, too long, or too large. Source: docs/tools.md, "How arguments are read".
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, cast

from pydantic import JsonValue

from openclaw_taskmem.domain.text.odd_words import MASK
from openclaw_taskmem.domain.text.redaction import scrub_json
from openclaw_taskmem.domain.text.texts import quote_line
from openclaw_taskmem.tools.durations import TwoMeanings, parse_duration
from openclaw_taskmem.tools.references import (
    ID_KINDS,
    MOST_VALUES,
    NOTHING_WRITTEN,
    QUOTES,
    STEP_ARGUMENTS,
    Lookup,
    is_whole,
    parse_number,
    read_id,
    read_steps,
    resolve_names,
)
from taskmem_hookspecs import InvalidArguments

MOST_CHARS: Final = 65_536
"""Characters of one text, at most; the forms' own limits, in bytes, are lower."""
DEPTH: Final = 32
"""Levels of nesting, at most."""

Schema = Mapping[str, JsonValue]


class CallArguments(NamedTuple):
    """The arguments of a call as they were read."""

    arguments: dict[str, JsonValue]
    notes: tuple[str, ...]
    """How arguments were read, such as `timeout "5m" as 300 s`; a change of type alone is none."""
    masked: int
    """Credentials that were masked."""


def read_arguments(given: object, schema: Schema, lookup: Lookup) -> CallArguments:
    """Return the arguments of a call as the tool's form takes them.

    Lone surrogates are replaced by U+FFFD, and credentials by a mask. A value that fits in no way
    is left as it is, for the form to refuse.

    Raises:
        InvalidArguments: They are no object, too deep, too many or no JSON; a text is too long or
            holds NUL; or an argument has two meanings.
        TaskmemError: A task or wait is named by words that mean several, or a step of a task that
            the caller may not read by its words.
    """
    known = cast("Mapping[str, Schema]", schema["properties"])
    notes: list[str] = []
    _check_value_count(given)
    opened = _unwrap(_clean_value(given, DEPTH), known, notes)
    if not isinstance(opened, dict):
        raise InvalidArguments(
            f"The arguments must be an object, such as {_show_example(schema)}. {NOTHING_WRITTEN}"
        )
    named = _name_arguments(opened, known, notes)
    required = cast("list[str]", schema.get("required") or [])
    fitted: dict[str, JsonValue] = {}
    for name, value in named.items():
        read = _read_argument(name, value, known[name], notes) if name in known else value
        if read is not _ABSENCE or (name in required and value is not None):
            fitted[name] = value if read is _ABSENCE else cast("JsonValue", read)
    _check_value_count(fitted)
    _take_statuses(fitted, named, known, notes)
    # JSON in a text, which is read by now, has its own depth and surrogates.
    clean = _clean_value(fitted, DEPTH)
    safe = cast("dict[str, JsonValue]", scrub_json(clean))
    masked = 0 if safe == clean else max(0, _count_masks(safe) - _count_masks(clean))
    resolve_names(safe, known, lookup, notes)
    return CallArguments(safe, tuple(notes), masked)


# --- limits --------------------------------------------------------------------------------


_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def has_surrogate(text: str) -> bool:
    """Tell whether a text holds half a character (a lone surrogate)."""
    return _SURROGATE.search(text) is not None


def _check_value_count(given: object) -> None:
    """Refuse a call with too many values, before time is spent on each.

    Raises:
        InvalidArguments: There are too many.
    """
    left, seen = [given], 0
    while left:
        value, seen = left.pop(), seen + 1
        if isinstance(value, dict):
            left += cast("dict[str, object]", value).values()
        elif isinstance(value, list):
            left += cast("list[object]", value)
        if seen + len(left) > MOST_VALUES + 1:
            raise InvalidArguments(
                f"The arguments have more than {MOST_VALUES:,} values; put them into a "
                f"file and name the file. {NOTHING_WRITTEN}"
            )


def _clean_value(value: object, depth: int) -> JsonValue:
    if isinstance(value, str):
        if len(value) > MOST_CHARS:
            raise InvalidArguments(
                f"A text has {len(value):,} characters, and no argument takes that "
                "many; shorten it, or put the long part into a file and name the "
                f"file. {NOTHING_WRITTEN}"
            )
        if "\x00" in value:
            raise InvalidArguments(
                f"A text holds a NUL character; remove it and call again. {NOTHING_WRITTEN}"
            )
        return _SURROGATE.sub("\ufffd", value)
    if depth < 0:
        raise InvalidArguments(
            f"The arguments are nested more than {DEPTH} levels deep; flatten them. "
            f"{NOTHING_WRITTEN}"
        )
    if isinstance(value, dict):
        entries = cast("dict[str, object]", value)
        return {
            str(_clean_value(key, depth - 1)): _clean_value(item, depth - 1)
            for key, item in entries.items()
        }
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [_clean_value(item, depth - 1) for item in items]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise InvalidArguments(
        f"{type(value).__name__} is no JSON; send a value that JSON has. {NOTHING_WRITTEN}"
    )


def _count_masks(value: JsonValue) -> int:
    return json.dumps(value).count(MASK)


# --- the whole call ------------------------------------------------------------------------


_WRAPPERS: Final = frozenset(("arguments", "args", "params", "parameters", "input", "kwargs"))
"""Names that hosts and models put around the arguments."""


def _unwrap(given: JsonValue, known: Mapping[str, Schema], notes: list[str]) -> JsonValue:
    """Return the object of arguments: it may be a text of JSON, or lie within another object."""
    read = _parse_object(given) if isinstance(given, str) else given
    if isinstance(read, dict) and len(read) == 1:
        [(name, value)] = read.items()
        within: JsonValue = None
        if name not in known and name.lower() in _WRAPPERS:
            within = _parse_object(value) if isinstance(value, str) else value
        elif name not in known and value in (None, "", {}):
            within = _parse_object(name)
        if isinstance(within, dict):
            notes.append(f"the arguments within {quote_line(name, 40)} as the call's own")
            return within
    return given if read is None else read


def _parse_object(text: str) -> JsonValue:
    """Return the object of a text of JSON, with or without its outer braces; None: it has none."""
    text = _cut_fence(text)
    for attempt in (text, f"{{{text}}}"):
        with suppress(ValueError, RecursionError):
            read = json.loads(attempt)
            if isinstance(read, dict):
                return cast("JsonValue", read)
    return None


def _cut_fence(text: str) -> str:
    """Return a text without the marks of a block of code (three backticks) around all of it."""
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```") and "\n" in bare:
        return bare.partition("\n")[2].removesuffix("```").strip()
    return text


def _show_example(schema: Schema) -> str:
    required = cast(
        "list[str]", schema.get("required") or list(cast("Schema", schema["properties"]))
    )
    return json.dumps(dict.fromkeys(required[:2], "…"), ensure_ascii=False)


def _name_arguments(
    given: Mapping[str, JsonValue], known: Mapping[str, Schema], notes: list[str]
) -> dict[str, JsonValue]:
    """Return the arguments under the names that the tool has: `taskId` is `task_id`.

    Raises:
        InvalidArguments: One is given twice, with two values.
    """
    spellings = {_fold_name(name): name for name in known}
    named: dict[str, JsonValue] = {}
    for name, value in given.items():
        own = name if name in known else spellings.get(_fold_name(name), name)
        is_empty = value is None or value == ""
        if is_empty and own in named:
            continue
        if named.get(own) not in (None, "", value):
            raise InvalidArguments(
                f"{own} is given twice, with two values; give it once. {NOTHING_WRITTEN}"
            )
        if own != name:
            notes.append(f"{quote_line(name, 40)} as {own}")
        if own in known or not is_empty:
            named[own] = value
        else:
            notes.append(f"{quote_line(name, 40)}, which is empty, as left out")
    return named


def _fold_name(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


# --- one argument --------------------------------------------------------------------------


_ABSENCE: Final = object()
"""Stands for an argument that counts as left out."""
_NO_VALUES: Final = frozenset(("", "null", "none", "undefined", "nil", "n/a"))
"""Words for no value, everywhere but in `_FREE_WORDS`."""
_FREE_WORDS: Final = frozenset(("message", "query", "reason", "note", "name"))
"""Arguments that keep what somebody says: in their text every word counts."""
_TOLD_WORDS: Final = frozenset(("ask", "answer", "wake_when"))
"""Texts of which the answer tells that a word for no value was left out: it might be meant."""
_DURATIONS: Final = frozenset(("timeout", "poll_interval", "quiet"))
"""Arguments, and fields of `signals`, in seconds."""
_POSITIVE_NUMBERS: Final = frozenset(("limit", "token", "timeout", "poll_interval"))
"""Numbers of which 0 means none."""


def _read_argument(name: str, value: JsonValue, asked: Schema, notes: list[str]) -> object:
    """Return an argument as its type asks, or `_ABSENCE`."""
    if isinstance(value, str):
        value = _cut_markup(name, value, notes)
    if name == "completed_steps":
        value = _drop_open_steps(value, notes)
    if _is_no_value(name, value):
        if name in _TOLD_WORDS and isinstance(value, str) and value.strip():
            notes.append(f"{name} {quote_line(value, 40)} as left out")
        return _ABSENCE
    if name in _POSITIVE_NUMBERS and parse_number(value) == 0:
        notes.append(f"{name} 0 as left out")
        return _ABSENCE
    if name in STEP_ARGUMENTS:
        return read_steps(value, many=asked.get("type") == "array")
    return _fit_value(name, value, asked, notes)


def _is_no_value(name: str, value: JsonValue) -> bool:
    if isinstance(value, str):
        return not value.strip() if name in _FREE_WORDS else value.strip().lower() in _NO_VALUES
    # An empty list of these withdraws them all.
    return value is None or (value == [] and name not in ("artifacts", "blocked_by"))


_MARKUP: Final = re.compile(
    r"</?(arg_value|arg_key|parameter|invoke|function|tool_call|argument)[^<>]{0,40}>"
)
"""A sign of a model's own call format."""


def _cut_markup(name: str, value: str, notes: list[str]) -> str:
    """Return a text without signs of a call format at its end.

    A text about such signs, which opens what it closes, stays.
    """
    signs = [*_MARKUP.finditer(value)]
    openings = {kind: value.find(f"<{kind}") for kind in {sign[1] for sign in signs}}
    end = len(value)
    for sign in reversed(signs):
        if value[sign.end() : end].strip():
            break
        if -1 < openings[sign[1]] < sign.start():
            return value
        end = sign.start()
    bare = value[:end].rstrip()
    cut = value[len(bare) :].strip()
    if not cut:
        return value
    notes.append(f"{name} without {quote_line(cut, 40)} at its end")
    return bare


def _fit_value(name: str, value: JsonValue, asked: Schema, notes: list[str]) -> JsonValue:
    """Convert a value to the type that a schema asks for."""
    fit = _FITS.get(str(asked.get("type")))
    return value if fit is None else fit(name, value, asked, notes)


def _fit_text(name: str, value: JsonValue, asked: Schema, notes: list[str]) -> JsonValue:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        value = _take_text(name, value, notes) or value
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and name != "artifacts":
        value = _format_number(value)
    if name == "exit" and (status := parse_number(value)) is not None and is_whole(status):
        return int(status)  # a signal's exit is a word, or a status
    if not isinstance(value, str):
        return value
    if name in ID_KINDS:
        return read_id(value, ID_KINDS[name])
    if name in ("status", "role", "to", "outcome"):
        value = value.strip().strip(QUOTES).strip()
        options = cast("list[str]", asked.get("enum") or [])
        return _find_option(value, options) or value
    return value


_DONE_WORDS: Final = ("completed", "complete", "done", "finished", "success", "succeeded")
_OPTION_WORDS: Final = {
    **dict.fromkeys(_DONE_WORDS, "done"),
    **dict.fromkeys(("fail", "failure", "error"), "failed"),
}


def _find_option(value: str, options: Sequence[str]) -> str | None:
    word = re.sub(r"[\s-]+", "_", value.lower())
    word = _OPTION_WORDS.get(word, word)
    return word if word in options else None


def _fit_number(name: str, value: JsonValue, asked: Schema, notes: list[str]) -> JsonValue:
    if isinstance(value, list) and len(value) == 1:
        return _fit_number(name, value[0], asked, notes)
    if name == "percent" and isinstance(value, str):
        value = value.strip().removesuffix("%")
    number = parse_number(value)
    if number is None and name in _DURATIONS and isinstance(value, str):
        return _read_duration(name, value, notes)
    if number is None:
        return value
    if is_whole(number):
        return int(number)
    return number if asked.get("type") == "number" or isinstance(value, str) else value


def _read_duration(name: str, text: str, notes: list[str]) -> JsonValue:
    """Return the seconds of a duration, or the text if it is none.

    Raises:
        InvalidArguments: It has two meanings.
    """
    try:
        seconds = parse_duration(text.strip().strip(QUOTES))
    except TwoMeanings as unclear:
        raise InvalidArguments(
            f"{name} {quote_line(text, 40)} may mean {unclear}; give a number of seconds, or each "
            f'part with its unit, such as "1 h 30 min". {NOTHING_WRITTEN}'
        ) from None
    if seconds is None:
        return text
    notes.append(f"{name} {quote_line(text, 40)} as {seconds:,} s")
    return seconds


def _format_number(value: float) -> str:
    return str(int(value) if is_whole(value) else value)


_BOOLEANS: Final[Mapping[object, bool]] = {
    **dict.fromkeys(("true", "yes", "on", "1", 1), True),
    **dict.fromkeys(("false", "no", "off", "0", 0), False),
}


def _fit_boolean(_name: str, value: JsonValue, _asked: Schema, _notes: list[str]) -> JsonValue:
    if isinstance(value, (list, dict)):
        return value
    found = value.strip().lower() if isinstance(value, str) else value
    return _BOOLEANS.get(found, value)


def _fit_object(name: str, value: JsonValue, asked: Schema, notes: list[str]) -> JsonValue:
    read = _parse_object(value) if isinstance(value, str) else value
    if not isinstance(read, dict):
        return value
    fields = cast("Mapping[str, Schema]", asked.get("properties") or {})
    if name == "metadata":
        return read
    return {
        key: _fit_value(key, item, fields[key], notes) if key in fields else item
        for key, item in read.items()
        if item is not None
    }


# --- lists ---------------------------------------------------------------------------------


_ENTRY: Final = re.compile(r"^(?:[-*•]\s+|\[[ xX]?\]\s+|[0-9]{1,3}[.)]\s+)+")
_NEXT_ENTRY: Final = re.compile(r"(?:[,;]|(?<!\s))\s++(?=([0-9]{1,3})[.)]\s)")
"""The blanks before the number of an entry on the same line; no run of them is read thrice."""
_CHECKBOX: Final = re.compile(r"(?:[-*•]\s+|[0-9]{1,3}[.)]\s+)?\[([ xX])\]\s+(\S.*)")
_NUMBERED_KEY: Final = re.compile(r"(?:step)?[ _-]?([0-9]{1,3})", re.IGNORECASE)
_TEXT_KEYS: Final = {
    "plan": ("step", "content", "title", "name", "task", "text", "description", "subject"),
    "artifacts": ("path", "file", "file_path", "url", "uri", "name"),
    "ask_options": ("label", "text", "title", "value", "option", "name"),
    "task_id": ("task_id", "id"),
    "wait_id": ("wait_id", "id"),
    "attach": ("task_id", "id"),
    "blocked_by": ("task_id", "id"),
}
"""The keys that hold the text of an entry which is an object, by argument; the first counts."""
_ORDER_KEYS: Final = ("id", "number", "index", "step", "order", "priority", "activeForm")
"""The keys of a step that say nothing which a plan keeps."""
_ARTIFACT_KEYS: Final = frozenset((*_TEXT_KEYS["artifacts"], "type", "kind", "description"))
_PLANS: Final = {"plan": "plan", "new_plan": "plan", "remaining": "plan"}
_PLAN_KEYS: Final = ("steps", "plan", "new_plan", "todos", "tasks", "items")
"""The keys that hold the steps in an object that stands where a plan belongs."""


def _take_text(name: str, entry: Mapping[str, JsonValue], notes: list[str]) -> str | None:
    """Return the text of an object that stands where a text belongs; None: it has none.

    A number alone is no step's text if there are words. What is left out is noted.
    """
    if name == "artifacts" and not entry.keys() <= _ARTIFACT_KEYS:
        return None  # such as a checksum, which is checked, too
    texts = [
        (key, text)
        for key in _TEXT_KEYS.get(_PLANS.get(name, name), ())
        if isinstance(text := entry.get(key), str) and text.strip()
    ]
    worded = [each for each in texts if name not in _PLANS or parse_number(each[1]) is None]
    for key, text in worded or texts:
        lost = [each for each in entry if each not in (key, *_STATUS_KEYS, *_ORDER_KEYS)]
        note = f"{name} without {', '.join(quote_line(each, 40) for each in lost[:5])} of its steps"
        if name in _PLANS and lost and note not in notes:
            notes.append(note)
        return text
    return None


def _fit_list(name: str, value: JsonValue, asked: Schema, notes: list[str]) -> JsonValue:
    """Return a list: one value is a list of it, and so is what lies in a text or an object."""
    items = cast("Schema", asked.get("items") or {})
    entries = _list_entries(name, value, items.get("type"))
    if entries is None:
        return value
    if isinstance(value, dict) and len(value) > 1 and (key := _find_list_key(name, value)):
        notes.append(f"{name} as its {quote_line(key, 40)} alone")
    return [_fit_value(name, item, items, notes) for item in entries]


def _list_entries(name: str, value: JsonValue, kind: JsonValue) -> list[JsonValue] | None:
    """Return the entries of a list of a `kind` in any of its shapes; None: it is no list.

    A step with a box to tick, or one written as JSON, is an object. Null beside entries is left
    out, unless one is blank: the form refuses that by its place.
    """
    if isinstance(value, str):
        entries = _split_entries(value, kind)
    elif isinstance(value, dict):
        entries = _open_object(name, value, kind)
    elif isinstance(value, (int, float)):
        return [value] if kind != "string" else None
    elif not isinstance(value, list):
        return None
    else:
        entries = _open_list(name, value)
    if kind == "string":
        entries = [_read_entry(name, each) for each in entries]
    kept = [each for each in entries if each is not None]
    has_blank = any(isinstance(each, str) and not each.strip() for each in kept)
    return entries if has_blank or not kept else [*kept]


def _open_object(name: str, value: dict[str, JsonValue], kind: JsonValue) -> list[JsonValue]:
    """Return the entries of an object: of its one list, or its own, if its keys number them."""
    if key := _find_list_key(name, value):
        return cast("list[JsonValue]", value[key])
    found = [(_NUMBERED_KEY.fullmatch(key), each) for key, each in value.items()]
    numbered = {int(number[1]): each for number, each in found if number}
    if kind == "string" and numbered and len(numbered) == len(value):
        return [numbered[number] for number in sorted(numbered)]
    return [value]


def _find_list_key(name: str, value: Mapping[str, JsonValue]) -> str | None:
    """Return the key of the list that an object stands for; None: it stands for itself."""
    keys = [key for key, each in value.items() if isinstance(each, list)]
    if len(value) > 1:
        keys = [key for key in keys if name in _PLANS and key in _PLAN_KEYS]
    return keys[0] if len(keys) == 1 else None


def _open_list(name: str, value: list[JsonValue]) -> list[JsonValue]:
    """Return the entries of a list, which may hold a list, or a whole plan in one text."""
    if len(value) == 1 and isinstance(value[0], list):
        return value[0]
    if len(value) == 1 and isinstance(value[0], str) and name in _PLANS:
        lines = [line.strip() for line in value[0].splitlines() if line.strip()]
        if len(lines) > 1 and all(_ENTRY.match(line) for line in lines):
            return _split_entries(value[0], "string")
    return value


def _read_entry(name: str, entry: JsonValue) -> JsonValue:
    """Return an entry that is written as JSON, or has a box to tick, as the object that it is."""
    if not isinstance(entry, str):
        return entry
    if entry.lstrip()[:1] == "{" and entry.rstrip()[-1:] == "}":
        read = _parse_object(entry)
        is_known = isinstance(read, dict) and not read.keys().isdisjoint(
            _TEXT_KEYS.get(_PLANS.get(name, name), ())
        )
        return read if is_known else entry
    box = _CHECKBOX.fullmatch(entry.strip()) if name in _PLANS else None
    return {"step": box[2], "done": box[1] != " "} if box else entry


def _split_entries(text: str, kind: JsonValue) -> list[JsonValue]:
    """Split a list that was written as one text into its entries."""
    bare = _cut_fence(text).strip()
    with suppress(ValueError, RecursionError):
        read = json.loads(bare) if bare[:1] in "[{" else None
        if read is not None:
            return cast("list[JsonValue]", read if isinstance(read, list) else [read])
    with suppress(ValueError, RecursionError, MemoryError, SyntaxError):
        is_list = bare[:1] == "[" and bare[-1:] == "]"
        listed = cast("object", ast.literal_eval(bare)) if is_list else None  # as Python writes it
        if isinstance(listed, list) and all(
            isinstance(each, str) for each in cast("list[object]", listed)
        ):
            return cast("list[JsonValue]", listed)
    if kind == "object":
        return [text]
    if "\n" not in bare and bare.startswith(("1. ", "1) ")):
        bare = _break_lines(bare)
    lines = [line.strip() for line in bare.splitlines()]
    return [
        line if _CHECKBOX.fullmatch(line) else _ENTRY.sub("", line) or line
        for line in lines
        if line
    ]


def _break_lines(text: str) -> str:
    """Put each entry of a list that is numbered within one line, 1 2 3, on a line of its own."""
    lines: list[str] = []
    start = 0
    for found in _NEXT_ENTRY.finditer(text):
        if int(found[1]) == len(lines) + 2:
            lines.append(text[start : found.start()])
            start = found.end()
    return "\n".join([*lines, text[start:]])


_FITS: Final[Mapping[str, Callable[[str, JsonValue, Schema, list[str]], JsonValue]]] = {
    "string": _fit_text,
    "integer": _fit_number,
    "number": _fit_number,
    "boolean": _fit_boolean,
    "object": _fit_object,
    "array": _fit_list,
}


# --- plans with statuses -------------------------------------------------------------------


_STATUSES: Final[Mapping[object, bool]] = {
    **_BOOLEANS,
    **dict.fromkeys((*_DONE_WORDS, "passed"), True),
    **dict.fromkeys(("pending", "in_progress", "todo", "to_do", "open", "active"), False),
    **dict.fromkeys(("not_started", "not_done", "incomplete", "blocked", "failed"), False),
}
"""By the words for it in other hosts' plans, True for a step that is done; others say nothing."""
_STATUS_KEYS: Final = ("status", "state", "done", "completed")


def _take_statuses(
    fitted: dict[str, JsonValue],
    given: Mapping[str, JsonValue],
    known: Mapping[str, Schema],
    notes: list[str],
) -> None:
    """Take over which steps of a plan of objects are done, as other hosts' plans say it.

    A step that is said not to be done loses its mark, where there was one.
    """
    name = next((each for each in ("plan", "new_plan") if each in known), None)
    if name is None:
        return
    entries = enumerate(_list_entries(name, given.get(name), "string") or (), start=1)
    marks = {number: _read_status(entry) for number, entry in entries}
    for argument, wanted in (("completed_steps", True), ("reopened_steps", False)):
        numbers = [number for number, is_done in marks.items() if is_done is wanted]
        # A plan that is registered with no step done is that of an agent which begins anew.
        counts = wanted or name == "new_plan" or True in marks.values()
        if numbers and counts and argument in known and argument not in fitted:
            fitted[argument] = cast("JsonValue", numbers)
            notes.append(f"the statuses in {name} as {argument} {numbers}")


def _drop_open_steps(value: JsonValue, notes: list[str]) -> JsonValue:
    """Return `completed_steps` without the steps of which it says that they are not done."""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if not isinstance(value, list):
        return value
    kept = [each for each in value if _read_status(each) is not False]
    if len(kept) < len(value):
        notes.append("completed_steps without those that are not done")
    return kept


def _read_status(entry: JsonValue) -> bool | None:
    """Return whether an entry of a plan says that its step is done; None: it says nothing."""
    if not isinstance(entry, dict):
        return None
    status = next((entry[key] for key in _STATUS_KEYS if key in entry), None)
    if isinstance(status, str):
        status = re.sub(r"[\W_]+", "_", status.lower()).strip("_")
    return None if isinstance(status, (list, dict)) else _STATUSES.get(status)
