"""Build, apply and undo JSON merge patches. Pure.

A patch is what `openclaw config patch` takes: objects merge, `null` deletes, and everything else
replaces (RFC 7386). Documents therefore contain no `null`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeGuard

Document = dict[str, Any]

_MISSING: Final = object()


class UndoResult(NamedTuple):
    """A document after a patch was undone."""

    document: Document
    kept: list[str]
    """Paths changed by others since, which stay as they are."""


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a JSON value is a list."""
    return isinstance(value, list)


def apply_patch(document: Mapping[str, Any], patch: Mapping[str, Any]) -> Document:
    """Return the document with a patch applied."""
    result = dict(document)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif is_object(value):
            below = result.get(key)
            result[key] = apply_patch(below if is_object(below) else {}, value)
        else:
            result[key] = value
    return result


def build_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Document:
    """Return the patch from one document to another; empty if they are equal."""
    patch: Document = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key, _MISSING)
        if is_object(value) and is_object(old):
            if below := build_patch(old, value):
                patch[key] = below
        elif not is_same_json(old, value):
            patch[key] = value
    return patch


def undo_patch(
    now: Mapping[str, Any], patch: Mapping[str, Any], inverse: Mapping[str, Any]
) -> UndoResult:
    """Undo a patch in a document that may have changed since.

    Values that differ from what the patch set stay, and their paths are returned. Lists of words
    are restored word by word, so that words added by others stay.

    Args:
        now: The current document.
        patch: The patch that was applied.
        inverse: The patch that reverses it.
    """
    kept: list[str] = []
    return UndoResult(_undo_object(now, patch, inverse, (), kept), kept)


def is_same_json(one: object, other: object) -> bool:
    """Return whether two JSON values are equal; unlike in Python, 1 is not true."""
    if one is _MISSING or other is _MISSING:
        return one is other
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _undo_object(
    now: Mapping[str, Any],
    patch: Mapping[str, Any],
    inverse: Mapping[str, Any],
    path: tuple[str, ...],
    kept: list[str],
) -> Document:
    result = dict(now)
    for key, put in patch.items():
        was, here = inverse.get(key), now.get(key, _MISSING)
        restored: object = was
        if is_object(put) and is_object(here) and (was is None or is_object(was)):
            left = _undo_object(here, put, was or {}, (*path, key), kept)
            restored = left if left or was is not None else None
        elif is_same_json(here, _MISSING if was is None else was):
            continue
        elif not is_same_json(here, _MISSING if put is None else put):
            if _is_word_list(here) and _is_word_list(put) and (was is None or _is_word_list(was)):
                words = _undo_words(here, put, was or [])
                restored = words if words or was is not None else None
            else:
                restored = None if here is _MISSING else here
            if is_same_json(restored, None if here is _MISSING else here):
                kept.append(".".join((*path, key)))
        if restored is None:
            result.pop(key, None)
        else:
            result[key] = restored
    return result


def _undo_words(here: list[str], put: list[str], was: list[str]) -> list[str]:
    added, dropped = set(put) - set(was), [word for word in was if word not in put]
    left = [word for word in here if word not in added]
    return left + [word for word in dropped if word not in left]


def _is_word_list(value: object) -> TypeGuard[list[str]]:
    return is_list(value) and all(isinstance(each, str) for each in value)
