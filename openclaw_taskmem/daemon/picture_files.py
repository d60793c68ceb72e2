"""Store snapshots of waits as files that only their owner can read.

A snapshot is `<folder>/<wait_id>/<moment>.jpg`. The file's modification time is when it was taken,
so one rename replaces both the picture and its time.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import JsonValue

from openclaw_taskmem.domain.text.texts import format_iso_millis
from taskmem_hookspecs import Wait

log = logging.getLogger(__name__)

LARGEST_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of all snapshots together; the oldest are removed first."""
_DAY: Final = 86_400.0
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""Valid wait ids; without dots and slashes none leads out of the folder."""


class SnapshotMoment(StrEnum):
    """Which picture of a wait a snapshot shows."""

    FIRST = "first"
    """The first one shown to the judges in this round."""
    LAST = "last"
    """The one of the newest observation."""
    DECIDING = "deciding"
    """The one that resolved the wait."""


class Snapshot(NamedTuple):
    """A stored picture."""

    path: Path
    taken_at: datetime


class SnapshotStore:
    """Stores snapshots until some days after their waits have ended."""

    def __init__(self, folder: Path, days: float, *, largest: int = LARGEST_BYTES) -> None:
        """Create a store; its folder is created with the first snapshot.

        Args:
            folder: The folder; its parent must exist.
            days: How long snapshots stay after their waits ended; 0 stores none.
            largest: Maximum size of all snapshots in bytes, enforced by `prune`.
        """
        self._folder = folder
        self._days = days
        self._largest = largest

    @property
    def is_enabled(self) -> bool:
        """True if snapshots are stored at all."""
        return self._days > 0

    def write(self, wait_id: str, moment: SnapshotMoment, jpeg: bytes, taken_at: datetime) -> None:
        """Store a snapshot in place of an earlier one.

        Raises:
            OSError: It cannot be written; the earlier one is still there.
            ValueError: No wait has such an id.
        """
        if not _NAME.fullmatch(wait_id):
            raise ValueError(f"{wait_id!r} cannot be the name of a folder of pictures")
        folder = self._folder / wait_id
        for each in (self._folder, folder):
            each.mkdir(mode=0o700, exist_ok=True)
        fresh = folder / _format_temporary_name(moment)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
                file.write(jpeg)
                file.flush()
                os.fsync(file.fileno())
            os.utime(fresh, (taken_at.timestamp(), taken_at.timestamp()))
            fresh.replace(folder / _format_name(moment))
        except BaseException:
            # On a full disk, a partial file would take space that is needed.
            with suppress(OSError):
                fresh.unlink()
            raise

    def find_snapshots(self, wait_id: str) -> Mapping[SnapshotMoment, Snapshot]:
        """Return the snapshots of a wait by moment; empty if there is no such wait."""
        found: dict[SnapshotMoment, Snapshot] = {}
        if _NAME.fullmatch(wait_id):
            for moment in SnapshotMoment:
                path = self._folder / wait_id / _format_name(moment)
                with suppress(OSError):
                    taken_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
                    found[moment] = Snapshot(path, taken_at)
        return found

    def build_view(self, wait: Wait, now: datetime) -> dict[str, JsonValue]:
        """Return a wait's snapshots as JSON, or a note that says why there are none.

        `{"pictures": {"first": {"path": …, "taken_at": …}, …}, "pictures_note": …}`
        """
        kept = self.find_snapshots(wait.wait_id)
        return {
            "pictures": {
                moment.value: {
                    "path": str(snapshot.path),
                    "taken_at": format_iso_millis(snapshot.taken_at),
                }
                for moment, snapshot in kept.items()
            },
            "pictures_note": None if kept else self._explain_absence(wait, now),
        }

    def _explain_absence(self, wait: Wait, now: datetime) -> str | None:
        if wait.target.startswith("pty:"):
            return "A terminal has none."
        if not self.is_enabled:
            return "TASKMEM_PICTURE_DAYS is 0."
        if self._is_expired(wait, now):
            return f"They are removed {self._days:g} days after a wait ended."
        return None

    # --- pruning --------------------------------------------------------------

    def prune(self, find: Callable[[str], Wait | None], now: datetime) -> None:
        """Remove expired snapshots, then the oldest beyond the maximum size, and no other files.

        Args:
            find: Returns the wait with an id; None if there is none.
            now: The current instant.
        """
        for folder in self._list_folders():
            wait = find(folder.name) if self.is_enabled else None
            if wait is None or self._is_expired(wait, now):
                for moment in SnapshotMoment:
                    _remove_file(folder / _format_name(moment))
                    _remove_file(folder / _format_temporary_name(moment))
        self._shrink()
        for folder in self._list_folders():
            with suppress(OSError):  # it holds something
                folder.rmdir()

    def _is_expired(self, wait: Wait, now: datetime) -> bool:
        """Return True if the wait ended more than `days` ago."""
        if wait.ended_at is None:
            return False
        return (now - wait.ended_at).total_seconds() > self._days * _DAY

    def _shrink(self) -> None:
        """Remove the oldest snapshots until the total size is within the maximum."""
        kept: list[tuple[float, int, Path]] = []
        for folder in self._list_folders():
            for moment in SnapshotMoment:
                path = folder / _format_name(moment)
                with suppress(OSError):
                    found = path.stat()
                    kept.append((found.st_mtime, found.st_size, path))
        excess = sum(size for _, size, _ in kept) - self._largest
        for _, size, path in sorted(kept):
            if excess <= 0:
                return
            _remove_file(path)
            excess -= size

    def _list_folders(self) -> list[Path]:
        try:
            with os.scandir(self._folder) as entries:
                return [
                    Path(entry.path)
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False) and _NAME.fullmatch(entry.name)
                ]
        except FileNotFoundError:
            return []


def _format_name(moment: SnapshotMoment) -> str:
    return f"{moment}.jpg"


def _format_temporary_name(moment: SnapshotMoment) -> str:
    """Return the file name of a snapshot while it is written."""
    return f".{moment}.jpg.new"


def _remove_file(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error.strerror)
