"""Keep what a target says when a wait begins, and tell later what is new.

A wait's start has a digest of every line and of every field of JSON, so that a restart of the
daemon loses nothing of it.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from typing import Any, Final, cast

from taskmem_hookspecs import Frame

_DIGEST_BYTES: Final = 3
"""Bytes of a digest; of 5,000 lines, one new line in 3,000 is taken for one of them."""
_PATH_CHARS: Final = 1_000
"""Longest path of a field that is kept; what lies deeper is left out."""


def write_beginning(frame: Frame) -> str:
    """Return the digests of all that a target says."""
    facts = chain(_iterate_fields(frame), iterate_lines(frame.text or ""))
    return b64encode(b"".join(sorted({*map(_compute_digest, facts)}))).decode()


def find_new_lines(frame: Frame) -> str:
    """Return the lines that were not there when the wait began."""
    known = _read_beginning(frame.before)
    lines = iterate_lines(frame.text or "")
    return "\n".join(line for line in lines if _compute_digest(line) not in known)


def find_new_value(frame: Frame, field: str) -> str | None:
    """Return the first field whose value was not there when the wait began, with that value.

    None: there is none.

    `field`: its path, or `status` or `price`; below a path, every field counts.
    """
    known = _read_beginning(frame.before)
    items = re.sub(r"\\\[(?:\\\*)?\\\]", r"\\[\\d+\\]", re.escape(field))
    begins = re.compile(rf"{items}[ .\[]")
    new = (fact for fact in _iterate_fields(frame) if begins.match(fact))
    return next((fact for fact in new if _compute_digest(fact) not in known), None)


def iterate_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, or the values of JSON, which may be all on one line."""
    whole = _read_json(text)
    if whole is None:
        yield from filter(None, map(str.strip, text.split("\n")))
    else:
        yield from (value for _, value in _iterate_values(whole, has_lengths=False))


def _iterate_fields(frame: Frame) -> Iterator[str]:
    """Yield each field with its value, and the status and price of a target."""
    if frame.exit_status is not None:
        yield f"status {frame.exit_status}"
    for name in ("status", "price"):
        if name in frame.numbers:
            yield f"{name} {frame.numbers[name]:.10g}"
    for path, value in _iterate_values(_read_json(frame.text or ""), has_lengths=True):
        yield f"{path} {value}"


def _read_json(text: str) -> Any:  # noqa: ANN401 - JSON
    """Return the object or list that a text is; None: it is none."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _iterate_values(
    whole: Any,  # noqa: ANN401 - JSON
    *,
    has_lengths: bool,
) -> Iterator[tuple[str, str]]:
    """Yield the paths of all fields with their values, and of objects and lists with their lengths.

    A path is made when it is reached: a long name above many items takes no memory.
    """
    left: list[Iterator[tuple[str, Any]]] = [] if whole is None else [iter([("$", whole)])]
    while left:
        path, value = next(left[-1], ("", None))
        if not path:
            left.pop()
            continue
        if len(path) > _PATH_CHARS:
            continue
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            left.append(_iterate_parts(f"{path}.", fields.items(), ""))
            length = f"has {len(fields)} fields"
        elif isinstance(value, list):
            items = cast("list[object]", value)
            left.append(_iterate_parts(f"{path}[", enumerate(items), "]"))
            length = f"has {len(items)} items"
        else:
            yield path, json.dumps(value, ensure_ascii=False)
            continue
        if has_lengths:
            yield path, length


def _iterate_parts(
    before: str, parts: Iterable[tuple[object, Any]], behind: str
) -> Iterator[tuple[str, Any]]:
    """Yield the path of each part of an object or list, with the part."""
    for name, part in parts:
        yield f"{before}{name}{behind}", part


def _compute_digest(fact: str) -> bytes:
    return sha256(fact.encode(errors="replace")).digest()[:_DIGEST_BYTES]


@lru_cache(64)
def _read_beginning(text: str) -> frozenset[bytes]:
    data = b64decode(text)
    return frozenset(data[at : at + _DIGEST_BYTES] for at in range(0, len(data), _DIGEST_BYTES))
