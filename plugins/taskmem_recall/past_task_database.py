"""Open the database of the index of past tasks: its schema, its files, and its errors."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Final

from taskmem_hookspecs import StoreBusy, StoreFull, StoreUnavailable

FileIdentity = tuple[int, int]
"""Device and inode of a file: another file at the same path has others."""

NAME: Final = "past_tasks.db"
VERSION: Final = 1
"""Version of the schema; an index of another version is made anew."""
_SCHEMA: Final = (
    """CREATE TABLE tasks (
        id INTEGER PRIMARY KEY,
        task_id TEXT NOT NULL UNIQUE,
        version INTEGER NOT NULL,
        message_count INTEGER NOT NULL,
        last_message INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        steps TEXT NOT NULL
    )""",
    "CREATE TABLE page_entries (id INTEGER PRIMARY KEY, task INTEGER NOT NULL, entries TEXT)",
    "CREATE INDEX page_entries_by_task ON page_entries (task)",
    """CREATE VIRTUAL TABLE pages USING fts5(
        name, plan, thread, made, tokenize = 'porter unicode61 remove_diacritics 2'
    )""",
    "CREATE TABLE state (place INTEGER)",
    f"PRAGMA user_version = {VERSION}",
)
_SECONDS: Final = 1.0
"""How long to wait for another process that has the index locked."""


class IndexDamaged(Exception):
    """The index cannot be read, and must be made anew."""


def open_database(folder: Path) -> sqlite3.Connection:
    """Return a connection to the index in a folder, which is made if it is not there.

    Raises:
        IndexDamaged: It is of another version.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    path = folder / NAME
    # SQLite gives the log the mode of the file, so the file is made first.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(
        path, timeout=_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        for pragma in ("secure_delete = ON", "journal_mode = WAL", "synchronous = NORMAL"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in _SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    if version not in (0, VERSION):
        connection.close()
        raise IndexDamaged(f"The index {path} is of version {version}.")
    return connection


def remove_files(folder: Path) -> None:
    """Remove the index in a folder, and all that SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        (folder / f"{NAME}{suffix}").unlink(missing_ok=True)


@contextlib.contextmanager
def name_errors(folder: Path) -> Generator[None]:
    """Raise the errors of the contract in place of SQLite's and the system's.

    Raises:
        IndexDamaged: It is damaged.
        StoreBusy: Another process has it locked.
        StoreFull: The disk is full.
        StoreUnavailable: Anything else.
    """
    try:
        yield
    except sqlite3.Error as error:
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:
            case sqlite3.SQLITE_FULL:
                raise StoreFull(f"The disk has no room for the index in {folder}.") from error
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                raise StoreBusy(f"The index in {folder} is locked by another process.") from error
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_ERROR:
                raise IndexDamaged(f"The index in {folder} cannot be read: {error}.") from error
            case _:
                raise StoreUnavailable(f"The index in {folder} fails: {error}.") from error
    except OSError as error:
        kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreUnavailable
        raise kind(f"The index in {folder} cannot be used: {error.strerror}.") from error


def identify_file(path: Path) -> FileIdentity | None:
    """Return which file has a path now; None: there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
