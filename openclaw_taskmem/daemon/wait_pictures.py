"""Decide when snapshots of a wait are taken, and write them in the background.

The event loop only queues them. One thread encodes and writes one picture at a time, so neither a
slow plug-in nor a full disk delays a ruling or the end of a wait.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from openclaw_taskmem.daemon.picture_files import SnapshotMoment, SnapshotStore
from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.plugin_host.facade import PluginHost
from taskmem_hookspecs import Clock, Frame, Picture, Ruling, Wait, WaitNotFound

log = logging.getLogger(__name__)

LONGEST_SIDE: Final = 960
"""Longest side of a snapshot, in pixels."""
GAP_SECONDS: Final = 5.0
"""Minimum time between two LAST snapshots of a watched wait."""
PRUNE_SECONDS: Final = 3600.0
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

        Args:
            wait_id: Id of the wait.
            queue: Queue that stores the snapshots.
            resumed: True if an earlier daemon watched this round before.
        """
        self.wait_id: Final = wait_id
        self.resumed: Final = resumed
        self.troubled = False
        """True once a failure to store one was logged."""
        self._queue = queue
        self._shown = False
        self._newest: SeenPicture | None = None
        self._noted: Callable[[], Picture | None] = _get_nothing
        """Returns the last picture given to the queue, while it is in memory."""
        self._resting: asyncio.Task[None] | None = None

    def show(self, shown: SeenPicture | None) -> None:
        """Store the first picture that the judges are shown."""
        if shown is not None and not self._shown:
            self._shown = True
            self._queue.put(self, SnapshotMoment.FIRST, shown)

    def observe(self, rests_on: SeenPicture | None) -> None:
        """Store the picture of a new observation, at most one every `GAP_SECONDS`."""
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
        await self._queue.clock.sleep(GAP_SECONDS)
        self._resting = None
        self.observe(self._newest)


def _get_nothing() -> None:
    """Return None."""


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
        apart: OffLoopCaller,
    ) -> None:
        """Create a queue.

        Args:
            snapshot_store: Where snapshots are stored; None: nowhere.
            plugin_host: Encodes pictures and records the plug-ins' failures.
            clock: Clock for intervals.
            apart: Threads for encoding and writing.
        """
        self.clock: Final = clock
        self._snapshot_store = snapshot_store
        self._plugin_host = plugin_host
        self._apart = apart
        self._due: dict[tuple[str, SnapshotMoment], tuple[WaitSnapshots, SeenPicture]] = {}
        """Queued pictures in order; only the newest for each moment of a wait."""
        self._stirred = asyncio.Event()
        self._turn = asyncio.Lock()
        """Held while the store of snapshots is changed."""

    def put(self, snapshots: WaitSnapshots, moment: SnapshotMoment, taken: SeenPicture) -> None:
        """Queue a picture."""
        if self._snapshot_store is not None and self._snapshot_store.is_enabled:
            self._due[snapshots.wait_id, moment] = (snapshots, taken)
            self._stirred.set()

    async def run(self, context: Context) -> None:
        """Write queued pictures and prune the store, until cancelled."""
        if self._snapshot_store is None:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._save_all(self._snapshot_store))
            group.create_task(self._prune_all(self._snapshot_store, context))

    async def _save_all(self, snapshot_store: SnapshotStore) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            while self._due:
                _, moment = key = next(iter(self._due))
                snapshots, taken = self._due.pop(key)
                async with self._turn:
                    await self._apart(self._save_snapshot, snapshot_store, snapshots, moment, taken)

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
            jpeg = self._plugin_host.encode_picture(taken.picture, LONGEST_SIDE)
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
                async with self._turn:
                    await self._apart(snapshot_store.prune, find, context.clock.now())
            except Exception as error:  # noqa: BLE001 - the next hour may do better
                log.warning("old pictures could not be removed: %s", error)
            await self.clock.sleep(PRUNE_SECONDS)
