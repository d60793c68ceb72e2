"""A task's own keys: how much of them is kept, and what says what the task makes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

ARTIFACTS: Final = "artifacts"
"""The key that names what a task makes."""
MOST_BYTES: Final = 65_536


def find_size_fault(text: str) -> str | None:
    """Return why a text is not kept; None: it is."""
    size = len(text.encode())
    if size <= MOST_BYTES:
        return None
    return (
        f"has {size:,} bytes, and at most {MOST_BYTES:,} are kept; "
        "shorten it, or put the long part into a file and name the file"
    )


def find_metadata_fault(metadata: Mapping[str, JsonValue]) -> str | None:
    """Return why a task's own keys are not kept; None: they are."""
    try:
        text = json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
    except ValueError:
        return "holds NaN or Infinity, which JSON does not know"
    return find_size_fault(text)


def replace_artifacts(
    metadata: Mapping[str, JsonValue], artifacts: Sequence[JsonValue]
) -> tuple[Mapping[str, JsonValue], str]:
    """Return the keys with other artifacts, and what a thread says of that.

    It says nothing where the same were named before.
    """
    before, now = metadata.get(ARTIFACTS, []), list(artifacts)
    if before == now:
        return metadata, ""
    said = f"metadata.{ARTIFACTS} was {_format_value(before)}, and is {_format_value(now)}."
    return {**metadata, ARTIFACTS: now}, said


def _format_value(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
