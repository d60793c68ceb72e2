"""Whether a run was owned twice: judged by what its owners noted, and the audit log.

Nothing of the product is asked: the notes are files, and the audit log is read with
bare SQL. All instants in nanoseconds of the monotonic clock.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import sqlalchemy as sa

FOREVER = 2**63


@dataclass(frozen=True, slots=True)
class Note:
    """One line of a claimer."""

    what: str
    """`got`, `wrote`, `gives` and then `gave`, `fenced` or `refused`."""
    owner: str
    known: bool
    """Whether its process is known, so that it holds a run while that lives."""
    run_id: str
    token: int
    begun: int
    ended: int


@dataclass(frozen=True, slots=True)
class Ownership:
    """What one owner believed to hold: surely since, and no longer than until."""

    owner: str
    run_id: str
    token: int
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the notes and the audit log say together."""

    claims: int
    """By the audit log: also those whose owner died before it noted them."""
    noted: int
    twice: Sequence[str]
    """A sentence for each run that had two owners."""
    old_writes: Sequence[str]
    """A sentence for each write that an old token was good for."""
    fenced: int
    """Writes with an old token that were refused."""


def judge_logs(logs: Path, database: sa.Engine, deaths: Mapping[str, int], lease: int) -> Verdict:
    """Compare all that was noted in a folder with a database.

    Args:
        logs: The folder of the claimers' files.
        database: Where the audit log is.
        deaths: When each process was killed, by the name of its file.
        lease: For how long one whose process is not known holds a run.
    """
    notes = list(_read_notes(logs))
    audit = _read_audit_log(database)
    holdings = _list_ownerships(notes, deaths, lease)
    old = [*_find_old_writes(notes), *_find_old_messages(database)]
    return Verdict(
        claims=sum(map(len, audit.values())),
        noted=len(holdings),
        twice=[
            *_find_shared_tokens(notes),
            *_find_shrinking_tokens(notes, audit),
            *_find_overlapping_runs(holdings),
        ],
        old_writes=old,
        fenced=sum(note.what == "fenced" for note in notes),
    )


def _read_notes(logs: Path) -> Iterator[Note]:
    for log in sorted(logs.glob("*.log")):
        # A line that was cut by the death of its writer has no end.
        for line in log.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                what, owner, how, run_id, *numbers = line.split()
                token, begun, ended = map(int, numbers)
                yield Note(what, owner, how == "known", run_id, token, begun, ended)


def _read_audit_log(database: sa.Engine) -> dict[str, list[tuple[int, str]]]:
    """Return the claims of each run, as token and owner, in the log's order."""
    claims: dict[str, list[tuple[int, str]]] = defaultdict(list)
    wanted = "kind IN ('run_changed', 'run_claimed')"
    query = f"SELECT run_id, kind, data FROM events WHERE {wanted} ORDER BY id"  # noqa: S608 - our own words
    with database.connect() as connection:
        for run_id, kind, text in connection.exec_driver_sql(query):
            data = json.loads(text)
            if kind == "run_claimed" or data["to"] == "running":
                claims[run_id].append((data["token"], data["owner"]["session_key"]))
    return claims


def _list_ownerships(
    notes: Iterable[Note], deaths: Mapping[str, int], lease: int
) -> list[Ownership]:
    """Return what was held, each until its owner began to give it back, or died.

    One whose process is not known holds a run for a lease at most.
    """
    notes = list(notes)
    given = {
        (note.owner, note.run_id, note.token): note.begun
        for note in notes
        if note.what in ("gives", "fenced", "refused")
    }
    return [
        Ownership(
            note.owner,
            note.run_id,
            note.token,
            since=note.ended,
            until=min(
                given.get((note.owner, note.run_id, note.token), FOREVER),
                deaths.get(note.owner.partition(".")[0], FOREVER),
                FOREVER if note.known else note.begun + lease,
            ),
        )
        for note in notes
        if note.what == "got"
    ]


def _find_shared_tokens(notes: Iterable[Note]) -> Iterator[str]:
    """Find tokens that two have got."""
    owners: dict[tuple[str, int], str] = {}
    for note in notes:
        if note.what == "got":
            first = owners.setdefault((note.run_id, note.token), note.owner)
            if first != note.owner:
                yield f"{note.run_id} {note.token}: {first} and {note.owner}"


def _find_shrinking_tokens(
    notes: Iterable[Note], audit: Mapping[str, list[tuple[int, str]]]
) -> Iterator[str]:
    """Find tokens that did not grow in the audit log, and claims that it has not."""
    for run_id, claims in audit.items():
        for (before, one), (after, other) in pairwise(claims):
            if after <= before:
                yield f"{run_id}: {one} had {before}, then {other} {after}"
    known = {(run_id, token, owner) for run_id, claims in audit.items() for token, owner in claims}
    for note in notes:
        if note.what == "got" and (note.run_id, note.token, note.owner) not in known:
            yield f"{note.run_id} {note.token}: the log knows not of {note.owner}"


def _find_overlapping_runs(holdings: Iterable[Ownership]) -> Iterator[str]:
    """Find runs that another got while somebody still held them."""
    runs: dict[str, list[Ownership]] = defaultdict(list)
    for holding in holdings:
        runs[holding.run_id].append(holding)
    for run_id, held in runs.items():
        held.sort(key=lambda each: (each.since, each.token))
        longest = held[0]
        for holding in held[1:]:
            if holding.since < longest.until:
                yield f"{run_id}: {holding.owner} while {longest.owner} held it"
            if holding.token <= longest.token:
                yield f"{run_id}: {longest.token} came before {holding.token}"
            longest = max(longest, holding, key=lambda each: each.until)


def _find_old_writes(notes: Sequence[Note]) -> Iterator[str]:
    """Find writes that began when another had got the run, and were not refused."""
    claimed: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for note in notes:
        if note.what == "got":
            claimed[note.run_id].append((note.token, note.ended))
    for note in notes:
        if note.what in ("wrote", "gave") and any(
            token > note.token and ended < note.begun for token, ended in claimed[note.run_id]
        ):
            yield f"{note.run_id}: {note.owner} {note.what} with {note.token}"


def _find_old_messages(database: sa.Engine) -> Iterator[str]:
    """Find messages that a token wrote after a later one had."""
    query = "SELECT task_id, content FROM task_messages ORDER BY id"
    latest: dict[str, int] = {}
    with database.connect() as connection:
        for task_id, content in connection.exec_driver_sql(query):
            _, said, number = content.rpartition("token ")
            if not said:
                continue
            token = int(number)
            if token < latest.get(task_id, 0):
                yield f"{task_id}: {token} wrote after {latest[task_id]}"
            latest[task_id] = token
