"""List what a task must have made, and say what it made, what was tested, and what is only claimed.

Task memory tests that a thing exists and changed during the task. It never judges the content.

Source: docs/origins.md, "Proof of completion".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final
from urllib.parse import unquote

from pydantic import JsonValue

from openclaw_taskmem.domain.tasks.lifecycle import ARTIFACTS
from openclaw_taskmem.domain.text.path_mentions import is_elsewhere
from openclaw_taskmem.domain.text.texts import (
    clip,
    clip_start,
    format_checksum,
    format_size,
    quote_line,
    to_plain_line,
)
from taskmem_hookspecs import (
    Artifact,
    Claim,
    FileChange,
    LedgerEntry,
    LedgerVerdict,
    Task,
    Value,
    Verdict,
)
from taskmem_hookspecs.model import Instant

MOST_ARTIFACTS: Final = 200
"""Most artifacts that are checked for one task; more are refused."""

_SUM: Final = re.compile(r"[0-9a-f]{64}")
_URL: Final = re.compile(r"(?i)https?://")
_HOME: Final = re.compile(r"(?:/var)?/home/[^/]+/|/Users/[^/]+/|/root/")
"""Folders that `~/` may mean."""
COMMAND_KIND: Final = "command"
"""Kind of a recorded command."""
ELSEWHERE_KIND: Final = "elsewhere"
"""Kind of an artifact on another machine or service; no verifier checks it."""


class RequiredArtifact(Value):
    """An artifact that must exist."""

    kind: str
    subject: str
    checksum: str | None = None
    """In lower case without `sha256:` if valid, else as given; see `find_artifact_fault`."""


def list_required_artifacts(task: Task, given: Sequence[str] = ()) -> tuple[RequiredArtifact, ...]:
    """List what a task must have made, each once; what its metadata names comes first.

    `given` are named by the caller, and replace those of the metadata with the same end of the
    path.
    """
    own = [_parse_required_artifact(each) for each in given]
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
                f"{ARTIFACTS}, {quote_line(to_plain_line(thing.checksum), 80)}, is no SHA-256; "
                "give its 64 hexadecimal digits, or leave it out."
            )
    return None


def _parse_required_artifact(text: str) -> RequiredArtifact:
    """Parse an artifact: a URL, a recorded command, a file, or something on another machine.

    A file may be a path or a URL of this machine, `file:///work/a.md`.
    """
    text = text.strip()
    if _URL.match(text):
        return RequiredArtifact(kind="url", subject=text)
    kind, _, rest = text.partition(":")
    if kind in (COMMAND_KIND, "pty") and rest:
        return RequiredArtifact(kind=COMMAND_KIND, subject=rest)
    if is_elsewhere(text):
        return RequiredArtifact(kind=ELSEWHERE_KIND, subject=text)
    return RequiredArtifact(kind="file", subject=_parse_path(text))


def read_metadata_artifacts(metadata: Mapping[str, JsonValue]) -> tuple[RequiredArtifact, ...]:
    """Read the metadata key `artifacts`: texts, or objects with a subject."""
    listed = metadata.get(ARTIFACTS)
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
        return _parse_required_artifact(item)
    if not isinstance(item, dict):
        return None
    subject, kind = item.get("subject") or item.get("path"), item.get("kind", "file")
    checksum = item.get("checksum", item.get("sha256"))
    if not isinstance(subject, str) or not isinstance(kind, str) or not subject.strip():
        return None
    if kind == "file":
        subject = _parse_path(subject)
        kind = ELSEWHERE_KIND if is_elsewhere(subject) else kind
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
    """Replace an artifact's subject with the matching one that the caller named."""
    for one in given:
        if _is_same_artifact(one, thing):
            return thing.model_copy(update={"subject": one.subject})
    return thing


def _is_same_artifact(given: RequiredArtifact, planned: RequiredArtifact) -> bool:
    """True if the caller's artifact is the task's, named in full."""
    if given.kind != planned.kind:
        return False
    if planned.subject.startswith("~/"):
        home = _HOME.match(given.subject)
        return home is not None and given.subject[home.end() :] == planned.subject[2:]
    tail = planned.subject.removeprefix("./")
    # Only the last word of a name with spaces is taken from a sentence.
    ends = (f"/{tail}", f" {tail}")
    return given.subject == planned.subject or given.subject.endswith(ends)


# --- proofs -------------------------------------------------------------------


MOST_NAMED: Final = 3
"""Most things that a summary names."""
NAME_BYTES: Final = 60
_MEANWHILE_SENTENCE: Final = (
    "{} in a folder of the task; no call of its agent was seen to do that, nor did it name the file"
)


class ProofStanding(StrEnum):
    """How far a thing is proved."""

    CHECKED = "checked"
    """Task memory tested it, and it is as `tested` says."""
    REMOVED = "removed"
    """Task memory saw that it is not there any more, as the task removed it."""
    REFUTED = "refuted"
    """Task memory tested it, and it is not there, is empty, or is too old."""
    CLAIMED = "not verified"
    """Somebody named it, and it could not be tested."""
    UNCHECKED = "not checked yet"
    """A tool changed it; it is tested when the task is completed."""
    NEARBY = "changed meanwhile"
    """Something changed in a folder of the task, and nothing says that the agent did that."""


class Proof(Value):
    """One thing that a task made or names, and what is known of it."""

    what: str
    """Its path, the name of a recorded command, or its address."""
    standing: ProofStanding
    tested: str
    """The test and its result, or why there was none, in a few words."""
    size: int | None = None
    """Bytes; None: unknown, or it has no content."""
    sha256: str | None = None
    looked_at: Instant | None = None
    """When Task memory looked at it; None: it did not."""
    is_file: bool = True

    @property
    def is_checked_file(self) -> bool:
        """True if it is a file that was tested, and is there."""
        return self.is_file and self.standing is ProofStanding.CHECKED


_STANDINGS: Final = {
    LedgerVerdict.PROVED: ProofStanding.CHECKED,
    LedgerVerdict.UNVERIFIED: ProofStanding.CLAIMED,
    None: ProofStanding.UNCHECKED,
}
_REMOVALS: Final = (
    (FileChange.REMOVED, LedgerVerdict.PROVED),
    (FileChange.CREATED, LedgerVerdict.ABSENT),
)
"""Removed, and made and removed again."""
_OF_ARTIFACT: Final = {
    Verdict.VERIFIED: ProofStanding.CHECKED,
    Verdict.REFUTED: ProofStanding.REFUTED,
    Verdict.UNPROVEN: ProofStanding.CLAIMED,
}
_NOT_LOOKED_AT: Final = (*(ProofStanding.CLAIMED, ProofStanding.UNCHECKED, ProofStanding.NEARBY),)
_CHANGES: Final = {
    FileChange.CREATED: "exists, created during the task",
    FileChange.CHANGED: "exists, changed during the task",
    FileChange.REMOVED: "is gone, removed during the task",
}


def list_proofs(entries: Iterable[LedgerEntry], artifacts: Iterable[Artifact]) -> Sequence[Proof]:
    """Return what a task made or names: what was tested first, then what is only claimed.

    `artifacts` are the findings about the same files, and about commands and addresses.
    """
    found = {made.subject: made for made in artifacts}
    newest = max((made.checked_at for made in found.values()), default=None)
    proofs = [_describe_entry(entry, found.pop(entry.path, None)) for entry in entries]
    # What an earlier completion named, and the newest does not any more, is left out.
    proofs += [_describe_artifact(made) for made in found.values() if made.checked_at == newest]
    order = [*ProofStanding]
    return sorted(proofs, key=lambda proof: (order.index(proof.standing), proof.what))


def describe_checks(proofs: Sequence[Proof]) -> str:
    """Say what exactly was checked, for the first things; empty: nothing was."""
    checked = [each for each in proofs if each.standing is ProofStanding.CHECKED]
    descriptions = [_describe_check(each) for each in checked[:MOST_NAMED]]
    more = f"and {len(checked) - MOST_NAMED} more" if len(checked) > MOST_NAMED else ""
    return "; ".join(filter(None, (*descriptions, more)))


def _describe_check(proof: Proof) -> str:
    checksum = f", {format_checksum(proof.sha256)}" if proof.sha256 and proof.is_file else ""
    stop = "" if proof.is_file else ":"
    tested = proof.tested.rstrip(".")
    return f"{_name_briefly(proof)}{stop} {tested}{checksum}"


def summarize_proofs(proofs: Sequence[Proof]) -> tuple[str, str]:
    """Return what was made and how far it was tested, and what is not proved; each may be empty."""
    names = {
        standing: _join_names([each for each in proofs if each.standing is standing])
        for standing in ProofStanding
    }
    files = _join_names([each for each in proofs if each.is_checked_file])
    others = [each for each in proofs if each.standing is ProofStanding.CHECKED]
    others = [each for each in others if not each.is_file]
    made = [
        f"made {files}, seen to exist" if files else "",
        f"checked {_join_names(others)}" if others else "",
        f"made so far {names[ProofStanding.UNCHECKED]}, not checked yet"
        if names[ProofStanding.UNCHECKED]
        else "",
    ]
    if names[ProofStanding.REMOVED]:
        made.append(f"removed {names[ProofStanding.REMOVED]}")
    if not any(made) and names[ProofStanding.NEARBY]:
        made.append(
            "nothing was seen to be made; also changed in its folders meanwhile: "
            f"{names[ProofStanding.NEARBY]}"
        )
    doubts = [
        f"{standing}: {names[standing]}"
        for standing in (ProofStanding.REFUTED, ProofStanding.CLAIMED)
        if names[standing]
    ]
    return "; ".join(filter(None, made)), "; ".join(doubts)


def _describe_entry(entry: LedgerEntry, finding: Artifact | None) -> Proof:
    standing = _find_standing(entry)
    if standing is ProofStanding.NEARBY:
        tested = _MEANWHILE_SENTENCE.format(entry.change)
    elif entry.verdict is LedgerVerdict.PROVED:
        size = None if entry.size is None else format_size(entry.size)
        change = _CHANGES[entry.change or FileChange.CHANGED]
        tested = ", ".join(filter(None, (change, size)))
    elif standing is ProofStanding.UNCHECKED:
        tested = f"{entry.change or 'named'} by a tool; it is tested when the task is completed"
    else:
        tested = entry.why or str(entry.verdict)
    looked = standing not in _NOT_LOOKED_AT
    return Proof(
        what=entry.path,
        standing=standing,
        tested=to_plain_line(tested),
        size=entry.size,
        sha256=entry.sha256,
        looked_at=(finding.checked_at if finding else entry.at) if looked else None,
    )


def _find_standing(entry: LedgerEntry) -> ProofStanding:
    if entry.nearby:
        return ProofStanding.NEARBY
    if (entry.change, entry.verdict) in _REMOVALS:
        return ProofStanding.REMOVED
    return _STANDINGS.get(entry.verdict, ProofStanding.REFUTED)


def _describe_artifact(made: Artifact) -> Proof:
    standing = _OF_ARTIFACT[made.verdict]
    return Proof(
        what=made.subject,
        standing=standing,
        tested=to_plain_line(made.detail),
        size=made.size,
        sha256=made.checksum,
        looked_at=None if standing is ProofStanding.CLAIMED else made.checked_at,
        is_file=made.kind == "file",
    )


def _join_names(proofs: Sequence[Proof]) -> str:
    named = ", ".join(map(_name_briefly, proofs[:MOST_NAMED]))
    more = f" and {len(proofs) - MOST_NAMED} more" if len(proofs) > MOST_NAMED else ""
    return f"{named}{more}"


def _name_briefly(proof: Proof) -> str:
    """Name a file without its folder; anything else as it is."""
    what = to_plain_line(proof.what)
    if not proof.is_file:
        return clip(what, NAME_BYTES)
    return clip_start(what.rstrip("/").rpartition("/")[2] or what, NAME_BYTES)
