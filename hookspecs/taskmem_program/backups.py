"""Name the command that puts the last back-up of a home back."""

from __future__ import annotations

from pathlib import Path
from typing import Final

BACKUP_NOTE: Final = "home.backup"
"""Name of the file, beside a home's database, that says where the last back-up was written."""


def write_restore_command(folder: Path) -> str:
    """Return the command that restores the last back-up of a home, as far as one is known."""
    import shlex  # with the next 2 ms, which each start of a command would pay
    from datetime import UTC, datetime

    try:
        file = Path((folder / BACKUP_NOTE).read_text("utf-8").strip())
        made = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (OSError, ValueError):
        return "taskmem restore --replace FILE"
    return f"taskmem restore --replace {shlex.quote(str(file))} (of {made:%Y-%m-%d %H:%M} UTC)"
