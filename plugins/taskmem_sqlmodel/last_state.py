"""Keep beside a SQLite file what it last had, and tell when it is opened with less.

A file that was emptied, removed or replaced by an older copy, or that lost its write-ahead log,
opens as if nothing had been. So the id of its newest event, which only grows, and the number of its
tasks are written into a file beside it with each commit: without a sync, as that must survive a
kill, not a power cut.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from taskmem_hookspecs.roles import LOSS_SUFFIX, LOST_LOG_SUFFIX
from taskmem_program.losses import Extent, describe_loss, write_loss

log = logging.getLogger(__name__)

_OWNER_ONLY: Final = 0o600
_RECORD: Final = 48
"""Bytes of the file, so that one write replaces all of it."""


class LastState:
    """The file that says what an open database has; failures to write it are ignored.

    Where the database has less, that is written down first; until that succeeds, the file stays.
    """

    def __init__(self, database: Path, position: int, tasks: int) -> None:
        """Open the file beside `database`, and write what that has now."""
        self._position, self._tasks = position, tasks
        self._settled = self._seen = position
        self._note = _name_beside(database, LOSS_SUFFIX)
        self._loss = self._find_loss(database)
        self._file: int | None = None
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(_name_last(database), flags, _OWNER_ONLY)
        if position or self._loss:
            self._write()
        if self._loss:
            log.warning("%s This could not be written beside it yet.", self._loss)

    def count_before_commit(self, connection: sa.Connection) -> tuple[int, int]:
        """Return what `save` takes, inside a transaction that writes.

        Fewer tasks, as old implicit ones go without an event, are written at once: a kill between
        the commit and `save` would else make a loss of them.
        """
        position, tasks = read_position(connection), count_tasks(connection)
        if tasks < self._tasks:
            self.save(self._position, tasks)
        return position, tasks

    def save(self, position: int, tasks: int) -> None:
        """Write the id of the newest event, and the number of tasks, after a commit."""
        self._position, self._tasks = position, tasks
        self._write()

    def mark_settled(self) -> None:
        """Note that the file of the database has all that was written."""
        self._settled = self._position

    def is_resting(self) -> bool:
        """Tell whether something is not settled, and nothing was written since the last call.

        What writes no event, such as a bookmark, may stay in the log.
        """
        seen, self._seen = self._seen, self._position
        return seen == self._position != self._settled

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _find_loss(self, database: Path) -> str | None:
        """Return the sentence of what is gone where the database has less than it last had.

        Implicit tasks are counted, too.
        """
        last, has = _read_last(database), Extent(self._position, self._tasks)
        if last is None or not has.is_less(last[0]):
            return None
        return describe_loss(str(database), *last, has)

    def _write(self) -> None:
        record = f"{self._position} {self._tasks}".ljust(_RECORD - 1) + "\n"
        with suppress(OSError):
            if self._loss is not None:
                write_loss(self._note, self._loss)
                self._loss = None
            if self._file is not None:
                os.pwrite(self._file, record.encode(), 0)


def set_log_aside(database: Path) -> None:
    """Keep the log of a file that is gone or empty: it may have all, and SQLite would remove it.

    What was set aside before stays.
    """
    changes = _name_beside(database, "-wal")
    with suppress(OSError):
        is_gone = not database.exists() or not database.stat().st_size
        if is_gone and changes.stat().st_size:
            suffixes = chain(("",), (f"-{number}" for number in count(2)))
            names = (_name_beside(database, f"{LOST_LOG_SUFFIX}{each}") for each in suffixes)
            changes.replace(next(each for each in names if not os.path.lexists(each)))


def _name_last(database: Path) -> Path:
    """Return the path of a name that a removal or a copy of `taskmem.*` leaves alone."""
    return database.with_name(f".{database.name}.last")


def _name_beside(database: Path, suffix: str) -> Path:
    return database.with_name(f"{database.name}{suffix}")


def _read_last(database: Path) -> tuple[Extent, datetime] | None:
    """Return what a database last had, and when; None: that is not known."""
    path = _name_last(database)
    try:
        position, tasks = path.read_text("ascii").split()
        at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return Extent(int(position), int(tasks)), at
    except (OSError, ValueError):
        # A power cut may leave it empty.
        return None


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
