"""Make a folder for a back-up that is not finished, and remove those that killed processes left.

Whoever makes one locks it, and the system releases that lock when the process ends in any way.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

BACKUP: Final = ".taskmem-backup-unfinished-"
"""Prefix of the folder in which a back-up is written, beside the file that it becomes."""
RESTORE: Final = "restore-unfinished-"
"""Prefix of the folder in a home into which a back-up is unpacked."""
_OLD_INDEX: Final = "recall"


@contextmanager
def open_work_folder(parent: Path, prefix: str) -> Generator[Path]:
    """Make a folder in `parent`, and remove it at the end; what others left there goes first.

    Raises:
        OSError: It cannot be made.
    """
    import shutil

    remove_left_folders(parent, prefix)
    folder, lock = _make_locked_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make_locked_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    import tempfile

    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY)
            with suppress(OSError):  # a file system without locks: nobody else removes it
                fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)  # another process removed it before it was locked


def remove_left_folders(parent: Path, prefix: str) -> None:
    """Remove the folders of processes that have ended; one that cannot be locked stays."""
    import shutil

    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def remove_old_index(folder: Path) -> None:
    """Remove the index of past tasks that versions before 0.2 kept beside the database."""
    if (folder / _OLD_INDEX).is_dir():
        import shutil

        shutil.rmtree(folder / _OLD_INDEX, ignore_errors=True)
