"""The lock that makes one daemon of a home: held for as long as it lives.

The system lets go of it when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Final

TRIES: Final = 20
TRY_SECONDS: Final = 0.02


class Held(Exception):
    """Another daemon holds the lock."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"process {pid} holds the lock")
        self.pid = pid


class Lock:
    """An exclusive lock on a file, with the holder's process id in it."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            Held: Another process has it.
        """
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not self._taken():
            pid = _pid(self._file)
            os.close(self._file)
            raise Held(pid)
        self._path = path
        # Where the disk is full, the lock is held without a name in it.
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def _taken(self) -> bool:
        """Try for a moment: `holder` takes the lock, too, while it looks."""
        for _ in range(TRIES):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(TRY_SECONDS)
            else:
                return True
        return False

    @property
    def in_place(self) -> bool:
        """Whether the file that is locked is still where everybody looks for it."""
        try:
            there = self._path.stat()
        except OSError:
            return False
        mine = os.fstat(self._file)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def release(self) -> None:
        """Let go of it; the file stays, for removing it would race with others."""
        os.ftruncate(self._file, 0)
        os.close(self._file)


def holder(path: Path) -> int | None:
    """Return the process id of the daemon that holds a lock; None: nobody does."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _pid(file)
    else:
        return None
    finally:
        os.close(file)


def _pid(file: int) -> int | None:
    text = os.pread(file, 32, 0).strip()
    return int(text) if text.isdigit() else None
