"""Edits of a configuration as values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from taskmem_openclaw.setup.merge_patches import Document, is_list, is_object

Path = tuple[str, ...]


class ValueEdit(NamedTuple):
    """Set the value at a path."""

    path: Path
    value: object


class ListEdit(NamedTuple):
    """Remove words from a list and add others; a missing list is created."""

    path: Path
    added: tuple[str, ...]
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConfigChange:
    """One change, with everything that the person who is asked must know."""

    what: str
    gives: str
    """What the change gives and what it costs; the text follows the word "gives"."""
    edits: tuple[ValueEdit | ListEdit, ...]
    without: str = ""
    """What happens if the change is refused; empty: the change is needed."""
    leaves: str = ""
    """Which data leaves this machine through the change, and to whom; empty: none."""
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
    left = [each for each in to_list(find_value(config, edit.path)) if each not in edit.dropped]
    left += [word for word in edit.added if word not in left]
    return _set_value(config, edit.path, left)


def drop_path(config: Mapping[str, Any], path: Path) -> Document:
    """Return the configuration without a path; emptied parents stay."""
    if find_value(config, path) is None:
        return dict(config)
    left = {k: v for k, v in to_object(find_value(config, path[:-1])).items() if k != path[-1]}
    return apply_edit(config, ValueEdit(path[:-1], left)) if path[1:] else left


def remove_path(config: Mapping[str, Any], path: Path) -> Document:
    """Return the configuration without a path and without parents that become empty."""
    if find_value(config, path) is None:
        return dict(config)
    result = drop_path(config, path)
    above = path[:-1]
    return result if not above or find_value(result, above) else remove_path(result, above)


def find_value(config: object, path: Path) -> object:
    """Return the value at a path; None: there is none."""
    for key in path:
        config = to_object(config).get(key)
    return config


def to_list(value: object) -> list[Any]:
    """Return a list as it is; anything else as an empty list."""
    return list(value) if is_list(value) else []


def to_object(value: object) -> Mapping[str, Any]:
    """Return an object as it is; anything else as an empty object."""
    return value if is_object(value) else {}


def _set_value(config: Mapping[str, Any], path: Path, value: object) -> Document:
    head, *rest = path
    if rest:
        value = _set_value(to_object(config.get(head)), tuple(rest), value)
    return {**config, head: value}
