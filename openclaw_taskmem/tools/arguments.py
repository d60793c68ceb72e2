"""What comes in with a call, made safe before anything looks at it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast

from pydantic import JsonValue

from openclaw_taskmem.domain.scrub import MASK, scrub_json
from taskmem_hookspecs import InvalidArguments

LONGEST: Final = 65_536
"""Characters of one text; what the forms take counts in bytes, and is less."""
DEPTH: Final = 32
"""Levels of nesting; more is nobody's metadata."""

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def prepared(arguments: Mapping[str, object]) -> tuple[dict[str, JsonValue], int]:
    """Return the arguments without lone surrogates and secrets.

    The number says how many secrets were removed.

    Raises:
        InvalidArguments: They are nested too deeply, or hold NUL.
    """
    clean = _cleaned(dict(arguments), DEPTH)
    safe = scrub_json(clean)
    assert isinstance(safe, dict)  # noqa: S101 - a mapping stays one
    return safe, max(0, _masks(safe) - _masks(clean))


def _cleaned(value: object, depth: int) -> JsonValue:
    if isinstance(value, str):
        if len(value) > LONGEST:
            raise InvalidArguments(
                f"A text has {len(value):,} characters, and no argument takes that "
                "many; shorten it, or put the long part into a file and name the "
                "file. Nothing was written."
            )
        if "\x00" in value:
            raise InvalidArguments(
                "A text holds a NUL character; remove it and call again. "
                "Nothing was written."
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
            str(_cleaned(key, depth - 1)): _cleaned(item, depth - 1)
            for key, item in entries.items()
        }
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [_cleaned(item, depth - 1) for item in items]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise InvalidArguments(f"{type(value).__name__} is no JSON. Nothing was written.")


def _masks(value: JsonValue) -> int:
    if isinstance(value, str):
        return value.count(MASK)
    if isinstance(value, dict):
        return sum(_masks(key) + _masks(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(_masks(item) for item in value)
    return 0
