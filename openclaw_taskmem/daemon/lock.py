"""Lock a home for one daemon, as long as its process lives.

The system releases the lock when the process ends in any way. The file has the pid and start time
of the last process that took it, its machine, and says whether that one is shutting down.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Final, NamedTuple

from openclaw_taskmem.daemon.processes import identify_process

MOST_TRIES: Final = 20
_TRY_SECONDS: Final = 0.02
_RECORD: Final = 64
"""Fixed size of the file in bytes, so that one write replaces all of it."""
_SERVICE: Final = "serves"
_ENDING: Final = "ending"
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
"""Refuse a link in the file's place, so that its target is not written."""


class LockHolder(NamedTuple):
    """The process that holds a lock, according to the file.

    A process that has just taken the lock may not have written the file yet: then this is the
    previous holder, which has ended, and whose pid another process may have now.
    """

    pid: int | None
    """None: not in the file."""
    ending: bool = False
    """True if it no longer answers calls."""
    written_at: float = 0.0
    """When the file was last written, in epoch seconds."""
    process: str | None = None
    """As `identify_process` returns it; None: not in the file."""
    machine: str | None = None
    """Name of another machine or container that it runs on; None: this one, or not in the file."""


class LockHeld(Exception):
    """Another daemon holds the lock."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"process {pid} holds the lock")
        self.pid = pid


class Lock:
    """An exclusive lock on a file that names its holder."""

    def __init__(self, path: Path, *, named: bool = True) -> None:
        """Take the lock.

        `named`: True to write this process into the file, as the home's daemon does.

        Raises:
            LockHeld: Another process has it.
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
        """Write into the file that the holder no longer answers calls."""
        self._write_record(_ENDING)

    def _write_record(self, word: str = _SERVICE) -> None:
        try:
            os.pwrite(self._file, _format_record(self._name, word).encode(), 0)
        except OSError:
            # The disk is full: keep the lock without a name in the file.
            with contextlib.suppress(OSError):
                os.utime(self._file)

    def _try_lock(self) -> bool:
        """Try several times, because `find_holder` also takes the lock for a moment."""
        for _ in range(MOST_TRIES):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_TRY_SECONDS)
            else:
                return True
        return False

    @property
    def is_in_place(self) -> bool:
        """True if the locked file is still at its path."""
        mine = os.fstat(self._file)
        return read_file_identity(self._path) == (mine.st_dev, mine.st_ino)

    def release(self) -> None:
        """Release the lock; the file stays, since removing it would race with other processes."""
        os.close(self._file)


def read_file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file; None if it does not exist or cannot be read."""
    try:
        there = path.stat()
    except OSError:
        return None
    return there.st_dev, there.st_ino


def find_holder(path: Path) -> LockHolder | None:
    """Return the process that holds a lock; None if none does or the file system has no locks.

    Raises:
        OSError: The file cannot be opened.
    """
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
    text = os.pread(file, _RECORD, 0).decode("ascii", "replace")
    name, word, machine, *_ = [*text.split(), "", "", ""]
    number, _, started = name.partition(":")
    pid = int(number) if number.isascii() and number.isdigit() else None
    return LockHolder(
        pid,
        word == _ENDING,
        os.fstat(file).st_mtime,
        name if pid is not None and started else None,
        None if _format_record(name, word).split()[2:] == [machine] else machine or None,
    )


def _format_record(name: str, word: str) -> str:
    """Return what the file says of a process of this machine, whose name is cut to fit."""
    return f"{name} {word} {_get_machine()}"[: _RECORD - 1].ljust(_RECORD - 1) + "\n"


def _get_machine() -> str:
    """Return the name of this machine, as one word of ASCII."""
    return "".join(os.uname().nodename.encode("ascii", "replace").decode().split())
