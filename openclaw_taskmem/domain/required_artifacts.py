"""What a task is said to make: what its metadata and its caller name.

Source: requirement F2; ruling "`metadata.artifacts`".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import unquote

from pydantic import JsonValue

from openclaw_taskmem.domain.path_mentions import is_elsewhere
from openclaw_taskmem.domain.task_metadata import ARTIFACTS
from openclaw_taskmem.domain.texts import quote_line, to_plain_line
from taskmem_hookspecs import Claim, Task, Value

MOST: Final = 200
"""Things that are looked at for one task; who names more is refused."""

_SUM: Final = re.compile(r"[0-9a-f]{64}")
_URL: Final = re.compile(r"(?i)https?://")
_HOME: Final = re.compile(r"(?:/var)?/home/[^/]+/|/Users/[^/]+/|/root/")
"""What `~/` may mean."""
COMMAND: Final = "command"
"""The kind of a command that was recorded."""
ELSEWHERE: Final = "elsewhere"
"""The kind of what lies on another machine or service; nobody here looks at it."""


class RequiredArtifact(Value):
    """A thing that is to be there."""

    kind: str
    subject: str
    checksum: str | None = None
    """In lower case and without `sha256:`; else as it was given, see `find_fault`."""


def list_required_artifacts(task: Task, given: Sequence[str] = ()) -> tuple[RequiredArtifact, ...]:
    """Return what a task is to have made, each once: what it names itself comes first.

    `given` are named by the caller, and stand for what the task names by the end of
    their path.
    """
    own = [parse_required_artifact(each) for each in given]
    listed = [_resolve_subject(each, own) for each in read_metadata_artifacts(task.metadata)]
    return tuple(dict.fromkeys((*listed, *own)))


def find_fault(things: Sequence[RequiredArtifact]) -> str | None:
    """Return why things cannot be looked at, and what to do; None: they can be."""
    if len(things) > MOST:
        return (
            f"At most {MOST} things are looked at for one task, and {len(things)} are "
            "named; name fewer, such as one archive of them, in metadata "
            "(task_plan_update) and artifacts."
        )
    for thing in things:
        if thing.checksum is not None and not _SUM.fullmatch(thing.checksum):
            return (
                f"The checksum of {quote_line(to_plain_line(thing.subject), 160)} in metadata."
                f"{ARTIFACTS}, {quote_line(to_plain_line(thing.checksum), 80)}, is no SHA-256; "
                "give its 64 hexadecimal digits, or leave it out."
            )
    return None


def parse_required_artifact(text: str) -> RequiredArtifact:
    """Return what a text names: a URL, a recorded command, a file, or a place away.

    A file may be named by a path or by a URL of this machine, `file:///work/a.md`.
    """
    text = text.strip()
    if _URL.match(text):
        return RequiredArtifact(kind="url", subject=text)
    kind, _, rest = text.partition(":")
    if kind in (COMMAND, "pty") and rest:
        return RequiredArtifact(kind=COMMAND, subject=rest)
    if is_elsewhere(text):
        return RequiredArtifact(kind=ELSEWHERE, subject=text)
    return RequiredArtifact(kind="file", subject=_parse_path(text))


def read_metadata_artifacts(metadata: Mapping[str, JsonValue]) -> tuple[RequiredArtifact, ...]:
    """Return what the key `artifacts` names: texts, or objects with a subject."""
    listed = metadata.get(ARTIFACTS)
    items = listed if isinstance(listed, list) else [listed]
    return tuple(each for item in items if (each := _parse_item(item)) is not None)


def make_claim(
    thing: RequiredArtifact, task: Task, folder: str | None, roots: Sequence[str], now: datetime
) -> Claim:
    """Return what is to be checked of a thing that is to be there."""
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
        return parse_required_artifact(item)
    if not isinstance(item, dict):
        return None
    subject, kind = item.get("subject") or item.get("path"), item.get("kind", "file")
    checksum = item.get("checksum", item.get("sha256"))
    if not isinstance(subject, str) or not isinstance(kind, str) or not subject.strip():
        return None
    if kind == "file":
        subject = _parse_path(subject)
        kind = ELSEWHERE if is_elsewhere(subject) else kind
    proof = "" if checksum is None else str(checksum).strip().lower()
    return RequiredArtifact(
        kind=kind, subject=subject, checksum=proof.removeprefix("sha256:") or None
    )


def _parse_path(text: str) -> str:
    if not text.startswith("file:///"):
        return text
    return unquote(text.removeprefix("file://"))


def _resolve_subject(
    thing: RequiredArtifact, given: Sequence[RequiredArtifact]
) -> RequiredArtifact:
    """Return a thing of the task's at the place that its caller names for it."""
    for one in given:
        if _is_same_artifact(one, thing):
            return thing.model_copy(update={"subject": one.subject})
    return thing


def _is_same_artifact(given: RequiredArtifact, planned: RequiredArtifact) -> bool:
    """Whether what the caller names is what the task names, in full."""
    if given.kind != planned.kind:
        return False
    if planned.subject.startswith("~/"):
        home = _HOME.match(given.subject)
        return home is not None and given.subject[home.end() :] == planned.subject[2:]
    tail = planned.subject.removeprefix("./")
    # Of a name with spaces, a sentence gives only the last word.
    ends = (f"/{tail}", f" {tail}")
    return given.subject == planned.subject or given.subject.endswith(ends)
