"""What a task made: the ledger's entries, and how they are judged and told.

The ledger is filled by what tools report and by looking at folders; nothing that an
agent says is entered as made. Source: requirement F2, seed 004 "Completion
Claim-Evidence Contract".
"""

from __future__ import annotations

import json
import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from pydantic import JsonValue

from openclaw_taskmem.domain.texts import clip_start, format_iso_millis, to_plain_line
from taskmem_hookspecs import (
    Claim,
    FileChange,
    Finding,
    LedgerEntry,
    LedgerVerdict,
    Value,
    Verdict,
    WorkFolder,
)

ARTIFACTS: Final = "artifacts"
NAMES: Final = "names"
CLAIMS: Final = "claims"
ANSWER: Final = "answer"
"""What a task's `doubts` hold: what its completion was refused for, and whether its
first answer after that was looked up."""
STAMP_SLACK: Final = 10_000_000
"""How far a stamp may lie before the instant it stands for, in nanoseconds."""
SHOWN: Final = 50
"""Entries that an answer holds; `taskmem show --json` has all."""
TOLD: Final = 5
"""Names in a line for the user."""
NAME_BYTES: Final = 60
NOWHERE: Final = "It was found nowhere: not among what was seen to be made, nor in its folders."
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class CheckedClaim(Value):
    """A claim, and what all verifiers together found."""

    claim: Claim
    finding: Finding

    @property
    def is_proved(self) -> bool:
        """Whether it was looked at and is there."""
        return self.finding.verdict is Verdict.VERIFIED


class FileTimes(NamedTuple):
    """A file's instants in nanoseconds since 1970, and its size in bytes."""

    written: int
    """When its content changed last (mtime)."""
    changed: int
    """When its content, name or mode changed last (ctime); only the kernel sets it."""
    size: int


class FolderListing(NamedTuple):
    """The files of a folder."""

    files: Mapping[str, FileTimes]
    """By their paths, relative to the folder."""
    complete: bool
    """Whether that is all; False: there are too many, it took too long, or a name is
    no text."""


class FileTouch(Value):
    """What a tool reports to have done to a file."""

    path: str
    """Absolute."""
    change: FileChange


def pack_files(listing: FolderListing) -> str:
    """Return the files of a folder as they are kept: when written, and how large."""
    kept = {path: (each.written, each.size) for path, each in listing.files.items()}
    return b85encode(zlib.compress(json.dumps(kept).encode(), 1)).decode()


def unpack_files(files: str) -> Mapping[str, tuple[int, int]]:
    """Return what `pack_files` has packed."""
    kept = json.loads(zlib.decompress(b85decode(files)))
    return {path: (written, size) for path, (written, size) in kept.items()}


def merge_entry(before: LedgerEntry | None, new: LedgerEntry) -> LedgerEntry:
    """Return the entry of a path after a further change of it."""
    if before is None or before.change is None:
        return new
    created = before.change is FileChange.CREATED
    return new.model_copy(
        update={
            "change": before.change if created else new.change,
            "call_id": new.call_id or before.call_id,
            "size": before.size if new.size is None else new.size,
        }
    )


def find_changes(
    folder: WorkFolder,
    before: Mapping[str, tuple[int, int]] | None,
    listing: FolderListing,
    exists: Iterable[str],
) -> Iterator[tuple[str, FileChange, FileTimes | None]]:
    """Yield what changed in a folder since the first command ran there.

    Args:
        folder: Which one.
        before: Its files before the work; None: not known.
        listing: Its files now.
        exists: Of the files before that are not listed now, those that are still there.
    """
    if folder.since is None:
        return
    since = to_nanoseconds(folder.since) - STAMP_SLACK
    for path, now in listing.files.items():
        known = None if before is None else before.get(path)
        written = since <= now.written <= now.changed
        if now.changed < since or not (written or before is not None):
            continue
        if known is None:
            yield path, FileChange.CREATED, now
        elif written or known != (now.written, now.size):
            yield path, FileChange.CHANGED, now
    if before is not None and listing.complete:
        for path in before.keys() - listing.files.keys() - set(exists):
            yield path, FileChange.REMOVED, None


def to_nanoseconds(instant: datetime) -> int:
    """Return an instant in nanoseconds since 1970."""
    return (instant - _EPOCH) // timedelta(microseconds=1) * 1000


def from_nanoseconds(nanosecond: int) -> datetime:
    """Return the instant of nanoseconds since 1970, rounded down to microseconds."""
    return _EPOCH + timedelta(microseconds=nanosecond // 1000)


def list_path_ends(name: str) -> tuple[str, str]:
    """Return how a path ends that a relative name may stand for.

    Of a name with spaces, a sentence gives only the last word.
    """
    end = name.removeprefix("./")
    return f"/{end}", f" {end}"


def judge_entry(entry: LedgerEntry, checked: CheckedClaim) -> LedgerEntry:
    """Return an entry with what was seen of its file."""
    found = checked.finding
    verdict = find_verdict(checked)
    return entry.model_copy(
        update={
            "verdict": verdict,
            "why": None if verdict is LedgerVerdict.PROVED else found.detail,
            "size": found.size if found.size is not None else entry.size,
            "sha256": found.checksum,
        }
    )


def find_verdict(checked: CheckedClaim) -> LedgerVerdict:
    """Return what was seen of a file: a size of 0 is empty, none is absent."""
    match checked.finding.verdict:
        case Verdict.VERIFIED:
            return LedgerVerdict.PROVED
        case Verdict.UNPROVEN:
            return LedgerVerdict.UNVERIFIED
        case Verdict.REFUTED:
            size = checked.finding.size
            if size is None:
                return LedgerVerdict.ABSENT
            return LedgerVerdict.OLD if size else LedgerVerdict.EMPTY


def build_unverified_entries(
    task_id: str, run_id: str | None, whys: Mapping[str, str], now: datetime
) -> tuple[LedgerEntry, ...]:
    """Return the entries of what was named, and could not be verified."""
    return tuple(
        LedgerEntry(
            task_id=task_id,
            path=what,
            run_id=run_id,
            at=now,
            verdict=LedgerVerdict.UNVERIFIED,
            why=why,
        )
        for what, why in whys.items()
    )


def list_made(entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """Return the entries of what was made, changed or removed."""
    return [entry for entry in entries if entry.change is not None]


def list_unverified(entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """Return the entries of what could not be verified."""
    return [each for each in entries if each.verdict is LedgerVerdict.UNVERIFIED]


def describe_ledger(
    entries: Sequence[LedgerEntry], most: int | None = None
) -> dict[str, JsonValue]:
    """Return the fields of an answer that say what was made; `most`: None for all."""
    listed, doubtful = list_made(entries), list_unverified(entries)
    fields: dict[str, JsonValue] = {
        "made": [_describe_entry(entry) for entry in listed[:most]],
        "unverified": [{"what": e.path, "why": e.why} for e in doubtful[:most]],
    }
    if most is not None and len(listed) > most:
        fields["made_more"] = len(listed) - most
    if most is not None and len(doubtful) > most:
        fields["unverified_more"] = len(doubtful) - most
    return fields


def _describe_entry(entry: LedgerEntry) -> JsonValue:
    return {
        "path": entry.path,
        "change": entry.change,
        "size": entry.size,
        "sha256": entry.sha256,
        "at": format_iso_millis(entry.at),
        "verdict": entry.verdict or LedgerVerdict.UNVERIFIED,
    }


def summarize_ledger(entries: Sequence[LedgerEntry], *, nothing: str) -> str:
    """Return for an agent what was made, and what could not be verified.

    `nothing`: the words that nothing was made; empty: something was.
    """
    said = [nothing or format_made(entries, {}), format_unverified(entries, {})]
    return " ".join(f"{each[0].upper()}{each[1:]}." for each in said if each)


def format_nothing_made(
    passed: Sequence[str], home: str, looked: Sequence[str] | None = None
) -> str:
    """Return that nothing was made; `passed` are folders not looked through.

    `looked` are those that were, where nobody sees what tools write; None: it is seen.
    """
    if looked is not None:
        where = f" in {_join_names([*map(to_plain_line, looked)])}" if looked else ""
        return f"nothing was seen to be written{where}"
    if not passed:
        return "nothing was written"
    names = ["the home folder" if path == home else to_plain_line(path) for path in passed]
    verb = "is" if len(names) == 1 else "are"
    return f"nothing was seen to be written ({_join_names(names)} {verb} not looked through)"


def format_made(entries: Sequence[LedgerEntry], folders: Mapping[str, str]) -> str:
    """Return what was made, for the user; empty: nothing.

    `folders` are those that paths begin with, and what is shown for each. What was
    made and removed again is told where there is nothing else.
    """
    listed = [e for e in list_made(entries) if e.verdict is not LedgerVerdict.UNVERIFIED]
    gone = [e for e in listed if e.change is FileChange.REMOVED]
    again = [e for e in listed if e.verdict is LedgerVerdict.ABSENT]
    kept = [e for e in listed if e not in gone and e not in again]
    parts = [("made", kept), ("removed", gone)]
    if len(again) == len(listed):
        parts = [("made and removed again", again)]
    return "; ".join(
        f"{word}: {_join_names([_format_short_path(e, folders) for e in some])}"
        for word, some in parts
        if some
    )


def format_unverified(entries: Sequence[LedgerEntry], folders: Mapping[str, str]) -> str:
    """Return what could not be verified, for the user; empty: nothing."""
    names = [_format_short_path(entry, folders) for entry in list_unverified(entries)]
    return f"not verified: {_join_names(names)}" if names else ""


def _format_short_path(entry: LedgerEntry, folders: Mapping[str, str]) -> str:
    inside = [f for f in folders if entry.path.startswith(f"{f.rstrip('/')}/")]
    root = max(inside, key=len, default="")
    rest = entry.path.removeprefix(f"{root.rstrip('/')}/")
    name = f"{folders[root]}{rest}" if root else entry.path
    empty = " (empty)" if entry.verdict is LedgerVerdict.EMPTY else ""
    return f"{clip_start(to_plain_line(name), NAME_BYTES)}{empty}"


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return f"{', '.join(names[:TOLD])}{more}"
