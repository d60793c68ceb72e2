"""The lock that makes one daemon of a home: held for as long as it lives.

The system lets go of it when the process ends, however it ends. The file names the
process that took it last, with its start, and says whether that has begun to end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Final, NamedTuple

from openclaw_taskmem.daemon.processes import identify_process

TRIES: Final = 20
TRY_SECONDS: Final = 0.02
_RECORD: Final = 64
"""Bytes in the file, always as many: it is written at once, and never seen half."""
_ENDING: Final = "ending"
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
"""A link in the file's place is nobody's lock: what it leads to is not written."""


class LockHolder(NamedTuple):
    """Who holds a lock, as the file says.

    Whoever has just taken it may not have written its name yet: then it is that of the
    process before, which lives no more, though its number may be a stranger's by now.
    """

    pid: int | None
    """None: the file does not say."""
    ending: bool = False
    """Whether it answers nobody any more."""
    written_at: float = 0.0
    """When the file was last written, as seconds of the epoch."""
    process: str | None = None
    """Which process that is, as `processes.identity` tells them apart; None: the file
    does not say."""


class LockHeld(Exception):
    """Another daemon holds the lock."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"process {pid} holds the lock")
        self.pid = pid


class Lock:
    """An exclusive lock on a file, with the holder's name in it."""

    def __init__(self, path: Path, *, named: bool = True) -> None:
        """Take the lock.

        Args:
            path: The file.
            named: Whether this process writes its name, as the home's daemon.

        Raises:
            Held: Another process has it.
            OSError: It cannot be opened, is a link, or its file system has no locks.
        """
        self._name = identify_process(os.getpid()) or str(os.getpid())
        self._file = os.open(path, _FLAGS | os.O_CREAT, 0o600)
        try:
            taken = self._try_lock()
        except OSError as error:
            os.close(self._file)
            error.filename = str(path)
            raise
        if not taken:
            pid = _read_holder(self._file).pid
            os.close(self._file)
            raise LockHeld(pid)
        self._path = path
        if named:
            self._write_record()

    def mark_ending(self) -> None:
        """Let those who look know that the holder answers nobody any more."""
        self._write_record(_ENDING)

    def _write_record(self, word: str = "") -> None:
        record = f"{self._name} {word}".ljust(_RECORD - 1) + "\n"
        try:
            os.pwrite(self._file, record.encode(), 0)
        except OSError:
            # The disk is full: the lock is held without a name in it, from now on.
            with contextlib.suppress(OSError):
                os.utime(self._file)

    def _try_lock(self) -> bool:
        """Try for a moment: `find_holder` takes the lock, too, while it looks."""
        for _ in range(TRIES):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(TRY_SECONDS)
            else:
                return True
        return False

    @property
    def is_in_place(self) -> bool:
        """Whether the file that is locked is still where everybody looks for it."""
        mine = os.fstat(self._file)
        return read_file_identity(self._path) == (mine.st_dev, mine.st_ino)

    def release(self) -> None:
        """Let go of it; the file stays, for removing it would race with others."""
        os.close(self._file)


def read_file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file; None: it is not there."""
    try:
        there = path.stat()
    except OSError:
        return None
    return there.st_dev, there.st_ino


def find_holder(path: Path) -> LockHolder | None:
    """Return who holds a lock; None: nobody does, or its file system has no locks."""
    try:
        file = os.open(path, _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return _read_holder(file) if isinstance(error, BlockingIOError) else None
    else:
        return None
    finally:
        os.close(file)


def _read_holder(file: int) -> LockHolder:
    name, _, word = os.pread(file, _RECORD, 0).decode("ascii", "replace").strip().partition(" ")
    number, _, started = name.partition(":")
    pid = int(number) if number.isascii() and number.isdigit() else None
    process = name if pid is not None and started else None
    return LockHolder(pid, word.strip() == _ENDING, os.fstat(file).st_mtime, process)
