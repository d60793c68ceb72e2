"""Changes of a JSON document as merge patches, and the way back. Pure.

A patch is what `openclaw config patch` takes: objects merge, `null` deletes, and all
else replaces (RFC 7386). Documents therefore hold no `null` of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeGuard

Document = dict[str, Any]

_MISSING: Final = object()


class Undone(NamedTuple):
    """A document from which a patch was taken back."""

    document: Document
    kept: list[str]
    """The paths that somebody else has changed since; they stay as they are."""


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a JSON value is a list."""
    return isinstance(value, list)


def patched(document: Mapping[str, Any], patch: Mapping[str, Any]) -> Document:
    """Return a document with a patch applied."""
    result = dict(document)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif is_object(value):
            below = result.get(key)
            result[key] = patched(below if is_object(below) else {}, value)
        else:
            result[key] = value
    return result


def patch_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> Document:
    """Return the patch that makes one document of the other; empty: they are equal."""
    patch: Document = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key, _MISSING)
        if is_object(value) and is_object(old):
            if below := patch_between(old, value):
                patch[key] = below
        elif not same(old, value):
            patch[key] = value
    return patch


def undone(
    now: Mapping[str, Any], patch: Mapping[str, Any], inverse: Mapping[str, Any]
) -> Undone:
    """Take a patch back from a document that may have been changed since.

    What is not as the patch left it stays, and is named. Lists of words are put right
    word by word, so that what others added to them stays too.

    Args:
        now: The document as it is.
        patch: What was applied.
        inverse: The patch that would have led straight back.
    """
    kept: list[str] = []
    return Undone(_undo(now, patch, inverse, (), kept), kept)


def same(one: object, other: object) -> bool:
    """Whether two JSON values are the same; unlike in Python, 1 is not true."""
    if one is _MISSING or other is _MISSING:
        return one is other
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _undo(
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
            left = _undo(here, put, was or {}, (*path, key), kept)
            restored = left if left or was is not None else None
        elif same(here, _MISSING if was is None else was):
            continue
        elif not same(here, _MISSING if put is None else put):
            if _words(here) and _words(put) and (was is None or _words(was)):
                words = _unlist(here, put, was or [])
                restored = words if words or was is not None else None
            else:
                restored = None if here is _MISSING else here
            if same(restored, None if here is _MISSING else here):
                kept.append(".".join((*path, key)))
        if restored is None:
            result.pop(key, None)
        else:
            result[key] = restored
    return result


def _unlist(here: list[str], put: list[str], was: list[str]) -> list[str]:
    added, dropped = set(put) - set(was), [word for word in was if word not in put]
    left = [word for word in here if word not in added]
    return left + [word for word in dropped if word not in left]


def _words(value: object) -> TypeGuard[list[str]]:
    return is_list(value) and all(isinstance(each, str) for each in value)
