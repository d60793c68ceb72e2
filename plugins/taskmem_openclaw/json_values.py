"""Read parsed JSON of which the form is not known. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a JSON value is a list."""
    return isinstance(value, list)


def to_object(value: object) -> Mapping[str, Any]:
    """Return an object as it is; anything else as an empty object."""
    return value if is_object(value) else {}


def to_list(value: object) -> list[Any]:
    """Return a list as it is; anything else as an empty list."""
    return list(value) if is_list(value) else []


def find_value(value: object, path: tuple[str, ...]) -> object:
    """Return the value at a path of keys; None: there is none."""
    for key in path:
        value = to_object(value).get(key)
    return value
