"""List what a task must have made, keep the ledger of what it made, and say how far that is proved.

Entries of the ledger come from what tools report and from comparing folders, never from what an
agent says. What only changed in a folder counts as made if a call of the agent ran then, or the
agent names it. Task memory tests that a thing exists and changed during the task; it never judges
the content.

Source: docs/origins.md, "Proof of completion".
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple
from urllib.parse import unquote

from pydantic import JsonValue

from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.text.texts import (
    clip,
    clip_start,
    format_checksum,
    format_iso_millis,
    format_size,
    quote_line,
    to_plain_line,
)
from taskmem_hookspecs import (
    Artifact,
    Claim,
    FileChange,
    Finding,
    LedgerEntry,
    LedgerVerdict,
    Task,
    Value,
    Verdict,
    WorkFolder,
)
from taskmem_hookspecs.model import Instant

# --- names that look like paths -----------------------------------------------

_TOKEN: Final = re.compile(r"[^\s\"'`«»“”„‘’<>|*?()\[\]{},;!=，。；、！？：（）「」『』【】…]+")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST: Final = re.compile(r"[\w.@-]+:[/~]")
_LINE_NUMBER: Final = re.compile(r"(?::\d+)+$")
_FILE_SUFFIX: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,5}(?![A-Za-z0-9])")
_SUFFIXES: Final = """
avi bash bat bmp bz2 c cc cfg conf cpp cs css csv dart db diff doc docx env epub gif go
gz h hpp htm html ico ini ipynb java jpeg jpg js json jsonl jsx kt lock log lua md mdx
mkv mov mp3 mp4 odt parquet patch pdf php pkl png ppt pptx proto ps1 py rb rs rst rtf
scala scss sh sql sqlite srt svelte svg swift tar tex tf tgz toml ts tsv tsx txt vue wav
webm webp xls xlsx xml yaml yml zip zsh
"""
_KNOWN_SUFFIXES: Final = frozenset(_SUFFIXES.split())
"""Suffixes of files. A word without a slash must have one of these to count as a file."""
_PRODUCTS: Final = frozenset(
    f"{name}.js"
    for name in ("chart", "d3", "express", "next", "node", "nuxt", "react", "three", "vue")
)


class Names(Value):
    """Names found in a text."""

    here: tuple[str, ...]
    """Names that may be paths of this machine."""
    elsewhere: tuple[str, ...]
    """Names with a host or a scheme, except http(s) addresses."""


def find_names(*texts: str) -> Names:
    """Find the names in texts, each once, in order."""
    here: dict[str, None] = {}
    elsewhere: dict[str, None] = {}
    for token in split_words(*texts):
        if is_elsewhere(token):
            if not token.lower().startswith(("http://", "https://")):
                elsewhere[token] = None
        elif name := _cut_to_path(_LINE_NUMBER.sub("", token.removeprefix("file://"))):
            here[name] = None
    return Names(here=(*here,), elsewhere=(*elsewhere,))


def is_elsewhere(name: str) -> bool:
    """True if a name has a host or a scheme, except `file:///`."""
    if name.startswith("file:///"):
        return False
    return bool(_SCHEME.match(name) or _HOST.match(name))


def list_readings(name: str) -> tuple[str, ...]:
    """Return the possible readings of a name.

    Some scripts put no space between a word and a name, so the last ASCII part counts, too.
    """
    ascii_part = re.split(r"[^\x00-\x7f]", name)[-1]
    return tuple(dict.fromkeys(each for each in (name, ascii_part) if each))


def list_tails(path: str, places: Iterable[str]) -> Iterator[str]:
    """Yield what may name a file: its path, its ends, and those of its folders in the work's.

    A name with spaces is given in a sentence by its last word.
    """
    parts = path.split("/")
    for end in range(len(parts), 1, -1):
        here = "/".join(parts[:end])
        if end < len(parts) and any(f"{each}/".startswith(f"{here}/") for each in places):
            return
        for begin in range(end):
            first, *rest = parts[begin:end]
            yield "/".join((first, *rest))
            yield "/".join((first.rpartition(" ")[2], *rest))


def split_words(*texts: str) -> list[str]:
    """Split texts into words, without punctuation around them."""
    return [found[0].rstrip(".:") for text in texts for found in _TOKEN.finditer(text)]


def _cut_to_path(token: str) -> str | None:
    """Cut a token to the part that looks like a path; None: none does."""
    first, slash, _ = token.partition("/")
    if ":" in token or token.casefold() in _PRODUCTS or ("." in first.strip(".") and slash):
        return None
    folder, _, name = token.rpartition("/")
    stem, _, rest = name.rpartition(".")
    suffix = _FILE_SUFFIX.match(rest)
    if stem.strip(".") and suffix and (folder or suffix[0].lower() in _KNOWN_SUFFIXES):
        return token[: len(token) - len(rest) + suffix.end()]
    anchored = token.startswith(("/", "./", "../", "~/"))
    return token if anchored and name and name.strip(".") else None


# --- the ledger ---------------------------------------------------------------


ARTIFACTS: Final = "artifacts"
NAMES: Final = "names"
CLAIMS: Final = "claims"
ANSWER: Final = "answer"
"""Values of a task's `doubts`: why its completion was refused, and whether its first answer after
that was checked."""
STAMP_SLACK: Final = 10_000_000
"""How far a file's time may lie before the actual instant, in nanoseconds."""
MOST_ENTRIES: Final = 50
"""Most entries in an answer; `taskmem show --json` has all."""
_MOST_NAMES: Final = 5
"""Most names in a line for the user."""
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


class FolderListing(NamedTuple):
    """The files of a folder."""

    files: Mapping[str, FileTimes]
    """By path, relative to the folder."""
    complete: bool
    """True if all files are listed; False: there are too many, it took too long, or a name is not
    text."""


class FileTouch(Value):
    """A change of a file that a tool reported."""

    path: str
    """Absolute path."""
    change: FileChange


def pack_files(listing: FolderListing) -> str:
    """Pack the files of a folder for storage, each with its `written` time and its size."""
    kept = {path: (each.written, each.size) for path, each in listing.files.items()}
    return b85encode(zlib.compress(json.dumps(kept).encode(), 1)).decode()


def unpack_files(files: str) -> Mapping[str, tuple[int, int]]:
    """Unpack what `pack_files` packed: time in nanoseconds and size by path."""
    kept = json.loads(zlib.decompress(b85decode(files)))
    return {path: (written, size) for path, (written, size) in kept.items()}


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


def find_changes(
    folder: WorkFolder,
    before: Mapping[str, tuple[int, int]] | None,
    listing: FolderListing,
    exists: Iterable[str],
) -> Iterator[tuple[str, FileChange, FileTimes | None]]:
    """Yield what changed in a folder since the first command ran there.

    Args:
        folder: The folder.
        before: Its files before the work; None: not known, so that all written since then count
        as created.
        listing: Its files now.
        exists: Files of `before` that still exist though they are not listed now.
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
    """Convert an instant to nanoseconds since 1970."""
    return (instant - _EPOCH) // timedelta(microseconds=1) * 1000


def from_nanoseconds(nanosecond: int) -> datetime:
    """Convert nanoseconds since 1970 to an instant, rounded down to microseconds."""
    return _EPOCH + timedelta(microseconds=nanosecond // 1000)


def list_path_ends(name: str) -> tuple[str, str]:
    """Return the ends of paths that a relative name may mean.

    Only the last word of a name with spaces is taken from a sentence.
    """
    end = name.removeprefix("./")
    return f"/{end}", f" {end}"


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
    """List the entries of what only changed in a folder of the task meanwhile."""
    return [entry for entry in entries if entry.nearby]


def _list_unverified(entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """List the entries of what could not be verified."""
    return [e for e in entries if e.verdict is LedgerVerdict.UNVERIFIED and not e.nearby]


def describe_ledger(
    entries: Sequence[LedgerEntry], most: int | None = None
) -> dict[str, JsonValue]:
    """Build the fields of an answer that list what was made; `most`: None for all."""
    listed, doubtful = list_made(entries), _list_unverified(entries)
    fields: dict[str, JsonValue] = {
        "made": [_describe_entry(entry) for entry in listed[:most]],
        "unverified": [{"what": e.path, "why": e.why} for e in doubtful[:most]],
    }
    if nearby := _list_nearby(entries):
        fields["also_changed"] = [{"path": e.path, "change": e.change} for e in nearby[:most]]
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
    nearby = _join_names([_format_short_path(entry, {}) for entry in _list_nearby(entries)])
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
        where = f" in {_join_names([*map(to_plain_line, looked)])}" if looked else ""
        return f"nothing was seen to be written{where}"
    if not passed:
        return "nothing was written"
    names = ["the home folder" if path == home else to_plain_line(path) for path in passed]
    verb = "is" if len(names) == 1 else "are"
    return f"nothing was seen to be written ({_join_names(names)} {verb} not looked through)"


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
        f"{word}: {_join_names([_format_short_path(e, folders) for e in some])}"
        for word, some in parts
        if some
    )


def format_unverified(entries: Sequence[LedgerEntry], folders: Mapping[str, str]) -> str:
    """Tell the user what could not be verified; empty: nothing."""
    names = [_format_short_path(entry, folders) for entry in _list_unverified(entries)]
    return f"not verified: {_join_names(names)}" if names else ""


def _format_short_path(entry: LedgerEntry, folders: Mapping[str, str]) -> str:
    inside = [f for f in folders if entry.path.startswith(f"{f.rstrip('/')}/")]
    root = max(inside, key=len, default="")
    rest = entry.path.removeprefix(f"{root.rstrip('/')}/")
    name = f"{folders[root]}{rest}" if root else entry.path
    empty = " (empty)" if entry.verdict is LedgerVerdict.EMPTY else ""
    return f"{clip_start(to_plain_line(name), NAME_BYTES)}{empty}"


def _join_names(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


# --- what must have been made -------------------------------------------------


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
                f"{lifecycle.ARTIFACTS}, {quote_line(to_plain_line(thing.checksum), 80)}, is no "
                "SHA-256; give its 64 hexadecimal digits, or leave it out."
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
        if one.kind == thing.kind and _is_named_in_full(thing.subject, one.subject):
            return thing.model_copy(update={"subject": one.subject})
    return thing


def _is_named_in_full(planned: str, given: str) -> bool:
    """True if the caller's name is the task's, in full."""
    if planned.startswith("~/"):
        home = _HOME.match(given)
        return home is not None and given[home.end() :] == planned[2:]
    return given == planned or given.endswith(list_path_ends(planned))


# --- proofs -------------------------------------------------------------------


MOST_NAMED: Final = 3
"""Most things that a summary names."""
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
_NOT_LOOKED_AT: Final = (ProofStanding.CLAIMED, ProofStanding.UNCHECKED, ProofStanding.NEARBY)
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
    proofs = [_build_entry_proof(entry, found.pop(entry.path, None)) for entry in entries]
    # What an earlier completion named, and the newest does not any more, is left out.
    proofs += [_build_artifact_proof(made) for made in found.values() if made.checked_at == newest]
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
        standing: _join_proofs([each for each in proofs if each.standing is standing])
        for standing in ProofStanding
    }
    files = _join_proofs([each for each in proofs if each.is_checked_file])
    others = [each for each in proofs if each.standing is ProofStanding.CHECKED]
    others = [each for each in others if not each.is_file]
    made = [
        f"made {files}, seen to exist" if files else "",
        f"checked {_join_proofs(others)}" if others else "",
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


def _build_artifact_proof(made: Artifact) -> Proof:
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


def _join_proofs(proofs: Sequence[Proof]) -> str:
    return _join_names([*map(_name_briefly, proofs)], MOST_NAMED)


def _name_briefly(proof: Proof) -> str:
    """Name a file without its folder; anything else as it is."""
    what = to_plain_line(proof.what)
    if not proof.is_file:
        return clip(what, NAME_BYTES)
    return clip_start(what.rstrip("/").rpartition("/")[2] or what, NAME_BYTES)
