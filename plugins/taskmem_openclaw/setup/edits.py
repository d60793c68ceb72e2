"""Changes of a configuration, before anybody has made them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from taskmem_openclaw.setup.merge_patches import Document, is_list, is_object

Path = tuple[str, ...]


class ValueEdit(NamedTuple):
    """A value at a path; what was there is replaced."""

    path: Path
    value: object


class ListEdit(NamedTuple):
    """Words taken out of a list and added to it; the list is made if need be."""

    path: Path
    added: tuple[str, ...]
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConfigChange:
    """One thing to change, and all that a person must know who is asked for it."""

    what: str
    gives: str
    """What it gives, and what that takes; it goes on after "gives"."""
    edits: tuple[ValueEdit | ListEdit, ...]
    without: str = ""
    """What becomes of it where it is refused; empty: it is needed."""
    leaves: str = ""
    """What leaves this machine by it, and where to; empty: nothing."""
    needs: ConfigChange | None = None
    """Another change without which this one has no effect; None: there is none."""
    needed: bool = False
    """Without it nothing works; all else is for the operator to allow."""
    by_hand: str = ""
    """How it is done without set-up, where only a person's own yes means it and `--yes`
    does not; empty: `--yes` allows it."""


def apply_changes(config: Mapping[str, Any], changes: Iterable[ConfigChange]) -> Document:
    """Return a configuration with changes made."""
    result = dict(config)
    for change in changes:
        for edit in change.edits:
            result = apply_edit(result, edit)
    return result


def apply_edit(config: Mapping[str, Any], edit: ValueEdit | ListEdit) -> Document:
    """Return a configuration with one edit made."""
    if isinstance(edit, ValueEdit):
        return _set_value(config, edit.path, edit.value)
    left = [each for each in to_list(find_value(config, edit.path)) if each not in edit.dropped]
    left += [word for word in edit.added if word not in left]
    return _set_value(config, edit.path, left)


def drop_path(config: Mapping[str, Any], path: Path) -> Document:
    """Return a configuration without a path; what was around it stays, also empty."""
    if find_value(config, path) is None:
        return dict(config)
    left = {k: v for k, v in to_object(find_value(config, path[:-1])).items() if k != path[-1]}
    return apply_edit(config, ValueEdit(path[:-1], left)) if path[1:] else left


def remove_path(config: Mapping[str, Any], path: Path) -> Document:
    """Return a configuration without a path, and without what is empty thereby."""
    if find_value(config, path) is None:
        return dict(config)
    result = drop_path(config, path)
    above = path[:-1]
    return result if not above or find_value(result, above) else remove_path(result, above)


def find_value(config: object, path: Path) -> object:
    """Return what is at a path; None: nothing is."""
    for key in path:
        config = to_object(config).get(key)
    return config


def to_list(value: object) -> list[Any]:
    """Return a list as it is, and nothing of what is none."""
    return list(value) if is_list(value) else []


def to_object(value: object) -> Mapping[str, Any]:
    """Return an object as it is, and nothing of what is none."""
    return value if is_object(value) else {}


def _set_value(config: Mapping[str, Any], path: Path, value: object) -> Document:
    head, *rest = path
    if rest:
        value = _set_value(to_object(config.get(head)), tuple(rest), value)
    return {**config, head: value}
