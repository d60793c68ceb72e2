"""What a process does to the files of a folder, written down as it is done."""

from __future__ import annotations

import mmap
import pickle
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

CREATE: Final = "create"
WRITE: Final = "write"
TRUNCATE: Final = "truncate"
SYNC: Final = "sync"
RENAME: Final = "rename"
DELETE: Final = "delete"
OPEN: Final = "open"
"""Of a file that is there: it changes nothing, and may fail."""
HOME: Final = "."
"""The path of the folder itself."""


class Operation(NamedTuple):
    """One call of the system."""

    kind: str
    path: str
    """Inside the folder."""
    offset: int = 0
    """Where is written; the size that is left; 1: names in the folder are synced, too."""
    data: bytes = b""
    to: str = ""
    """The new path of a file that is renamed."""


class Journal:
    """A file that has all operations of a process; it grows with each, and outlives the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0

    def read_operations(self) -> list[Operation]:
        """Return the operations since the last call; from the first one if there was none."""
        with self._path.open("rb") as file:
            file.seek(self._place)
            found = list(_load_all(file))
            self._place = file.tell()
        return found


def _load_all(file: BinaryIO) -> Iterator[Operation]:
    with suppress(EOFError):
        while True:
            yield Operation(*pickle.load(file))  # noqa: S301 - our own


class Control:
    """Numbers that a test and the process that it records both see, in a file of both."""

    _NAMES: Final = ("done", "kill_at", "fault", "skipped", "times", "failed")
    done: int
    """Operations that were done."""
    kill_at: int
    """The process is killed before that operation; -1: never."""
    fault: int
    """The errno with which an operation fails; 0: none fails."""
    skipped: int
    """How many operations, of those that could fail so, do not before one does."""
    times: int
    """How many operations fail then."""
    failed: int
    """How many have failed."""

    def __init__(self, path: Path) -> None:
        size = 8 * len(self._NAMES)
        is_new = not path.exists()
        with path.open("w+b" if is_new else "r+b") as file:
            if is_new:
                file.write(bytes(size))
                file.flush()
            self.__dict__["_memory"] = mmap.mmap(file.fileno(), size)
        if is_new:
            self.kill_at = -1

    def __getattr__(self, name: str) -> int:
        place = 8 * self._NAMES.index(name)
        return int(struct.unpack_from("q", self._memory, place)[0])

    def __setattr__(self, name: str, value: int) -> None:
        struct.pack_into("q", self._memory, 8 * self._NAMES.index(name), value)
