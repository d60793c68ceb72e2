"""Keep the ledger of what a task made, and describe it.

Entries of the ledger come from what tools report and from comparing folders, never from what an
agent says. What only changed in a folder counts as made if a command of the agent ran then, or
the agent names it. Task memory tests that a thing exists and changed during the task; it never
judges the content.

Source: docs/origins.md, "Proof of completion".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from pydantic import JsonValue

from openclaw_taskmem.domain.text.texts import clip_start, format_iso_millis, to_plain_line
from taskmem_hookspecs import (
    Artifact,
    Claim,
    FileChange,
    Finding,
    LedgerEntry,
    LedgerVerdict,
    Value,
    Verdict,
    WorkFolder,
)

STAMP_SLACK: Final = 10_000_000
"""How far a file's time may lie before the actual instant, in nanoseconds."""
MOST_ENTRIES: Final = 50
"""Most entries in an answer; `taskmem show --json` has all."""
_MOST_NAMES: Final = 5
"""Most names in a line for the user."""
MOST_SUMS: Final = 50
"""Most folders by which files of a kind are summed up."""
UNREAD_SENTENCE: Final = "More files were made than are read, and this one was not read."
NAME_BYTES: Final = 60
_NEARBY_PREFIX: Final = "also changed in its folders meanwhile, and named by nobody"
NOWHERE_SENTENCE: Final = (
    "It was found nowhere: not among what was seen to be made, nor in its folders."
)
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class CheckedClaim(Value):
    """A claim with the combined finding of all verifiers."""

    claim: Claim
    finding: Finding

    @property
    def is_proved(self) -> bool:
        """True if it was verified."""
        return self.finding.verdict is Verdict.VERIFIED


class FileTimes(NamedTuple):
    """A file's times in nanoseconds since 1970, and its size in bytes."""

    written: int
    """Last change of its content (mtime)."""
    changed: int
    """Last change of its content, name or mode (ctime); only the kernel sets it."""
    size: int
    born: int | None = None
    """Its creation; None: unknown."""


class FolderListing(NamedTuple):
    """The files of a folder."""

    names: frozenset[str]
    """All their paths, relative to the folder."""
    changed: Mapping[str, FileTimes]
    """Those that may have been changed by the work, by path."""
    complete: bool
    """True if all files are listed; False: there are too many, it took too long, or a name is not
    text."""


class FileTouch(Value):
    """A change of a file that a tool reported."""

    path: str
    """Absolute path."""
    change: FileChange


def merge_entry(before: LedgerEntry | None, new: LedgerEntry) -> LedgerEntry:
    """Merge a further change of a path into its entry.

    A path that was created stays created, even if it is changed or removed afterwards.
    """
    if before is None or before.change is None:
        return new
    created = before.change is FileChange.CREATED
    return new.model_copy(
        update={
            "change": before.change if created else new.change,
            "nearby": before.nearby and new.nearby,
            "call_id": new.call_id or before.call_id,
            "size": before.size if new.size is None else new.size,
        }
    )


def sum_up_entries(entries: Iterable[LedgerEntry]) -> dict[str, LedgerEntry]:
    """Record entries of files that nobody reads, by path: many are summed up by their folders.

    The path of a sum ends in a slash. Up to `MOST_SUMS` entries, and one that is alone in its
    folder, stay as they are; those of the agent, and those nearby, for themselves.
    """
    groups = defaultdict[str, list[LedgerEntry]](list)
    every = [*entries]
    for is_nearby in (False, True):
        some = [each for each in every if each.nearby is is_nearby]
        depth = _find_depth(some) if len(some) > MOST_SUMS else None
        for each in some:
            parts = each.path.split("/")[:-1]
            groups[each.path if depth is None else "/".join((*parts[:depth], ""))].append(each)
    sums = (_sum_up_folder(folder, files) for folder, files in groups.items())
    return {each.path: each for each in sums}


def _find_depth(entries: Sequence[LedgerEntry]) -> int:
    """Return how deep folders are told apart, so that there are at most `MOST_SUMS` of them."""
    folders = [each.path.split("/")[:-1] for each in entries]
    depth = max(map(len, folders))
    while depth > 1 and len({tuple(parts[:depth]) for parts in folders}) > MOST_SUMS:
        depth -= 1
    return depth


def _sum_up_folder(folder: str, files: Sequence[LedgerEntry]) -> LedgerEntry:
    entry, *more = files
    unread: dict[str, object] = {"verdict": LedgerVerdict.UNVERIFIED, "why": UNREAD_SENTENCE}
    if more:
        changes = {each.change for each in files}
        calls = {each.call_id for each in files}
        unread |= {
            "path": folder,
            "change": changes.pop() if len(changes) == 1 else FileChange.CHANGED,
            "call_id": calls.pop() if len(calls) == 1 else None,
            "at": max(each.at for each in files),
            "size": None,
            "nearby": all(each.nearby for each in files),
            "why": f"{len(files):,} more files in it were made, changed or removed; "
            "they were not looked at one by one.",
        }
    return entry.model_copy(update=unread)


def drop_summed_entries(
    found: Mapping[str, LedgerEntry], known: Mapping[str, LedgerEntry]
) -> dict[str, LedgerEntry]:
    """Return what was found and is not in `known`, by its own path or within a sum of it."""
    sums = {path: each.at for path, each in known.items() if is_sum(path)}
    return {
        path: each
        for path, each in found.items()
        if path not in known
        and not any(path.startswith(folder) and each.at <= at for folder, at in sums.items())
    }


def is_sum(path: str) -> bool:
    """Tell whether an entry of this path stands for many files of a folder."""
    return path.endswith("/")


def find_changes(
    folder: WorkFolder,
    before: frozenset[str] | None,
    listing: FolderListing,
    exists: Iterable[str],
) -> Iterator[tuple[str, FileChange, FileTimes | None]]:
    """Yield what changed in a folder since the first command ran there.

    A file counts if it was written or born since; if the folder did not have it before, also if it
    only came there since, as by `mv`. What only got another mode or link does not.

    Args:
        folder: The folder.
        before: The names of its files before the work; None: not known, so that no file is known to
        be removed, and only the birth of one tells that it is new.
        listing: Its files now.
        exists: Files of `before` that are not listed now, and yet were not removed since.
    """
    if folder.since is None:
        return
    since = to_nanoseconds(folder.since) - STAMP_SLACK
    for path, now in listing.changed.items():
        if now.changed < since:
            continue
        written = since <= now.written <= now.changed
        born = now.born is not None and now.born >= since
        is_new = (born or now.born is None) if before is None else path not in before
        if written or born or (before is not None and is_new):
            yield path, FileChange.CREATED if is_new else FileChange.CHANGED, now
    if before is not None and listing.complete:
        for path in before - listing.names - set(exists):
            yield path, FileChange.REMOVED, None


def to_nanoseconds(instant: datetime) -> int:
    """Convert an instant to nanoseconds since 1970."""
    return (instant - _EPOCH) // timedelta(microseconds=1) * 1000


def from_nanoseconds(nanosecond: int) -> datetime:
    """Convert nanoseconds since 1970 to an instant, rounded down to microseconds."""
    return _EPOCH + timedelta(microseconds=nanosecond // 1000)


def judge_entry(entry: LedgerEntry, checked: CheckedClaim) -> LedgerEntry:
    """Add a verifier's finding about the file to an entry."""
    found = checked.finding
    verdict = _find_verdict(checked)
    return entry.model_copy(
        update={
            "verdict": verdict,
            "why": None if verdict is LedgerVerdict.PROVED else found.detail,
            "size": found.size if found.size is not None else entry.size,
            "sha256": found.checksum,
        }
    )


def _find_verdict(checked: CheckedClaim) -> LedgerVerdict:
    """Return the verdict on a file.

    A refuted file without a size is absent, one of 0 bytes empty, any other old.
    """
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
    """Build the entries of what was named but could not be verified."""
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
    """List the entries of what its agent created, changed or removed."""
    return [entry for entry in entries if entry.change is not None and not entry.nearby]


def _list_nearby(entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """List the entries of what only changed in a folder of the task meanwhile; sums come first."""
    nearby = [entry for entry in entries if entry.nearby]
    return sorted(nearby, key=lambda entry: not is_sum(entry.path))


def _list_unverified(entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """List the entries of what could not be verified."""
    return [e for e in entries if e.verdict is LedgerVerdict.UNVERIFIED and not e.nearby]


def list_last_checked(artifacts: Iterable[Artifact]) -> list[Artifact]:
    """List the artifacts of the last check; what only an earlier one had is left out."""
    known = [*artifacts]
    last = max((each.checked_at for each in known), default=None)
    return [each for each in known if each.checked_at == last]


def describe_ledger(
    entries: Sequence[LedgerEntry], most: int | None = None, artifacts: Iterable[Artifact] = ()
) -> dict[str, JsonValue]:
    """Build the fields of an answer that list what was made; `most`: None for all.

    `artifacts` are those of a task that has ended: it may have, although some were refuted.
    """
    listed, known = list_made(entries), {entry.path for entry in entries}
    doubtful = [(each.path, each.why) for each in _list_unverified(entries)]
    doubtful += [
        (each.subject, each.detail)
        for each in list_last_checked(artifacts)
        if each.verdict is Verdict.REFUTED and each.subject not in known
    ]
    fields: dict[str, JsonValue] = {
        "made": [_describe_entry(entry) for entry in listed[:most]],
        "unverified": [{"what": what, "why": why} for what, why in doubtful[:most]],
    }
    if nearby := _list_nearby(entries):
        fields["also_changed"] = [
            {"path": e.path, "change": e.change, **({"why": e.why} if is_sum(e.path) else {})}
            for e in nearby[:most]
        ]
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
    """Tell an agent what was made, and what could not be verified.

    `nothing`: the sentence that nothing was made; empty: something was.
    """
    nearby = join_names([_format_short_path(entry, {}) for entry in _list_nearby(entries)])
    also = f"{_NEARBY_PREFIX}: {nearby}" if nearby else ""
    clauses = [nothing or format_made(entries, {}), format_unverified(entries, {}), also]
    return " ".join(f"{each[0].upper()}{each[1:]}." for each in clauses if each)


def format_nothing_made(
    passed: Sequence[str], home: str, looked: Sequence[str] | None = None
) -> str:
    """Say that nothing was made; `passed` are folders that were not searched.

    `looked` are the folders searched, if tools' writes are not reported; None: they are.
    """
    if looked is not None:
        where = f" in {join_names([*map(to_plain_line, looked)])}" if looked else ""
        return f"nothing was seen to be written{where}"
    if not passed:
        return "nothing was written"
    names = ["the home folder" if path == home else to_plain_line(path) for path in passed]
    verb = "is" if len(names) == 1 else "are"
    return f"nothing was seen to be written ({join_names(names)} {verb} not looked through)"


def format_made(entries: Sequence[LedgerEntry], folders: Mapping[str, str]) -> str:
    """Tell the user what was made; empty: nothing.

    `folders` maps folders to what is shown for them. Files that were made and removed again are
    told only if there is nothing else.
    """
    listed = [e for e in list_made(entries) if e.verdict is not LedgerVerdict.UNVERIFIED]
    gone = [e for e in listed if e.change is FileChange.REMOVED]
    again = [e for e in listed if e.verdict is LedgerVerdict.ABSENT]
    kept = [e for e in listed if e not in gone and e not in again]
    parts = [("made", kept), ("removed", gone)]
    if len(again) == len(listed):
        parts = [("made and removed again", again)]
    return "; ".join(
        f"{word}: {join_names([_format_short_path(e, folders) for e in some])}"
        for word, some in parts
        if some
    )


def format_unverified(entries: Sequence[LedgerEntry], folders: Mapping[str, str]) -> str:
    """Tell the user what could not be verified; empty: nothing."""
    names = [_format_short_path(entry, folders) for entry in _list_unverified(entries)]
    return f"not verified: {join_names(names)}" if names else ""


def _format_short_path(entry: LedgerEntry, folders: Mapping[str, str]) -> str:
    inside = [f for f in folders if entry.path.startswith(f"{f.rstrip('/')}/")]
    root = max(inside, key=len, default="")
    rest = entry.path.removeprefix(f"{root.rstrip('/')}/")
    name = f"{folders[root]}{rest}" if root else entry.path
    empty = " (empty)" if entry.verdict is LedgerVerdict.EMPTY else ""
    return f"{clip_start(to_plain_line(name), NAME_BYTES)}{empty}"


def join_names(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """Join names with commas; of more than `most`, say how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
