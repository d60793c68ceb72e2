"""Take snapshots of waits, and store them as files that only their owner can read."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import JsonValue

from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.domain.text.texts import format_iso_millis
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import Clock, Frame, Picture, Ruling, Wait, WaitNotFound

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

        Snapshots stay `days` after their waits ended; 0 stores none. `largest`: maximum size of all
        in bytes, enforced by `prune`.
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
        snapshots = self.find_snapshots(wait.wait_id)
        return {
            "pictures": {
                moment.value: {
                    "path": str(snapshot.path),
                    "taken_at": format_iso_millis(snapshot.taken_at),
                }
                for moment, snapshot in snapshots.items()
            },
            "pictures_note": None if snapshots else self._explain_absence(wait, now),
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

        `find` returns the wait with an id; None if there is none.
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
        files: list[tuple[float, int, Path]] = []
        for folder in self._list_folders():
            for moment in SnapshotMoment:
                path = folder / _format_name(moment)
                with suppress(OSError):
                    found = path.stat()
                    files.append((found.st_mtime, found.st_size, path))
        excess = sum(size for _, size, _ in files) - self._largest
        for _, size, path in sorted(files):
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


# --- when they are taken -------------------------------------------------------------------


_LONGEST_SIDE: Final = 960
"""Longest side of a snapshot, in pixels."""
_GAP_SECONDS: Final = 5.0
"""Minimum time between two LAST snapshots of a watched wait."""
_PRUNE_SECONDS: Final = 3600.0
"""Interval between two removals of expired snapshots."""


class SeenPicture(NamedTuple):
    """A picture and when the target looked like that."""

    picture: Picture
    at: datetime


def find_seen_picture(frame: Frame, ruling: Ruling | None = None) -> SeenPicture | None:
    """Return the picture a ruling is based on, or the frame's; None if there is none.

    Compares with None only, since a truth test would run a plug-in's code.
    """
    own = ruling.picture if ruling is not None else None
    picture = frame.picture if own is None else own
    return None if picture is None else SeenPicture(picture, frame.seen_at)


class WaitSnapshots:
    """Decides which pictures of one round of a wait are stored."""

    def __init__(self, wait_id: str, queue: SnapshotQueue, *, resumed: bool) -> None:
        """Start with no picture shown or stored.

        `resumed`: True if an earlier daemon watched this round before.
        """
        self.wait_id: Final = wait_id
        self.resumed: Final = resumed
        self.troubled = False
        """True once a failure to store one was logged."""
        self._queue = queue
        self._shown = False
        self._newest: SeenPicture | None = None
        self._noted: Callable[[], Picture | None] = lambda: None
        """Returns the last picture given to the queue, while it is in memory."""
        self._resting: asyncio.Task[None] | None = None

    def show(self, shown: SeenPicture | None) -> None:
        """Store the first picture that the judges are shown."""
        if shown is not None and not self._shown:
            self._shown = True
            self._queue.put(self, SnapshotMoment.FIRST, shown)

    def observe(self, rests_on: SeenPicture | None) -> None:
        """Store the picture of a new observation, at most one every `_GAP_SECONDS`."""
        self._newest = rests_on or self._newest
        if self._resting is None and self._put_last():
            self._resting = asyncio.create_task(self._observe_later())

    def end(self, rests_on: SeenPicture | None, *, resolved: bool) -> None:
        """Store the picture of the last look at once; if resolved, also as the deciding one."""
        self.close()
        self._newest = rests_on or self._newest
        self._put_last()
        if resolved and rests_on is not None:
            self._queue.put(self, SnapshotMoment.DECIDING, rests_on)

    def close(self) -> None:
        """Stop storing."""
        if self._resting is not None:
            self._resting.cancel()

    def _put_last(self) -> bool:
        """Queue the newest picture; return False if there is none or it was queued already."""
        newest, self._newest = self._newest, None
        if newest is None or newest.picture is self._noted():
            return False
        self._noted = _make_weak_getter(newest.picture)
        self._queue.put(self, SnapshotMoment.LAST, newest)
        return True

    async def _observe_later(self) -> None:
        await self._queue.clock.sleep(_GAP_SECONDS)
        self._resting = None
        self.observe(self._newest)


def _make_weak_getter(picture: Picture) -> Callable[[], Picture | None]:
    """Return a function that returns the picture while it is in memory elsewhere.

    A screen takes up to 33 MB, and each wait may remember a different one.
    """
    try:
        return weakref.ref(picture)
    except TypeError:
        return lambda: picture  # it cannot be held otherwise


class SnapshotQueue:
    """Encodes and writes snapshots, one after the other."""

    def __init__(
        self,
        snapshot_store: SnapshotStore | None,
        plugin_host: PluginHost,
        clock: Clock,
        run_in_thread: OffLoopCaller,
    ) -> None:
        """Create a queue.

        Without a store, nothing is stored. Pictures are encoded and written by
        `run_in_thread`.
        """
        self.clock: Final = clock
        self._snapshot_store = snapshot_store
        self._plugin_host = plugin_host
        self._run_in_thread = run_in_thread
        self._due: dict[tuple[str, SnapshotMoment], tuple[WaitSnapshots, SeenPicture]] = {}
        """Queued pictures in order; only the newest for each moment of a wait."""
        self._queue_event = asyncio.Event()
        self._store_lock = asyncio.Lock()
        """Held while the store of snapshots is changed."""

    def put(self, snapshots: WaitSnapshots, moment: SnapshotMoment, taken: SeenPicture) -> None:
        """Queue a picture."""
        if self._snapshot_store is not None and self._snapshot_store.is_enabled:
            self._due[snapshots.wait_id, moment] = (snapshots, taken)
            self._queue_event.set()

    async def run(self, context: Context) -> None:
        """Write queued pictures and prune the store, until cancelled."""
        if self._snapshot_store is None:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._save_all(self._snapshot_store))
            group.create_task(self._prune_all(self._snapshot_store, context))

    async def _save_all(self, snapshot_store: SnapshotStore) -> None:
        while True:
            await self._queue_event.wait()
            self._queue_event.clear()
            while self._due:
                _, moment = key = next(iter(self._due))
                snapshots, taken = self._due.pop(key)
                async with self._store_lock:
                    await self._run_in_thread(
                        self._save_snapshot, snapshot_store, snapshots, moment, taken
                    )

    def _save_snapshot(
        self,
        snapshot_store: SnapshotStore,
        snapshots: WaitSnapshots,
        moment: SnapshotMoment,
        taken: SeenPicture,
    ) -> None:
        """Encode and write a picture; log a failure and continue."""
        wait_id = snapshots.wait_id
        if (
            snapshots.resumed
            and moment is SnapshotMoment.FIRST
            and moment in snapshot_store.find_snapshots(wait_id)
        ):
            return
        try:
            jpeg = self._plugin_host.encode_picture(taken.picture, _LONGEST_SIDE)
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            if not snapshots.troubled:
                snapshots.troubled = True
                self._plugin_host.record_failure(taken.picture, f"a picture of {wait_id}", error)
            return
        try:
            snapshot_store.write(wait_id, moment, jpeg, taken.at)
        except Exception as error:  # noqa: BLE001 - also an instant of no calendar
            if not snapshots.troubled:
                snapshots.troubled = True
                log.warning(
                    "a picture of %s cannot be kept (%s); the wait goes on without", wait_id, error
                )

    async def _prune_all(self, snapshot_store: SnapshotStore, context: Context) -> None:
        def find(wait_id: str) -> Wait | None:
            try:
                return context.store.read_wait(wait_id)
            except WaitNotFound:
                return None

        while True:
            try:
                async with self._store_lock:
                    await self._run_in_thread(snapshot_store.prune, find, context.clock.now())
            except Exception as error:  # noqa: BLE001 - the next hour may do better
                log.warning("old pictures could not be removed: %s", error)
            await self.clock.sleep(_PRUNE_SECONDS)
