"""The doctor's check of how large the home is, and how much is free on its disk."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from openclaw_taskmem.cli.core_checks import build_ok_row, build_warn_row
from openclaw_taskmem.daemon.work_folders import RESTORE
from openclaw_taskmem.home import Home
from taskmem_hookspecs import HealthRow

MIB: Final = 1024 * 1024
LARGE_HOME_BYTES: Final = 2048 * MIB
"""Bytes above which a home is large, without what was recorded of the screen."""
SCARCE_BYTES: Final = 1024 * MIB
"""Free bytes below which room on the disk is scarce."""
_SCREEN: Final = "recordings of the screen"
_OTHER_FILES: Final = "other files"
_PARTS: Final = {
    "taskmem.db": "database",
    "recall": "index of past tasks",
    "terminals": "recordings of commands",
    "recordings": _SCREEN,
    "pictures": "pictures of waits",
    "daemon.log": "logs",
    "replaced-": "set aside by restore",
    RESTORE: "unpacked by restore",
}
"""Parts of a home, by the beginning of names in it."""
_FULL_EFFECT: Final = "When it is full, no report of an agent can be stored."
_FULL_BESIDE_EFFECT: Final = (
    "When it is full, no picture of a wait, recording or past task can be stored, nor any report "
    "of an agent if the database is on this disk, too."
)
_RESTART: Final = "then run: taskmem daemon restart"
_CURES: Final = {
    "database": f"Set TASKMEM_KEEP_DAYS or TASKMEM_KEEP_MB lower, {_RESTART}",
    "index of past tasks": "Remove the folder recall in it: that is a copy of the tasks, which is "
    "made anew, and grows with the tasks that are kept.",
    "recordings of commands": "End commands under taskmem run that you no longer need.",
    "pictures of waits": f"Set TASKMEM_PICTURE_DAYS lower, {_RESTART}",
    "set aside by restore": "Remove the folders replaced-… in it that you no longer need.",
    "unpacked by restore": "If no taskmem restore runs, one was killed, and the next start of the "
    "daemon removes what it left. Run: taskmem daemon restart",
}


def check_home_size(home: Home, *, has_database: bool) -> HealthRow:
    """Return the row on the room that a home takes and has.

    `has_database`: its tasks are kept in the home.
    """
    folder = next(each for each in (home.folder, *home.folder.parents) if each.exists())
    free = shutil.disk_usage(folder).free
    return build_size_row(home, measure_parts(home.folder), free, has_database=has_database)


def measure_parts(folder: Path) -> Mapping[str, int]:
    """Return the bytes of each part of a home; files that come and go meanwhile are left out."""
    sizes: Counter[str] = Counter()
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where, name)
            first = path.relative_to(folder).parts[0]
            part = next((p for begun, p in _PARTS.items() if first.startswith(begun)), _OTHER_FILES)
            try:
                sizes[part] += path.lstat().st_size
            except OSError:
                continue
    return sizes


def build_size_row(
    home: Home, sizes: Mapping[str, int], free: int, *, has_database: bool = True
) -> HealthRow:
    """Return the row on a home of such a size; it warns if that, or what is free, is a trouble."""
    largest = sorted(sizes, key=lambda part: -sizes[part])
    parts = [f"{part} {_format_size(sizes[part])}" for part in largest if sizes[part] >= MIB]
    listed = f" ({', '.join(parts)})" if parts else ""
    detail = (
        f"The home takes {_format_size(sum(sizes.values()))}{listed}, and {_format_size(free)} are "
        "free on its disk."
    )
    own = [part for part in largest if part != _SCREEN]
    if free < SCARCE_BYTES:
        cure = f"Make room on the disk of {home.folder}."
        effect = _FULL_EFFECT if has_database else _FULL_BESIDE_EFFECT
        return build_warn_row("kept.home", detail, cure, effect)
    if sum(sizes[part] for part in own) > LARGE_HOME_BYTES:
        cure = _CURES.get(own[0], f"Look at what takes it: du -ah {home.folder}")
        return build_warn_row("kept.home", detail, cure)
    return build_ok_row("kept.home", detail)


def _format_size(size: int) -> str:
    return f"{size / MIB:,.0f} MiB"
