"""Check and clean the arguments of a tool call before they are used."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, cast

from pydantic import JsonValue

from openclaw_taskmem.domain.text.redaction import MASK, scrub_json
from taskmem_hookspecs import InvalidArguments

MOST_CHARS: Final = 65_536
"""Characters of one text, at most; the forms' own limits, in bytes, are lower."""
DEPTH: Final = 32
"""Levels of nesting, at most."""
MOST_VALUES: Final = 40_000
"""Values in one call, at most; metadata of the largest size has fewer."""

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def prepare_arguments(
    arguments: Mapping[str, object], schema: Mapping[str, JsonValue]
) -> tuple[dict[str, JsonValue], int]:
    """Mask credentials in arguments; return the arguments and the number of credentials.

    Lone surrogates are replaced by U+FFFD. A text is converted if the `schema` asks for another
    type, such as a number.

    Raises:
        InvalidArguments: They are nested too deeply, too many, or no JSON, or a text is too long or
            contains NUL.
    """
    _check_value_count(arguments)
    given = cast("dict[str, JsonValue]", _clean_value(dict(arguments), DEPTH))
    kinds = cast("Mapping[str, Mapping[str, JsonValue]]", schema["properties"])
    fitted: dict[str, JsonValue] = {
        name: _fit_value(value, kinds[name]) if name in kinds else value
        for name, value in given.items()
    }
    clean = given if fitted == given else _clean_value(fitted, DEPTH)
    safe = scrub_json(clean)
    assert isinstance(safe, dict)  # noqa: S101 - a mapping stays one
    return safe, 0 if safe == clean else max(0, _count_masks(safe) - _count_masks(clean))


def check_tool_name(name: str) -> None:
    """Refuse a tool name that contains a lone surrogate.

    Raises:
        InvalidArguments: It contains one.
    """
    if _SURROGATE.search(name):
        raise InvalidArguments(
            "The tool's name holds half a character (a lone surrogate); give the name "
            "as the list of tools has it."
        )


def _check_value_count(arguments: Mapping[str, object]) -> None:
    """Refuse a call with too many values, before time is spent on each.

    Raises:
        InvalidArguments: There are too many.
    """
    left, seen = [*arguments.values()], 0
    while left:
        value, seen = left.pop(), seen + 1
        if isinstance(value, dict):
            left += cast("dict[str, object]", value).values()
        elif isinstance(value, list):
            left += cast("list[object]", value)
        if seen + len(left) > MOST_VALUES:
            raise InvalidArguments(
                f"The arguments have more than {MOST_VALUES:,} values; put them into a "
                "file and name the file. Nothing was written."
            )


_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_ENTRY: Final = re.compile(r"^(?:[-*•]\s+|\[ \]\s+|[0-9]{1,3}[.)]\s+)+")


def _fit_value(value: JsonValue, asked: Mapping[str, JsonValue]) -> JsonValue:
    """Convert a text to the type that a schema asks for.

    `"5"` becomes a number, `"true"` a boolean, and a text of JSON a list or an object. A list of
    texts may also be one text with an entry per line, or with numbered entries. What does not fit
    is left for the form to refuse.
    """
    kind = asked.get("type")
    text = value.strip() if isinstance(value, str) else ""
    if kind == "array":
        items = cast("Mapping[str, JsonValue]", asked.get("items") or {})
        value = _split_entries(text, items.get("type")) or value
        if isinstance(value, list):
            return [_fit_value(item, items) for item in value]
        return value
    if kind in ("integer", "number") and _NUMBER.fullmatch(text):
        whole = float(text).is_integer() and kind == "integer"
        return int(float(text)) if whole else float(text)
    if kind == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    read = _read_json(text) if kind == "object" else None
    return read if isinstance(read, dict) else value


def _read_json(text: str) -> JsonValue:
    try:
        return cast("JsonValue", json.loads(text)) if text[:1] in "[{" else None
    except (ValueError, RecursionError):
        return None


def _split_entries(text: str, kind: JsonValue) -> list[JsonValue]:
    """Split a list that was written as one text into its entries."""
    read = _read_json(text)
    if isinstance(read, list):
        return read
    if kind == "integer":
        return [entry for entry in re.split(r"[\s,]+", text) if entry]
    if "\n" not in text and text.startswith(("1. ", "1) ")):
        text = re.sub(r"[,;]?\s+(?=[0-9]{1,3}[.)]\s)", "\n", text)
    lines = [line.strip() for line in text.splitlines()]
    return [_ENTRY.sub("", line) or line for line in lines if line]


def _clean_value(value: object, depth: int) -> JsonValue:
    if isinstance(value, str):
        if len(value) > MOST_CHARS:
            raise InvalidArguments(
                f"A text has {len(value):,} characters, and no argument takes that "
                "many; shorten it, or put the long part into a file and name the "
                "file. Nothing was written."
            )
        if "\x00" in value:
            raise InvalidArguments(
                "A text holds a NUL character; remove it and call again. Nothing was written."
            )
        return _SURROGATE.sub("\ufffd", value)
    if depth == 0:
        raise InvalidArguments(
            f"The arguments are nested more than {DEPTH} levels deep; flatten them. "
            "Nothing was written."
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
    raise InvalidArguments(f"{type(value).__name__} is no JSON. Nothing was written.")


def _count_masks(value: JsonValue) -> int:
    return json.dumps(value).count(MASK)
