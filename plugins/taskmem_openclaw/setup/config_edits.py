"""Edits of a configuration, and JSON merge patches between two of them. Pure.

A patch is what `openclaw config patch` takes: objects merge, `null` deletes, and everything else
replaces (RFC 7386). Documents therefore contain no `null`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from taskmem_openclaw.json_values import find_value, is_object, to_list, to_object

Document = dict[str, Any]
Path = tuple[str, ...]

SETUP: Final = "Run: taskmem setup openclaw"
"""The usual cure of a fault."""
_NO_VALUE: Final = object()


class Fault(NamedTuple):
    """A row of `taskmem doctor`, as long as an edit is not made."""

    row: str
    """The row's id, without `openclaw.`."""
    detail: str
    cure: str = SETUP
    breaks: bool = True
    """True: something does not work. False: it works with a loss."""


class ValueEdit(NamedTuple):
    """Set the value at a path."""

    path: Path
    value: object
    fault: Fault | None = None
    """None: the doctor does not miss it."""


class ListEdit(NamedTuple):
    """Remove words from a list and add others; a missing list is created."""

    path: Path
    added: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    fault: Fault | None = None
    """None: the doctor does not miss it."""


@dataclass(frozen=True)
class ConfigChange:
    """One change, with everything that the person who is asked must know."""

    what: str
    gives: str
    """Gain and cost of the change; the text follows the word "gives"."""
    edits: tuple[ValueEdit | ListEdit, ...]
    without: str = ""
    """The loss if the change is refused; empty: the change is needed."""
    leaves: str = ""
    """Which data leaves this machine through the change, and to whom; empty: none."""
    advised: bool = False
    """True if set-up recommends it."""
    because: str = ""
    """Why it is recommended, or is not; empty: the change is needed."""
    needs: ConfigChange | None = None
    """Another change that this one depends on; None: none."""
    needed: bool = False
    """True: nothing works without it. False: the operator decides."""
    by_hand: str = ""
    """How to do it without set-up, if `--yes` does not allow it; empty: `--yes` allows it."""


def apply_changes(config: Mapping[str, Any], changes: Iterable[ConfigChange]) -> Document:
    """Return the configuration with all changes made."""
    result = dict(config)
    for change in changes:
        for edit in change.edits:
            result = apply_edit(result, edit)
    return result


def apply_edit(config: Mapping[str, Any], edit: ValueEdit | ListEdit) -> Document:
    """Return the configuration with one edit made."""
    if isinstance(edit, ValueEdit):
        return _set_value(config, edit.path, edit.value)
    words = [each for each in to_list(find_value(config, edit.path)) if each not in edit.dropped]
    words += [word for word in edit.added if word not in words]
    return _set_value(config, edit.path, words)


def drop_path(config: Mapping[str, Any], path: Path) -> Document:
    """Return the configuration without a path; emptied parents stay."""
    if find_value(config, path) is None:
        return dict(config)
    rest = {k: v for k, v in to_object(find_value(config, path[:-1])).items() if k != path[-1]}
    return apply_edit(config, ValueEdit(path[:-1], rest)) if path[1:] else rest


def remove_path(config: Mapping[str, Any], path: Path) -> Document:
    """Return the configuration without a path and without parents that become empty."""
    if find_value(config, path) is None:
        return dict(config)
    result = drop_path(config, path)
    above = path[:-1]
    return result if not above or find_value(result, above) else remove_path(result, above)


def apply_patch(document: Mapping[str, Any], patch: Mapping[str, Any]) -> Document:
    """Return the document with a patch applied."""
    result = dict(document)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif is_object(value):
            result[key] = apply_patch(to_object(result.get(key)), value)
        else:
            result[key] = value
    return result


def build_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Document:
    """Return the patch from one document to another; empty if they are equal."""
    patch: Document = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key, _NO_VALUE)
        if is_object(value) and is_object(old):
            if below := build_patch(old, value):
                patch[key] = below
        elif not is_same_json(old, value):
            patch[key] = value
    return patch


def is_same_json(one: object, other: object) -> bool:
    """Return whether two JSON values are equal; unlike in Python, 1 is not true."""
    if one is _NO_VALUE or other is _NO_VALUE:
        return one is other
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _set_value(config: Mapping[str, Any], path: Path, value: object) -> Document:
    head, *rest = path
    if rest:
        value = _set_value(to_object(config.get(head)), tuple(rest), value)
    return {**config, head: value}
