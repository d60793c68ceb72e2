"""Limit the size of a task's metadata, and replace its artifacts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

ARTIFACTS: Final = "artifacts"
"""Key that names what a task makes."""
MOST_BYTES: Final = 65_536


def find_size_fault(text: str) -> str | None:
    """Return why a text is too long; None: it is not."""
    size = len(text.encode())
    if size <= MOST_BYTES:
        return None
    return (
        f"has {size:,} bytes, and at most {MOST_BYTES:,} are kept; "
        "shorten it, or put the long part into a file and name the file"
    )


def find_metadata_fault(metadata: Mapping[str, JsonValue]) -> str | None:
    """Return why a task's metadata cannot be stored; None: it can."""
    try:
        text = json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
    except ValueError:
        return "holds NaN or Infinity, which JSON does not know"
    return find_size_fault(text)


def replace_artifacts(
    metadata: Mapping[str, JsonValue], artifacts: Sequence[JsonValue]
) -> tuple[Mapping[str, JsonValue], str]:
    """Replace the artifacts in a task's metadata; return it and the thread's entry.

    The entry is empty if the artifacts are the same.
    """
    before, now = metadata.get(ARTIFACTS, []), list(artifacts)
    if before == now:
        return metadata, ""
    said = f"metadata.{ARTIFACTS} was {_format_value(before)}, and is {_format_value(now)}."
    return {**metadata, ARTIFACTS: now}, said


def _format_value(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
