"""Open the database of recordings: its schema, its files, and what becomes of a damaged one."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from taskmem_hookspecs import StoreBusy, StoreFull, StoreUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

_FileIdentity = tuple[int, int]
"""Device and inode of a file: another file at the same path has others."""

_NAME: Final = "recordings.db"
_DAMAGED_PREFIX: Final = "recordings.damaged-"
"""First part of the names of damaged databases that were set aside."""
STRIPS: Final = "strips"
"""Folder of the pages of segments that were opened."""
_SUFFIXES: Final = ("", "-wal", "-shm")
_BUSY_SECONDS: Final = 10.0

_SCHEMA: Final = """
CREATE TABLE moments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    place INTEGER NOT NULL,
    display TEXT NOT NULL,
    application TEXT NOT NULL,
    window_title TEXT NOT NULL,
    page TEXT,
    text TEXT NOT NULL,
    new_text TEXT NOT NULL,
    picture TEXT,
    picture_bytes INTEGER NOT NULL,
    text_bytes INTEGER NOT NULL
);
CREATE INDEX moments_by_time ON moments (at);
CREATE INDEX moments_by_segment ON moments (segment);
CREATE VIRTUAL TABLE moment_words USING fts5 (
    window_title, page, application, text,
    content = 'moments', content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER moments_added AFTER INSERT ON moments BEGIN
    INSERT INTO moment_words (rowid, window_title, page, application, text)
    VALUES (new.id, new.window_title, new.page, new.application, new.text);
END;
CREATE TRIGGER moments_removed AFTER DELETE ON moments BEGIN
    INSERT INTO moment_words (moment_words, rowid, window_title, page, application, text)
    VALUES ('delete', old.id, old.window_title, old.page, old.application, old.text);
END;
PRAGMA user_version = 1;
"""
"""`at` is in milliseconds since 1970 in UTC, `place` in milliseconds since the segment began;
`text_bytes` is what the texts and their index cost, about."""


class RecordingDatabase:
    """The database of recordings in a folder; one connection, used by one thread at a time.

    Nothing is created before the first write. Several processes may have it open.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path: Final = folder / _NAME
        """The file of the database, which need not exist."""
        self._connection: sqlite3.Connection | None = None
        self._opened: _FileIdentity | None = None
        """The file that was opened last."""
        self._lock = threading.RLock()

    def run_query(self, query: Callable[[sqlite3.Connection], T], empty: T) -> T:
        """Return what a query finds; `empty`: nothing was recorded, or it was damaged.

        Raises:
            StoreBusy: Another process has it locked.
            StoreUnavailable: It cannot be read.
        """
        with self._lock, self._name_errors():
            if not self.path.exists():
                self.close()
                return empty
            try:
                return query(self._open())
            except sqlite3.DatabaseError as error:
                self._set_aside(error)
                return empty

    def run_transaction(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Make a change in one transaction, which is rolled back if it raises; return its result.

        A damaged database is set aside, and a new one is begun.

        Raises:
            StoreBusy: Another process has it locked.
            StoreFull: The disk has no room left.
            StoreUnavailable: It cannot be written.
        """
        with self._lock, self._name_errors():
            try:
                return self._run_once(change)
            except sqlite3.DatabaseError as error:
                self._set_aside(error)
                return self._run_once(change)

    def compact(self) -> None:
        """Rewrite the database so that no file has a byte of a deleted row.

        A damaged database is set aside.

        Raises:
            StoreBusy: Another process is reading it, so its log still has deleted rows.
            StoreFull: The disk has no room for the rewriting.
            StoreUnavailable: It cannot be written.
        """
        with self._lock, self._name_errors():
            if not self.path.exists():
                return
            try:
                connection = self._open()
                connection.execute("INSERT INTO moment_words (moment_words) VALUES ('optimize')")
                connection.execute("VACUUM")
                (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.DatabaseError as error:
                self._set_aside(error)
                return
            if is_busy:
                raise StoreBusy(
                    "Another program is reading the recordings, so what was forgotten "
                    "is still in their log; run the same command again in a moment."
                )

    def list_damaged(self) -> list[Path]:
        """Return the files of damaged databases that were set aside."""
        return sorted(self._folder.glob(f"{_DAMAGED_PREFIX}*"))

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _run_once(self, change: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            done = change(connection)
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return done

    def _open(self) -> sqlite3.Connection:
        """Return the connection; open it, or anew where the file was removed or replaced."""
        if self._connection is not None and _identify_file(self.path) == self._opened:
            return self._connection
        self.close()
        make_private_folder(self._folder)
        # SQLite gives the log the mode of the file, so the file is made first.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._opened = _identify_file(self.path)
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            for pragma in ("secure_delete = ON", "journal_mode = WAL", "synchronous = NORMAL"):
                connection.execute(f"PRAGMA {pragma}")
            _create_schema(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        """Rename a damaged database; raise the error again if that is not what it says."""
        if _get_code(error) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise error
        self.close()
        if _identify_file(self.path) != self._opened:
            return  # another process has set it aside, and may have begun a new one
        changed = datetime.fromtimestamp(self.path.stat().st_mtime, UTC)
        suffix = f"{changed:%Y%m%dT%H%M%S%f}"
        for each in _SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                self.path.with_name(_NAME + each).rename(
                    self.path.with_name(f"{_DAMAGED_PREFIX}{suffix}{each}")
                )

    @contextlib.contextmanager
    def _name_errors(self) -> Generator[None]:
        """Raise the errors of the contract in place of SQLite's and the system's."""
        try:
            yield
        except sqlite3.Error as error:
            match _get_code(error):
                case sqlite3.SQLITE_FULL:
                    raise StoreFull(_explain_full(self._folder)) from error
                case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                    raise StoreBusy(
                        f"The recordings in {self._folder} are locked by another process; "
                        "try again in a moment."
                    ) from error
                case _:
                    raise StoreUnavailable(
                        f"The recordings in {self._folder} cannot be used: {error}."
                    ) from error
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreFull(_explain_full(self._folder)) from error
            raise StoreUnavailable(
                f"The recordings in {self._folder} cannot be used: {error.strerror}."
            ) from error


def _identify_file(path: Path) -> _FileIdentity | None:
    """Return which file has a path now; None: there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def clear_strips(folder: Path) -> None:
    """Remove the pages of segments that were opened, from the folder of recordings.

    A link or a file in the place of their folder is removed, and nothing behind it.
    """
    strips = folder / STRIPS
    if strips.is_symlink() or strips.is_file():
        log.warning("%s was no folder; it was removed", strips)
        strips.unlink()
    shutil.rmtree(strips, ignore_errors=True)


def make_private_folder(folder: Path) -> None:
    """Create a folder for its owner alone; close one that is open to others."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def _create_schema(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone() != (0,):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            for statement in _split_statements(_SCHEMA):
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _split_statements(script: str) -> Generator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _get_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; 0: it is an error of the module."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _explain_full(folder: Path) -> str:
    return (
        f"The disk has no room left for the recordings in {folder}; nothing was "
        "written. Make room, or keep less with TASKMEM_RECORD_MB."
    )
