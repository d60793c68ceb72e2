"""Keep beside a SQLite file what it last had, and tell when it is opened with less.

A file that was emptied, removed or replaced by an older copy, or that lost its write-ahead log,
opens as if nothing had been. So the id of its newest event, which only grows, is written into a
file beside it with each commit: without a sync, as that must survive a kill, not a power cut.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import sqlalchemy as sa

from taskmem_hookspecs.roles import LOSS_SUFFIX

_LAST_SUFFIX: Final = ".last"
_OWNER_ONLY: Final = 0o600
_FEW_TASKS: Final = 200
"""Up to so many tasks are counted at each commit."""
_RECORD: Final = 48
"""Bytes of the file, so that one write replaces all of it."""


class _LastExtent(NamedTuple):
    """The extent of a database when it was last written."""

    position: int
    """Id of its newest event."""
    tasks: int
    """Number of its tasks, implicit ones included, some time before."""
    at: datetime


class LastState:
    """The file that says what an open database has; failures to write it are ignored."""

    def __init__(self, database: Path, position: int, tasks: int) -> None:
        """Open the file beside `database`, and write what that has now."""
        self._position, self._tasks = position, tasks
        self._settled = self._seen = position
        self._file: int | None = None
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(database.with_suffix(_LAST_SUFFIX), flags, _OWNER_ONLY)
        if position:
            self._write()

    def read(self, connection: sa.Connection) -> tuple[int, int]:
        """Return what `save` takes, inside a transaction that writes."""
        is_small = self._tasks < _FEW_TASKS
        return read_position(connection), count_tasks(connection) if is_small else self._tasks

    def save(self, position: int, tasks: int) -> None:
        """Write the id of the newest event, and the number of tasks, after a commit."""
        self._position, self._tasks = position, tasks
        self._write()

    def save_count(self, tasks: int) -> None:
        """Write the number of tasks, once the file of the database has all that was written."""
        self._settled = self._position
        self.save(self._position, tasks)

    def is_resting(self) -> bool:
        """Tell whether something was written since `save_count`, and nothing since the last call.

        What writes no event, such as a bookmark, may stay in the log.
        """
        seen, self._seen = self._seen, self._position
        return seen == self._position != self._settled

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self) -> None:
        record = f"{self._position} {self._tasks}".ljust(_RECORD - 1) + "\n"
        if self._file is not None:
            with suppress(OSError):
                os.pwrite(self._file, record.encode(), 0)


def set_log_aside(database: Path) -> None:
    """Keep the log of a file that is gone or empty: it may have all, and SQLite would remove it."""
    log = database.with_name(f"{database.name}-wal")
    with suppress(OSError):
        is_gone = not database.exists() or not database.stat().st_size
        if is_gone and log.stat().st_size:
            log.replace(database.with_suffix(f"{LOSS_SUFFIX}-wal"))


def note_loss(database: Path, engine: sa.Engine) -> None:
    """Write down what is gone where a database has less than it last had.

    What was written down before stays: a person has not accepted it yet.
    """
    last = _read_last(database)
    if last is None:
        return
    with engine.connect() as connection:
        position, tasks = read_position(connection), count_tasks(connection)
    loss = database.with_suffix(LOSS_SUFFIX)
    if position < last.position and not loss.exists():
        had = f"{last.tasks} tasks and {last.position} entries in its log"
        sentence = (
            f"The database {database} has less than on {last.at:%Y-%m-%d} at {last.at:%H:%M} UTC: "
            f"it had {had}, and now has {tasks} and {position}."
        )
        _write_whole(loss, sentence)


def _read_last(database: Path) -> _LastExtent | None:
    """Return what a database last had; None: that is not known."""
    path = database.with_suffix(_LAST_SUFFIX)
    try:
        position, tasks = path.read_text("ascii").split()
        at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return _LastExtent(int(position), int(tasks), at)
    except (OSError, ValueError):
        # A power cut may leave it empty.
        return None


def _write_whole(path: Path, text: str) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(fresh, flags, _OWNER_ONLY), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def read_position(connection: sa.Connection) -> int:
    """Return the id of the newest event; 0: there is none."""
    return _read_number(connection, "SELECT max(id) FROM events")


def count_tasks(connection: sa.Connection) -> int:
    """Return the number of tasks."""
    return _read_number(connection, "SELECT count(*) FROM tasks")


def _read_number(connection: sa.Connection, statement: str) -> int:
    """Return what a statement selects; 0: nothing, or the tables are not there yet."""
    try:
        row = connection.connection.cursor().execute(statement).fetchone()
    except sqlite3.OperationalError:
        return 0
    return int(row[0] or 0)
