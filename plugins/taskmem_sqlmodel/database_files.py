"""Where the files of a database of SQLite are, and whether they still are there."""

from __future__ import annotations

import ctypes
from pathlib import Path

import sqlalchemy as sa

from taskmem_hookspecs import StoreUnavailable

Identity = tuple[int, int]
"""The device and inode of a file."""


class DatabaseFiles:
    """The file of an open database and its write-ahead log, as they were opened."""

    def __init__(self, path: Path, keeper: sa.Connection) -> None:
        """Take the file, and a connection that stays open for as long as the database.

        While one is open nobody but a stranger removes or replaces the log.
        """
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._keeper = keeper
        with keeper.begin():
            keeper.exec_driver_sql("SELECT 1 FROM sqlite_schema").all()
        self._opened = self._identify()
        self._written = self._read_state()

    def require_in_place(self) -> None:
        """See that the files are still where everybody looks for them.

        Raises:
            StoreUnavailable: One was replaced or removed: what is written into the
                open ones will be found by nobody.
        """
        if self._identify() != self._opened:
            raise StoreUnavailable(
                f"The database {self._path} or its log was replaced or removed while a "
                "daemon had it open, so this is not kept; that daemon ends by itself, "
                "so try again in a few seconds."
            )

    def note_write(self) -> None:
        """Note how the file is after a write of ours."""
        self._written = self._read_state()

    def close(self) -> None:
        """Let go of the database.

        Who closes it last moves its log into its file. That would destroy a file that
        was written over, so there nobody closes it last: the connection is left open
        until the process has ended, whose end moves nothing.
        """
        (file, log), (file_before, log_before) = self._identify(), self._opened
        lost_log = file == file_before and log != log_before
        if lost_log and self._read_state() != self._written:
            leave_open(self._keeper)
        else:
            self._keeper.close()

    def _identify(self) -> tuple[Identity | None, Identity | None]:
        return find_identity(self._path), find_identity(self._log)

    def _read_state(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns


def find_identity(path: Path) -> Identity | None:
    """Return which file a path leads to; None: it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def leave_open(connection: sa.Connection) -> None:
    """Keep a connection from ever being closed by this process, also at its end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
