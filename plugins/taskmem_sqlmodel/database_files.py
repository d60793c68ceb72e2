"""Check that the files of an open SQLite database are still in place."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Generator
from pathlib import Path

import sqlalchemy as sa

from taskmem_hookspecs import StoreUnavailable

Identity = tuple[int, int]
"""The device and inode of a file."""


class DatabaseFiles:
    """The file of an open database and its write-ahead log, identified when opened."""

    def __init__(self, path: Path, keeper: sa.Connection) -> None:
        """Record the identity of the files.

        `keeper` stays open as long as the database: as long as a connection is open, SQLite does
        not remove or replace the log.
        """
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._keeper = keeper
        with keeper.begin():
            keeper.exec_driver_sql("SELECT 1 FROM sqlite_schema").all()
        self._opened = self._identify()
        self._written = self._read_state()
        self._is_overwritten = False
        self._one_writer = threading.Lock()

    def require_in_place(self) -> None:
        """Check that the files at these paths are the ones that were opened.

        Raises:
            StoreUnavailable: A file was replaced or removed, so writes into the open one are
                lost.
        """
        if self._identify() != self._opened:
            raise StoreUnavailable(
                f"The database {self._path} or its log was replaced or removed while a "
                "daemon had it open, so this is not kept; that daemon ends by itself, "
                "so try again in a few seconds."
            )

    @contextlib.contextmanager
    def guard_write(self) -> Generator[None]:
        """Check the files before and after a write, one write at a time.

        A size or time that another program gave the file since the last write is remembered. A
        second writer of this process would look like one, so it waits.

        Raises:
            StoreUnavailable: A file was replaced or removed, so the write is lost.
        """
        with self._one_writer:
            self.require_in_place()
            self._note_foreign_write()
            try:
                yield
            finally:
                self._written = self._read_state()
            self.require_in_place()

    def _note_foreign_write(self) -> None:
        self._is_overwritten = self._is_overwritten or self._read_state() != self._written

    def close(self) -> None:
        """Close the last connection, unless that would destroy the file.

        The last connection to close checkpoints the log into the file. If the log was removed and
        another program overwrote the file, that would corrupt it. In that case leave the connection
        open until the process ends, which checkpoints nothing.
        """
        (file, log), (file_before, log_before) = self._identify(), self._opened
        lost_log = file == file_before and log != log_before
        self._note_foreign_write()
        if lost_log and self._is_overwritten:
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
    """Return the device and inode of the file at a path; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def leave_open(connection: sa.Connection) -> None:
    """Prevent a connection from being closed by this process, even at exit."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
