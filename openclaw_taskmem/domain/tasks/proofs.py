"""Say how far each thing that a task made or names is proved.

Source: docs/origins.md, "Proof of completion".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain.tasks.ledger import NAME_BYTES, join_names, list_last_checked
from openclaw_taskmem.domain.text.texts import (
    clip,
    clip_start,
    format_checksum,
    format_size,
    to_plain_line,
)
from taskmem_hookspecs import Artifact, FileChange, LedgerEntry, LedgerVerdict, Value, Verdict
from taskmem_hookspecs.model import Instant

MOST_NAMED_PROOFS: Final = 3
"""Most things that a summary names."""
_MOST_FOLDERS: Final = 5
"""Folders that tell files of one name apart, at most."""
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
_ARTIFACT_STANDINGS: Final = {
    Verdict.VERIFIED: ProofStanding.CHECKED,
    Verdict.REFUTED: ProofStanding.REFUTED,
    Verdict.UNPROVEN: ProofStanding.CLAIMED,
}
_UNSEEN_STANDINGS: Final = (ProofStanding.CLAIMED, ProofStanding.UNCHECKED, ProofStanding.NEARBY)
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
    last = list_last_checked(found.values())
    proofs = [_build_entry_proof(entry, found.pop(entry.path, None)) for entry in entries]
    proofs += [_build_artifact_proof(made) for made in last if made.subject in found]
    order = [*ProofStanding]
    return sorted(proofs, key=lambda proof: (order.index(proof.standing), proof.what))


def describe_checks(proofs: Sequence[Proof]) -> str:
    """Say what exactly was checked, for the first things; empty: nothing was."""
    checked = [each for each in proofs if each.standing is ProofStanding.CHECKED]
    descriptions = [_describe_check(each) for each in checked[:MOST_NAMED_PROOFS]]
    more = (
        f"and {len(checked) - MOST_NAMED_PROOFS} more" if len(checked) > MOST_NAMED_PROOFS else ""
    )
    return "; ".join(filter(None, (*descriptions, more)))


def _describe_check(proof: Proof) -> str:
    checksum = f", {format_checksum(proof.sha256)}" if proof.sha256 and proof.is_file else ""
    stop = "" if proof.is_file else ":"
    tested = proof.tested.rstrip(".")
    return f"{_name_briefly(proof)}{stop} {tested}{checksum}"


def summarize_proofs(proofs: Sequence[Proof], *, refuted: bool = True) -> tuple[str, str]:
    """Return what was made and how far it was tested, and what is not proved; each may be empty.

    `refuted`: False if what was refuted is told already.
    """
    apart = _name_apart(proofs)

    def join(some: Iterable[Proof]) -> str:
        return join_names([apart[each.what] for each in some], MOST_NAMED_PROOFS)

    names = {
        standing: join(each for each in proofs if each.standing is standing)
        for standing in ProofStanding
    }
    files = join(each for each in proofs if each.is_checked_file)
    others = [each for each in proofs if each.standing is ProofStanding.CHECKED]
    others = [each for each in others if not each.is_file]
    made = [
        f"made {files}, seen to exist" if files else "",
        f"checked {join(others)}" if others else "",
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
        if names[standing] and (refuted or standing is not ProofStanding.REFUTED)
    ]
    return "; ".join(filter(None, made)), "; ".join(doubts)


def _build_entry_proof(entry: LedgerEntry, finding: Artifact | None) -> Proof:
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
    looked = standing not in _UNSEEN_STANDINGS
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


def _build_artifact_proof(made: Artifact) -> Proof:
    standing = _ARTIFACT_STANDINGS[made.verdict]
    return Proof(
        what=made.subject,
        standing=standing,
        tested=to_plain_line(made.detail),
        size=made.size,
        sha256=made.checksum,
        looked_at=None if standing is ProofStanding.CLAIMED else made.checked_at,
        is_file=made.kind == "file",
    )


def _name_apart(proofs: Iterable[Proof]) -> dict[str, str]:
    """Return a name for each thing by `what`: files of one name have as many folders as differ."""
    files = {each.what: each for each in proofs}
    names = {what: _name_briefly(each) for what, each in files.items()}
    for folders in range(1, _MOST_FOLDERS):
        shared = {name for name, count in Counter(names.values()).items() if count > 1}
        if not shared:
            break
        names |= {
            what: _name_briefly(each, folders)
            for what, each in files.items()
            if names[what] in shared
        }
    return names


def _name_briefly(proof: Proof, folders: int = 0) -> str:
    """Name a file with its last `folders`, by default without any; anything else as it is."""
    what = to_plain_line(proof.what)
    if not proof.is_file:
        return clip(what, NAME_BYTES)
    parts = what.rstrip("/").split("/")
    return clip_start("/".join(parts[-1 - folders :]) or what, NAME_BYTES)
