"""Read and set the fields of a run by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskmem_hookspecs import Run

Fields = Mapping[str, object]
"""Values by the names of fields of a run and of its parts."""

_PARTS: Final = {field: part for part, of in Run.PARTS.items() for field in of.model_fields}
"""The part that has a field, by the name of the field."""


def read_count(run: Run, name: str) -> int:
    """Return the number in a field of a run, or of one of its parts."""
    count: int = getattr(getattr(run, _PARTS[name]) if name in _PARTS else run, name)
    return count


def set_fields(run: Run, fields: Fields) -> Run:
    """Return a run with other values in some fields, which are not validated."""
    own: dict[str, object] = {}
    of_parts: dict[str, dict[str, object]] = {}
    for name, value in fields.items():
        changed = of_parts.setdefault(_PARTS[name], {}) if name in _PARTS else own
        changed[name] = value
    for part, changed in of_parts.items():
        own[part] = getattr(run, part).model_copy(update=changed)
    return run.model_copy(update=own)
