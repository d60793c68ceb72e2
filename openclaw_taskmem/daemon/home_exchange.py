"""Exchange the content of a home for that of a back-up, so that a crash in between loses nothing.

The content that takes its place lies in a folder of the home. Renaming that folder decides each of
the two steps; what a crash cut short is finished by `finish_exchange`, which every daemon calls
before it opens anything. Whoever makes a folder for a back-up locks it, and the system releases
that lock when the process ends in any way; folders that killed processes left are removed.
"""

from __future__ import annotations

import fcntl
import fnmatch
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import Final

from taskmem_program.files import sync_folder

BACKUP: Final = ".taskmem-backup-unfinished-"
"""Prefix of the folder in which a back-up is written, beside the file that it becomes."""
RESTORE: Final = "restore-unfinished-"
"""Prefix of the folder in a home into which a back-up is unpacked."""
_OLD_FILES: Final = ("recall", "shells", "setup/*.before", "setup/*.sum", "taskmem.last")
"""Files and folders of earlier builds in a home: an index of past tasks, the lists that shells had
shown, copies of other hosts' files as they were before set-up, with their checksums, and what the
database last had, by another name."""


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


def remove_old_files(folder: Path) -> None:
    """Remove what earlier builds kept in a home, and nothing reads any more."""
    for path in chain.from_iterable(map(folder.glob, _OLD_FILES)):
        with suppress(OSError):
            if path.is_symlink() or not path.is_dir():
                path.unlink()
            else:
                import shutil

                shutil.rmtree(path, ignore_errors=True)


# --- the exchange --------------------------------------------------------------------------


_ARRIVING_PREFIX: Final = "arriving-"
"""Prefix of the folder with the new content while the old is set aside."""
_ENTERING_PREFIX: Final = "entering-"
"""Prefix of the same folder while its content takes its place."""
_ASIDE_PREFIX: Final = "replaced-"
"""Prefix of the folder with the old content."""
_REPLACED_FILES: Final = (
    "taskmem.db",
    "taskmem.db?*",
    ".taskmem.db.last",
    "home.database*",
    "pictures",
    "config.toml",
    "home.id",
)
"""Files and folders that a back-up replaces, by patterns; all else in the home stays.

The database leaves first and enters last: without its log it would open as an older one.
"""


def begin_exchange(folder: Path, fresh: Path, stamp: str) -> Path:
    """Replace the content of a home that no daemon serves; return the folder with the old one.

    `fresh`: the folder with the new content, in the home; `stamp` names the folder with the old
    one.
    """
    finish_exchange(folder)
    stamps = chain((stamp,), (f"{stamp}-{number}" for number in count(2)))
    stamp = next(each for each in stamps if not os.path.lexists(folder / f"{_ASIDE_PREFIX}{each}"))
    for each in (fresh, *(path for path in fresh.rglob("*") if path.is_dir())):
        sync_folder(each)
    fresh.rename(folder / f"{_ARRIVING_PREFIX}{stamp}")
    sync_folder(folder)
    finish_exchange(folder)
    return folder / f"{_ASIDE_PREFIX}{stamp}"


def is_unfinished(folder: Path) -> bool:
    """Return True if an exchange is under way in a home, or was cut short."""
    return any(chain(folder.glob(f"{_ARRIVING_PREFIX}*"), folder.glob(f"{_ENTERING_PREFIX}*")))


def finish_exchange(folder: Path) -> None:
    """Finish an exchange that was cut short in a home whose lock this process holds."""
    for arriving in folder.glob(f"{_ARRIVING_PREFIX}*"):
        stamp = arriving.name.removeprefix(_ARRIVING_PREFIX)
        aside = folder / f"{_ASIDE_PREFIX}{stamp}"
        aside.mkdir(mode=0o700, exist_ok=True)
        _move_all(_REPLACED_FILES, folder, aside)
        arriving.rename(folder / f"{_ENTERING_PREFIX}{stamp}")
        sync_folder(folder)
    for entering in folder.glob(f"{_ENTERING_PREFIX}*"):
        _move_all(_REPLACED_FILES[::-1], entering, folder)
        entering.rmdir()
        sync_folder(folder)


def _move_all(patterns: Sequence[str], source: Path, target: Path) -> None:
    for pattern in patterns:
        for name in fnmatch.filter(sorted(os.listdir(source)), pattern):  # noqa: PTH208 (names)
            (source / name).rename(target / name)
    sync_folder(target)
