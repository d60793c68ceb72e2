"""The album: pictures that are kept of waits, as files that their owner alone reads.

A snapshot is `<folder>/<wait_id>/<moment>.jpg`, and the time of that file is when it
was taken: so the picture and its time are replaced in one step.
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

from openclaw_taskmem.domain.texts import iso_millis
from taskmem_hookspecs import Wait

log = logging.getLogger(__name__)

LARGEST_BYTES: Final = 256 * 1024 * 1024
"""What all snapshots together may take; the oldest go first."""
_DAY: Final = 86_400.0
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""What a wait's id looks like: no dot and no slash leads out of the album."""


class Moment(StrEnum):
    """Which picture of a wait a snapshot is."""

    FIRST = "first"
    """The first that the judges were shown in its round."""
    LAST = "last"
    """What its newest observation tells of."""
    DECIDING = "deciding"
    """What resolved it."""


class Snapshot(NamedTuple):
    """One picture that is kept."""

    path: Path
    taken_at: datetime


class Album:
    """Keeps snapshots for some days after their waits have ended."""

    def __init__(
        self, folder: Path, days: float, *, largest: int = LARGEST_BYTES
    ) -> None:
        """Take where they are kept.

        Args:
            folder: Made when there is something to keep; its parent must be there.
            days: How long they stay after their waits ended; 0 keeps none.
            largest: How many bytes all of them may take after `prune`.
        """
        self._folder = folder
        self._days = days
        self._largest = largest

    @property
    def keeps(self) -> bool:
        """Whether anything is kept at all."""
        return self._days > 0

    def write(
        self, wait_id: str, moment: Moment, jpeg: bytes, taken_at: datetime
    ) -> None:
        """Keep a snapshot in place of the one that is there.

        Raises:
            OSError: It cannot be written; the one before is still there.
            ValueError: No wait has such an id.
        """
        if not _NAME.fullmatch(wait_id):
            raise ValueError(f"{wait_id!r} cannot be the name of a folder of pictures")
        folder = self._folder / wait_id
        for each in (self._folder, folder):
            each.mkdir(mode=0o700, exist_ok=True)
        fresh = folder / _fresh(moment)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
                file.write(jpeg)
            os.utime(fresh, (taken_at.timestamp(), taken_at.timestamp()))
            fresh.replace(folder / _kept(moment))
        except BaseException:
            # On a full disk, half a picture would keep the room that is needed.
            with suppress(OSError):
                fresh.unlink()
            raise

    def of(self, wait_id: str) -> Mapping[Moment, Snapshot]:
        """Return what is kept of a wait, by moment; of no such wait, nothing."""
        found: dict[Moment, Snapshot] = {}
        if _NAME.fullmatch(wait_id):
            for moment in Moment:
                path = self._folder / wait_id / _kept(moment)
                with suppress(OSError):
                    taken_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
                    found[moment] = Snapshot(path, taken_at)
        return found

    def view(self, wait: Wait, now: datetime) -> dict[str, JsonValue]:
        """Return what is kept of a wait as JSON, or why nothing is, if that is known.

        `{"pictures": {"first": {"path": …, "taken_at": …}, …}, "pictures_note": …}`
        """
        kept = self.of(wait.wait_id)
        return {
            "pictures": {
                moment.value: {
                    "path": str(snapshot.path),
                    "taken_at": iso_millis(snapshot.taken_at),
                }
                for moment, snapshot in kept.items()
            },
            "pictures_note": None if kept else self._why_none(wait, now),
        }

    def _why_none(self, wait: Wait, now: datetime) -> str | None:
        if wait.target.startswith("pty:"):
            return "A terminal has none."
        if not self.keeps:
            return "TASKMEM_PICTURE_DAYS is 0."
        if self._is_over(wait, now):
            return f"They are removed {self._days:g} days after a wait ended."
        return None

    # --- pruning --------------------------------------------------------------

    def prune(self, find: Callable[[str], Wait | None], now: datetime) -> None:
        """Remove what need not be kept any longer, and nothing that is not ours.

        Args:
            find: Returns the wait of an id; None: there is none.
            now: What days are counted back from.
        """
        for folder in self._folders():
            wait = find(folder.name) if self.keeps else None
            if wait is None or self._is_over(wait, now):
                for moment in Moment:
                    _remove(folder / _kept(moment))
                    _remove(folder / _fresh(moment))
        self._shrink()
        for folder in self._folders():
            with suppress(OSError):  # it holds something
                folder.rmdir()

    def _is_over(self, wait: Wait, now: datetime) -> bool:
        """Whether a wait ended so long ago that nothing of it is kept."""
        if wait.ended_at is None:
            return False
        return (now - wait.ended_at).total_seconds() > self._days * _DAY

    def _shrink(self) -> None:
        """Remove the oldest until all together are small enough."""
        kept: list[tuple[float, int, Path]] = []
        for folder in self._folders():
            for moment in Moment:
                path = folder / _kept(moment)
                with suppress(OSError):
                    found = path.stat()
                    kept.append((found.st_mtime, found.st_size, path))
        excess = sum(size for _, size, _ in kept) - self._largest
        for _, size, path in sorted(kept):
            if excess <= 0:
                return
            _remove(path)
            excess -= size

    def _folders(self) -> list[Path]:
        try:
            with os.scandir(self._folder) as entries:
                return [
                    Path(entry.path)
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False)
                    and _NAME.fullmatch(entry.name)
                ]
        except FileNotFoundError:
            return []


def _kept(moment: Moment) -> str:
    return f"{moment}.jpg"


def _fresh(moment: Moment) -> str:
    """Return the name of a snapshot that is being written."""
    return f".{moment}.jpg.new"


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error.strerror)
