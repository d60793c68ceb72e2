"""Store what was on the screen: a row for each moment, its words in an index, its picture a file.

recordings/recordings.db                      moments and their words
recordings/2026-02-10/154200-250-7.webp       picture of moment 7, named by its time in UTC
recordings/recordings.damaged-…               a database that could not be read any more
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from taskmem_recorder.database import RecordingDatabase, clear_strips, make_private_folder
from taskmem_recorder.state import FOLDER

SEGMENT_GAP: Final = timedelta(minutes=2)
"""Longest time between two moments of a segment."""
_LONGEST_SEGMENT: Final = timedelta(minutes=30)
"""Longest time from the first moment of a segment to its last."""
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Content of a screen from an instant on."""

    at: datetime
    """Aware."""
    window_title: str
    application: str
    page: str | None = None
    """Title of the page; None: the window is no browser's."""
    text: str = ""
    """Everything that was read on the picture."""
    new_text: str = ""
    """Lines that the moment before of the same window did not have."""
    display: str = ""
    picture: str | None = None
    """Path in the folder of recordings; None: no picture was kept. Set by the store."""
    id: int = 0
    """Greater than those of all moments that were recorded before. Set by the store."""
    segment: int = 0
    """Id of the moment with which its segment began, see `_choose_segment`. Set by the store."""
    place_ms: int = 0
    """Time since its segment began, not below that of the moment before. Set by the store."""


@dataclass(frozen=True, slots=True)
class ScoredMoment:
    """A moment that matches a search."""

    moment: Moment
    score: float
    """BM25 with the weights of the columns: greater is better, above 0."""


def _choose_segment(last: Moment | None, at: datetime) -> tuple[int | None, int]:
    """Return the segment of a moment and its place there in milliseconds; None: it begins one.

    A segment is what one application showed without a gap of more than `SEGMENT_GAP`, and is
    `_LONGEST_SEGMENT` at most. Where the clock was set back, time stands still in a segment, or
    another begins.

    Args:
        last: The moment before of the same application and display; None: there is none.
        at: When the moment is recorded.
    """
    if last is None or abs(at - last.at) > SEGMENT_GAP:
        return None, 0
    place = last.place_ms + max(0, round((at - last.at) / _MILLISECOND))
    return (last.segment, place) if place <= _LONGEST_SEGMENT // _MILLISECOND else (None, 0)


MOST_RANKED: Final = 5_000
"""Maximum number of moments that one search ranks."""
_MOST_LISTED: Final = 1_000
"""Moments that have a word, up to which all of them are listed, rather than group by group."""


def _narrow_search(
    connection: sqlite3.Connection, counts: Mapping[str, int]
) -> tuple[str | None, int]:
    """Return what to match, and the smallest id to rank; None: no moment has any of the words.

    Ranking costs about a microsecond a moment, and some words are on nearly every screen.

    Args:
        connection: The database.
        counts: How many moments have each word, as `_count_words` counts them.
    """
    used: list[str] = []
    together = 0
    for word, count in sorted(counts.items(), key=lambda item: item[1]):
        together += count
        if count and (together <= MOST_RANKED or not used):
            used.append(word)
    if not used:
        return None, 0
    first = 0
    if counts[used[0]] > MOST_RANKED:
        (first,) = connection.execute(
            "SELECT rowid FROM moment_words WHERE moment_words MATCH ?"
            " ORDER BY rowid DESC LIMIT 1 OFFSET ?",
            (_quote_word(used[0]), MOST_RANKED),
        ).fetchone()
    return " OR ".join(map(_quote_word, used)), first


def _find_words(
    connection: sqlite3.Connection, counts: Mapping[str, int], groups: Sequence[Sequence[Moment]]
) -> list[dict[int, list[str]]]:
    """Return for each group of moments, by their ids, which of the counted words each has."""
    found: list[dict[int, list[str]]] = [{moment.id: [] for moment in group} for group in groups]
    for word, count in counts.items():
        every = _list_moments(connection, word) if 0 < count <= _MOST_LISTED else set[int]()
        for group in filter(None, found):
            if count > _MOST_LISTED:
                every = _list_moments(connection, word, min(group), max(group))
            for number in every & group.keys():
                group[number].append(word)
    return found


def _count_words(connection: sqlite3.Connection, words: Iterable[str]) -> dict[str, int]:
    """Return how many moments have each word, `MOST_RANKED` + 1 at most."""
    query = "SELECT count(*) FROM (SELECT 1 FROM moment_words WHERE moment_words MATCH ? LIMIT ?)"
    return {
        word: int(connection.execute(query, (_quote_word(word), MOST_RANKED + 1)).fetchone()[0])
        for word in words
    }


def _list_moments(
    connection: sqlite3.Connection, word: str, first: int = 0, last: int = (1 << 63) - 1
) -> set[int]:
    """Return the ids of the moments that have a word, from the first to the last."""
    rows = connection.execute(
        "SELECT rowid FROM moment_words WHERE moment_words MATCH ? AND rowid BETWEEN ? AND ?",
        (_quote_word(word), first, last),
    )
    return {number for (number,) in rows}


def _quote_word(word: str) -> str:
    """Return a word as a string of FTS5, in which nothing is an operator."""
    return '"' + word.replace('"', '""') + '"'


_WEIGHTS: Final = "4.0, 4.0, 1.0, 1.0"
"""Weight of a word in the window's title, the page's title, the application and the text."""
_SIGNATURES: Final = ((b"\x89PNG", "png"), (b"\xff\xd8", "jpg"), (b"RIFF", "webp"))
_COLUMNS: Final = (
    "id, at, segment, place, display, application, window_title, page, text, new_text, picture"
)
_WITHOUT_TEXT: Final = _COLUMNS.replace("text, new_text, picture", "'', '', NULL")


@dataclass(frozen=True, slots=True)
class _Forgotten:
    """Counts of what was deleted for good."""

    moments: int
    pictures: int
    databases: int = 0
    """Damaged databases with everything in them, whose moments cannot be counted."""


@dataclass(frozen=True, slots=True)
class RecordingSize:
    """Size of everything recorded."""

    moments: int = 0
    bytes: int = 0
    """On the disk, with damaged databases."""
    oldest: datetime | None = None
    newest: datetime | None = None
    damaged: tuple[str, ...] = ()
    """Names of damaged databases that were set aside, in the folder of recordings."""


def make_store(home: Path) -> RecordingStore:
    """Return the store of a home's recordings."""
    return RecordingStore(home / FOLDER)


class RecordingStore:
    """Everything recorded in a folder; may be used from several threads and processes.

    Every method may raise `StoreBusy`, `StoreFull` or `StoreUnavailable`; the next call works once
    the cause is gone. A damaged database is set aside, and a new one is begun.
    """

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self._database = RecordingDatabase(folder)

    def add_moment(self, moment: Moment, picture: bytes | None) -> int:
        """Store a moment and its picture (PNG, JPEG or WebP), or neither; return the moment's id.

        Its `id` and `picture` are ignored.
        """
        given = (moment.display, moment.application, moment.window_title, moment.page)
        texts = [text and _mend_text(text) for text in (*given, moment.text, moment.new_text)]
        written: list[Path] = []

        def add(connection: sqlite3.Connection) -> int:
            last = connection.execute(
                f"SELECT {_COLUMNS} FROM moments WHERE application = ? AND display = ?"  # noqa: S608
                " ORDER BY id DESC LIMIT 1",
                (texts[1], texts[0]),
            ).fetchone()
            segment, place = _choose_segment(last and _to_moment(last), moment.at)
            row = connection.execute(
                "INSERT INTO moments (at, segment, place, display, application, window_title, page,"
                " text, new_text, picture_bytes, text_bytes)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    _to_millis(moment.at),
                    segment or 0,
                    place,
                    *texts,
                    len(picture or b""),
                    _estimate_bytes(texts),
                ),
            ).lastrowid
            assert row is not None  # noqa: S101 (an INSERT has one)
            if segment is None:
                connection.execute("UPDATE moments SET segment = id WHERE id = ?", (row,))
            if picture is not None:
                name = _name_picture(moment.at, row, picture)
                written.append(self.folder / name)
                _write_private(self.folder / name, picture)
                connection.execute("UPDATE moments SET picture = ? WHERE id = ?", (name, row))
            return row

        try:
            return self._database.run_transaction(add)
        except BaseException:
            for path in written:
                path.unlink(missing_ok=True)
            raise

    def count_moments(self, words: Iterable[str]) -> tuple[int, dict[str, int]]:
        """Return how many moments there are, about, and how many have each word.

        Words match by their stems, without case and accents. Of a word at most `MOST_RANKED` + 1
        moments are counted.
        """

        def count(connection: sqlite3.Connection) -> tuple[int, dict[str, int]]:
            # Each end of the ids alone is found at once; together they read every row.
            (total,) = connection.execute(
                "SELECT coalesce((SELECT max(id) FROM moments)"
                " - (SELECT min(id) FROM moments) + 1, 0)"
            ).fetchone()
            return total, _count_words(connection, words)

        return self._database.run_query(count, (0, dict.fromkeys(words, 0)))

    def search(self, counts: Mapping[str, int], limit: int) -> Sequence[ScoredMoment]:
        """Return at most `limit` moments that have any of the words, best match first.

        At most `MOST_RANKED` moments are ranked: the rarest words choose them, and of one word that
        more moments have, the newest do. Texts are left out, since reading them costs most.

        Args:
            counts: How many moments have each word, as `count_moments` says.
            limit: Maximum number of moments.
        """

        def find(connection: sqlite3.Connection) -> Sequence[ScoredMoment]:
            match, first = _narrow_search(connection, counts)
            if match is None:
                return ()
            rows = connection.execute(
                f"SELECT score, {_WITHOUT_TEXT} FROM (SELECT rowid AS number,"  # noqa: S608 (constants)
                f" bm25(moment_words, {_WEIGHTS}) AS score FROM moment_words"
                " WHERE moment_words MATCH ? AND rowid >= ? ORDER BY score LIMIT ?)"
                " JOIN moments ON id = number ORDER BY score, id DESC",
                (match, first, limit),
            )
            return [ScoredMoment(_to_moment(row[1:]), -row[0]) for row in rows]

        return self._database.run_query(find, ())

    def find_present(
        self, counts: Mapping[str, int], groups: Sequence[Sequence[Moment]]
    ) -> list[dict[int, list[str]]]:
        """Return for each group of moments, by their ids, which of the words each has.

        `counts`: as for `search`.
        """
        return self._database.run_query(
            lambda connection: _find_words(connection, counts, groups), [{} for _ in groups]
        )

    def list_moments(self, *, segment: int | None = None) -> Sequence[Moment]:
        """Return moments in the order in which they were recorded, also if the clock was set back.

        `segment`: id of their segment; None: any.
        """
        where, values = ("", ()) if segment is None else ("WHERE segment = ?", (segment,))

        def find(connection: sqlite3.Connection) -> Sequence[Moment]:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM moments {where} ORDER BY id",  # noqa: S608
                values,
            )
            return [_to_moment(row) for row in rows]

        return self._database.run_query(find, ())

    def forget(self, since: datetime | None, until: datetime | None) -> _Forgotten:
        """Delete what was recorded from `since` on and before `until`; None: without that end.

        Afterwards no file has a byte of it: the database is rewritten, its log is emptied, and
        pictures are removed, also those of a write that was cut short. Databases that were set
        aside, and pages that were opened, are removed as well, since they may have it too.
        """
        where, values = _select_time(since, until)
        done = _Forgotten(0, 0)
        if self._holds_anything():
            done = self._database.run_transaction(
                lambda connection: self._delete(connection, where, values, since, until)
            )
            self._database.compact()
        databases = len(self.find_damaged())
        for path in self._database.list_damaged():
            path.unlink(missing_ok=True)
        clear_strips(self.folder)
        return replace(done, databases=databases)

    def prune(self, max_age: timedelta, max_bytes: int, now: datetime) -> int:
        """Delete the moments older than `max_age`, and the oldest above `max_bytes`; count them.

        Databases that were set aside go once they are older than `max_age`.
        """
        oldest = now - max_age
        clear_strips(self.folder)
        for path in self._database.list_damaged():
            if path.stat().st_mtime < oldest.timestamp():
                path.unlink(missing_ok=True)
        if not self._holds_anything():
            return 0

        def drop(connection: sqlite3.Connection) -> int:
            (last,) = connection.execute(
                "SELECT coalesce(max(id), 0) FROM (SELECT id, sum(picture_bytes + text_bytes)"
                " OVER (ORDER BY id DESC) AS together FROM moments) WHERE together > ?",
                (max_bytes,),
            ).fetchone()
            values = [_to_millis(oldest), last]
            return self._delete(connection, "at < ? OR id <= ?", values, None, oldest).moments

        return self._database.run_transaction(drop)

    def measure(self) -> RecordingSize:
        """Return how much there is."""
        nothing: tuple[int, int, int | None, int | None] = (0, 0, None, None)
        moments, pictures, oldest, newest = self._database.run_query(
            lambda connection: connection.execute(
                "SELECT count(*), coalesce(sum(picture_bytes), 0), min(at), max(at) FROM moments"
            ).fetchone(),
            nothing,
        )
        database = self.folder.glob(f"{self._database.path.name}*")
        files = [*database, *self._database.list_damaged()]
        return RecordingSize(
            moments=moments,
            bytes=pictures + sum(path.stat().st_size for path in files),
            oldest=None if oldest is None else _from_millis(oldest),
            newest=None if newest is None else _from_millis(newest),
            damaged=self.find_damaged(),
        )

    def find_damaged(self) -> tuple[str, ...]:
        """Return the names of damaged databases that were set aside."""
        names = (path.name for path in self._database.list_damaged())
        return tuple(name for name in names if not name.endswith(("-wal", "-shm")))

    def close(self) -> None:
        """Close the database; the next call opens it again."""
        self._database.close()

    def _holds_anything(self) -> bool:
        """Return whether there is a database, or a picture that a damaged one has left."""
        return self._database.path.exists() or any(_list_pictures(self.folder))

    def _delete(
        self,
        connection: sqlite3.Connection,
        where: str,
        values: Sequence[int],
        since: datetime | None,
        until: datetime | None,
    ) -> _Forgotten:
        """Delete rows and their pictures, and of that time the pictures without a row.

        The pictures go first: on a full disk they make the room that deleting rows needs.
        """
        rows = connection.execute(
            f"SELECT picture, {where} FROM moments",  # noqa: S608 (constants)
            values,
        ).fetchall()
        gone = [name for name, is_gone in rows if is_gone]
        names = {name for name in gone if name}
        kept = {name for name, is_gone in rows if not is_gone}
        names.update(each for each in _list_pictures(self.folder, since, until) if each not in kept)
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        for day in {name.partition("/")[0] for name in names}:
            with contextlib.suppress(OSError):  # it has other pictures, or is gone
                (self.folder / day).rmdir()
        connection.execute(f"DELETE FROM moments WHERE {where}", values)  # noqa: S608 (constants)
        return _Forgotten(len(gone), len(names))


def _select_time(since: datetime | None, until: datetime | None) -> tuple[str, list[int]]:
    where, values = ["1"], list[int]()
    if since is not None:
        where.append("at >= ?")
        values.append(_to_millis(since))
    if until is not None:
        where.append("at < ?")
        values.append(_to_millis(until))
    return " AND ".join(where), values


def _to_moment(row: Sequence[Any]) -> Moment:
    (
        number,
        at,
        segment,
        place,
        display,
        application,
        window_title,
        page,
        text,
        new_text,
        picture,
    ) = row
    return Moment(
        at=_from_millis(at),
        window_title=window_title,
        application=application,
        page=page,
        text=text,
        new_text=new_text,
        display=display,
        picture=picture,
        id=number,
        segment=segment,
        place_ms=place,
    )


def _to_millis(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def _from_millis(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)


def _mend_text(text: str) -> str:
    """Return a text that can be encoded: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode()


def _estimate_bytes(texts: Iterable[str | None]) -> int:
    """Return what a moment's texts and their index cost on the disk."""
    return 512 + sum(len((text or "").encode()) for text in texts) * 5 // 2


def _name_picture(at: datetime, number: int, picture: bytes) -> str:
    kind = next((kind for start, kind in _SIGNATURES if picture.startswith(start)), "bin")
    moment = at.astimezone(UTC)
    return f"{moment:%Y-%m-%d}/{moment:%H%M%S}-{moment.microsecond // 1000:03}-{number}.{kind}"


def _write_private(path: Path, content: bytes) -> None:
    make_private_folder(path.parent)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _list_pictures(
    folder: Path, since: datetime | None = None, until: datetime | None = None
) -> Iterator[str]:
    """Yield the names in the folder of the pictures from `since` on and before `until`.

    None: without that end. Their time is that which `_name_picture` gave them; of other days, no
    folder is read.
    """
    first = "" if since is None else f"{since.astimezone(UTC):%Y-%m-%d}"
    last = "9999-12-31" if until is None else f"{until.astimezone(UTC):%Y-%m-%d}"
    for day in folder.glob("*-*-*"):
        for path in day.glob("*") if first <= day.name <= last else ():
            name = f"{day.name}/{path.name}"
            with contextlib.suppress(ValueError):  # a file of somebody else
                at = datetime.strptime(f"{name[:21]}+0000", "%Y-%m-%d/%H%M%S-%f%z")
                if (since is None or at >= since) and (until is None or at < until):
                    yield name
