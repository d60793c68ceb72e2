"""Exchange the content of a home for that of a back-up, so that a crash in between loses nothing.

The content that takes its place lies in a folder of the home. Renaming that folder decides each of
the two steps; what a crash cut short is finished by `finish_exchange`, which every daemon calls
before it opens anything.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import Final

ARRIVING: Final = "arriving-"
"""Prefix of the folder with the new content while the old is set aside."""
ENTERING: Final = "entering-"
"""Prefix of the same folder while its content takes its place."""
ASIDE: Final = "replaced-"
"""Prefix of the folder with the old content."""
REPLACED: Final = (
    *("taskmem.db", "taskmem.db-wal", "taskmem.db-shm"),
    *("pictures", "config.toml", "home.id"),
)
"""Files and folders that a back-up replaces; all else in the home stays.

The database leaves first and enters last: without its log it would open as an older one.
"""


def begin_exchange(folder: Path, fresh: Path, stamp: str) -> Path:
    """Replace the content of a home that no daemon serves; return the folder with the old one.

    Args:
        folder: The home.
        fresh: The folder with the new content, in the home.
        stamp: The time of this exchange, for the name of the folder with the old content.
    """
    finish_exchange(folder)
    stamps = chain((stamp,), (f"{stamp}-{number}" for number in count(2)))
    stamp = next(each for each in stamps if not os.path.lexists(folder / f"{ASIDE}{each}"))
    for each in (fresh, *(path for path in fresh.rglob("*") if path.is_dir())):
        _sync_folder(each)
    fresh.rename(folder / f"{ARRIVING}{stamp}")
    _sync_folder(folder)
    finish_exchange(folder)
    return folder / f"{ASIDE}{stamp}"


def is_unfinished(folder: Path) -> bool:
    """Return True if an exchange is under way in a home, or was cut short."""
    return any(chain(folder.glob(f"{ARRIVING}*"), folder.glob(f"{ENTERING}*")))


def finish_exchange(folder: Path) -> None:
    """Finish an exchange that was cut short in a home whose lock this process holds."""
    for arriving in folder.glob(f"{ARRIVING}*"):
        stamp = arriving.name.removeprefix(ARRIVING)
        aside = folder / f"{ASIDE}{stamp}"
        aside.mkdir(mode=0o700, exist_ok=True)
        _move_all(REPLACED, folder, aside)
        arriving.rename(folder / f"{ENTERING}{stamp}")
        _sync_folder(folder)
    for entering in folder.glob(f"{ENTERING}*"):
        _move_all(REPLACED[::-1], entering, folder)
        entering.rmdir()
        _sync_folder(folder)


def _move_all(names: Sequence[str], source: Path, target: Path) -> None:
    for name in names:
        if os.path.lexists(source / name):
            (source / name).rename(target / name)
    _sync_folder(target)


def _sync_folder(folder: Path) -> None:
    # Imported where it is needed, as nothing heavy may be loaded before a daemon has its home.
    from taskmem_hookspecs.files import sync_folder

    sync_folder(folder)
