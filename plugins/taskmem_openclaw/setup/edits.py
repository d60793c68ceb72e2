"""Changes of a configuration, before anybody has made them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from taskmem_openclaw.setup.patches import Document, is_list, is_object

Path = tuple[str, ...]


class Put(NamedTuple):
    """A value at a path; what was there is replaced."""

    path: Path
    value: object


class Words(NamedTuple):
    """Words taken out of a list and added to it; the list is made if need be."""

    path: Path
    added: tuple[str, ...]
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """One thing to change, and all that a person must know who is asked for it."""

    what: str
    gives: str
    """What it gives, and what that takes; it goes on after "gives"."""
    edits: tuple[Put | Words, ...]
    without: str = ""
    """What becomes of it where it is refused; empty: it is needed."""
    leaves: str = ""
    """What leaves this machine by it, and where to; empty: nothing."""
    needs: Change | None = None
    """Another change without which this one has no effect; None: there is none."""
    needed: bool = False
    """Without it nothing works; all else is for the operator to allow."""
    by_hand: str = ""
    """How it is done without set-up, where only a person's own yes means it and `--yes`
    does not; empty: `--yes` allows it."""


def applied(config: Mapping[str, Any], changes: Iterable[Change]) -> Document:
    """Return a configuration with changes made."""
    result = dict(config)
    for change in changes:
        for edit in change.edits:
            result = edited(result, edit)
    return result


def edited(config: Mapping[str, Any], edit: Put | Words) -> Document:
    """Return a configuration with one edit made."""
    if isinstance(edit, Put):
        return _with(config, edit.path, edit.value)
    left = [each for each in items(at(config, edit.path)) if each not in edit.dropped]
    left += [word for word in edit.added if word not in left]
    return _with(config, edit.path, left)


def dropped(config: Mapping[str, Any], path: Path) -> Document:
    """Return a configuration without a path; what was around it stays, also empty."""
    if at(config, path) is None:
        return dict(config)
    left = {k: v for k, v in entries(at(config, path[:-1])).items() if k != path[-1]}
    return edited(config, Put(path[:-1], left)) if path[1:] else left


def removed(config: Mapping[str, Any], path: Path) -> Document:
    """Return a configuration without a path, and without what is empty thereby."""
    if at(config, path) is None:
        return dict(config)
    result = dropped(config, path)
    above = path[:-1]
    return result if not above or at(result, above) else removed(result, above)


def at(config: object, path: Path) -> object:
    """Return what is at a path; None: nothing is."""
    for key in path:
        config = entries(config).get(key)
    return config


def items(value: object) -> list[Any]:
    """Return a list as it is, and nothing of what is none."""
    return list(value) if is_list(value) else []


def entries(value: object) -> Mapping[str, Any]:
    """Return an object as it is, and nothing of what is none."""
    return value if is_object(value) else {}


def _with(config: Mapping[str, Any], path: Path, value: object) -> Document:
    head, *rest = path
    if rest:
        value = _with(entries(config.get(head)), tuple(rest), value)
    return {**config, head: value}
