"""List what a task must have made, and build the claims to verify.

Source: docs/origins.md, "Proof of completion".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.tasks.artifact_names import (
    FILE_KIND,
    RequiredArtifact,
    parse_artifact,
    strip_wrapping,
)
from openclaw_taskmem.domain.tasks.path_mentions import list_path_ends
from openclaw_taskmem.domain.text.texts import quote_line, to_plain_line
from taskmem_hookspecs import Claim, Task

MOST_ARTIFACTS: Final = 200
"""Most artifacts that are checked for one task; more are refused."""

_SUM: Final = re.compile(r"[0-9a-f]{64}")
_SUBJECT_KEYS: Final = ("subject", "path", "file", "file_path", "url", "uri", "name")
_HOME: Final = re.compile(r"(?:/var)?/home/[^/]+/|/Users/[^/]+/|/root/")
"""Folders that `~/` may mean."""


def list_required_artifacts(task: Task, given: Sequence[str] = ()) -> tuple[RequiredArtifact, ...]:
    """List what a task must have made, each once; what its metadata names comes first.

    `given` are named by the caller, and replace those of the metadata with the same end of the
    path.
    """
    own = [parse_artifact(each) for each in given]
    listed = [_resolve_subject(each, own) for each in read_metadata_artifacts(task.metadata)]
    return tuple(dict.fromkeys((*listed, *own)))


def find_artifact_fault(things: Sequence[RequiredArtifact]) -> str | None:
    """Return why artifacts cannot be checked and what to do; None: they can."""
    if len(things) > MOST_ARTIFACTS:
        return (
            f"At most {MOST_ARTIFACTS} things are looked at for one task, and {len(things)} are "
            "named; name fewer, such as one archive of them, in metadata "
            "(task_plan_update) and artifacts."
        )
    for thing in things:
        if thing.checksum is not None and not _SUM.fullmatch(thing.checksum):
            return (
                f"The checksum of {quote_line(to_plain_line(thing.subject), 160)} in metadata."
                f"{lifecycle.ARTIFACTS}, {quote_line(to_plain_line(thing.checksum), 80)}, is no "
                "SHA-256; give its 64 hexadecimal digits, or leave it out."
            )
    return None


def read_metadata_artifacts(metadata: Mapping[str, JsonValue]) -> tuple[RequiredArtifact, ...]:
    """Read the metadata key `artifacts`: texts, or objects with a subject."""
    listed = metadata.get(lifecycle.ARTIFACTS)
    items = listed if isinstance(listed, list) else [listed]
    return tuple(each for item in items if (each := _parse_item(item)) is not None)


def make_claim(
    thing: RequiredArtifact, task: Task, folder: str | None, roots: Sequence[str], now: datetime
) -> Claim:
    """Build the claim to verify for an artifact."""
    return Claim(
        kind=thing.kind,
        subject=thing.subject,
        task_id=task.task_id,
        since=task.created_at,
        claimed_at=now,
        folder=folder,
        roots=tuple(roots),
        checksum=thing.checksum,
    )


def _parse_item(item: JsonValue) -> RequiredArtifact | None:
    if isinstance(item, str) and item.strip():
        return parse_artifact(item)
    if not isinstance(item, dict):
        return None
    subject = next((item[key] for key in _SUBJECT_KEYS if item.get(key)), None)
    kind, checksum = item.get("kind"), item.get("checksum", item.get("sha256"))
    if not isinstance(subject, str) or not subject.strip():
        return None
    proof = "" if checksum is None else str(checksum).strip().lower()
    named = {"checksum": proof.removeprefix("sha256:") or None}
    if isinstance(kind, str) and kind != FILE_KIND:
        return RequiredArtifact(kind=kind, subject=subject, **named)
    return parse_artifact(subject).model_copy(update=named)


def _resolve_subject(
    thing: RequiredArtifact, given: Sequence[RequiredArtifact]
) -> RequiredArtifact:
    """Replace an artifact's subject with the matching one that the caller named."""
    for one in given:
        planned, named = strip_wrapping(thing.subject), strip_wrapping(one.subject)
        if one.kind == thing.kind and _is_named_in_full(planned, named):
            return thing.model_copy(update={"subject": one.subject})
    return thing


def _is_named_in_full(planned: str, given: str) -> bool:
    """True if the caller's name is the task's, in full."""
    if planned.startswith("~/"):
        home = _HOME.match(given)
        return home is not None and given[home.end() :] == planned[2:]
    return given == planned or given.endswith(list_path_ends(planned))
