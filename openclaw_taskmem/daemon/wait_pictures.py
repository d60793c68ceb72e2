"""When snapshots of a wait are taken, and how they get into the album.

What is to be kept is noted on the event loop, which costs nothing. It is encoded and
written later, on one thread and one picture at a time, so that neither a slow plug-in
nor a full disk delays a ruling or the end of a wait.
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
"""Pixels of a snapshot."""
GAP_SECONDS: Final = 5.0
"""The shortest time between two last snapshots of a wait that is still watched."""
PRUNE_SECONDS: Final = 3600.0
"""Between two looks for what need not be kept any longer."""


class SeenPicture(NamedTuple):
    """A picture, and when the target looked like that."""

    picture: Picture
    at: datetime


def find_seen_picture(frame: Frame, ruling: Ruling | None = None) -> SeenPicture | None:
    """Return what a ruling on a frame rests on, or what the frame shows; None: nothing.

    A picture is never asked whether it is true: that would be a plug-in's code.
    """
    own = ruling.picture if ruling is not None else None
    picture = frame.picture if own is None else own
    return None if picture is None else SeenPicture(picture, frame.seen_at)


class WaitSnapshots:
    """Decides which pictures of one wait are kept, in one round of it."""

    def __init__(self, wait_id: str, queue: SnapshotQueue, *, resumed: bool) -> None:
        """Take a wait.

        Args:
            wait_id: Its id.
            queue: What takes the snapshots.
            resumed: Whether this round was watched before, by a daemon that ended.
        """
        self.wait_id: Final = wait_id
        self.resumed: Final = resumed
        self.troubled = False
        """Whether it was said that one of them cannot be kept."""
        self._queue = queue
        self._shown = False
        self._newest: SeenPicture | None = None
        self._noted: Callable[[], Picture | None] = _get_nothing
        """Returns the last that the queue was given, while anybody has it."""
        self._resting: asyncio.Task[None] | None = None

    def show(self, shown: SeenPicture | None) -> None:
        """Take note of what the judges are shown; the first is kept."""
        if shown is not None and not self._shown:
            self._shown = True
            self._queue.put(self, SnapshotMoment.FIRST, shown)

    def observe(self, rests_on: SeenPicture | None) -> None:
        """Take note of what a new observation tells of; the last is kept, in time."""
        self._newest = rests_on or self._newest
        if self._resting is None and self._put_last():
            self._resting = asyncio.create_task(self._observe_later())

    def end(self, rests_on: SeenPicture | None, *, resolved: bool) -> None:
        """Keep at once what the last look rests on; also as what resolved the wait."""
        self.close()
        self._newest = rests_on or self._newest
        self._put_last()
        if resolved and rests_on is not None:
            self._queue.put(self, SnapshotMoment.DECIDING, rests_on)

    def close(self) -> None:
        """Keep nothing any more."""
        if self._resting is not None:
            self._resting.cancel()

    def _put_last(self) -> bool:
        """Have the newest kept; return False when it is already."""
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
    """Return that there is none."""


def _make_weak_getter(picture: Picture) -> Callable[[], Picture | None]:
    """Return what gives a picture while anybody else has it.

    A screen takes up to 33 MB, and each wait was told of another last.
    """
    try:
        return weakref.ref(picture)
    except TypeError:
        return lambda: picture  # it cannot be held otherwise


class SnapshotQueue:
    """Encodes and writes what is to be kept, one picture after the other."""

    def __init__(
        self,
        album: SnapshotStore | None,
        plugin_host: PluginHost,
        clock: Clock,
        apart: OffLoopCaller,
    ) -> None:
        """Take where they go, and what is needed to make them.

        Args:
            album: None: nothing is kept.
            plugin_host: Encode pictures, and are told whose could not be.
            clock: What rests are told by.
            apart: Where pictures are encoded and written.
        """
        self.clock: Final = clock
        self._album = album
        self._plugin_host = plugin_host
        self._apart = apart
        self._due: dict[tuple[str, SnapshotMoment], tuple[WaitSnapshots, SeenPicture]] = {}
        """In order; of the same moment of a wait only the newest."""
        self._stirred = asyncio.Event()
        self._turn = asyncio.Lock()
        """Held by whoever changes the album."""

    def put(self, snapshots: WaitSnapshots, moment: SnapshotMoment, taken: SeenPicture) -> None:
        """Take a picture on, to be kept soon."""
        if self._album is not None and self._album.is_enabled:
            self._due[snapshots.wait_id, moment] = (snapshots, taken)
            self._stirred.set()

    async def run(self, context: Context) -> None:
        """Keep what is to be kept, and prune the album, until cancelled."""
        if self._album is None:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._save_all(self._album))
            group.create_task(self._prune_all(self._album, context))

    async def _save_all(self, album: SnapshotStore) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            while self._due:
                _, moment = key = next(iter(self._due))
                snapshots, taken = self._due.pop(key)
                async with self._turn:
                    await self._apart(self._save_snapshot, album, snapshots, moment, taken)

    def _save_snapshot(
        self,
        album: SnapshotStore,
        snapshots: WaitSnapshots,
        moment: SnapshotMoment,
        taken: SeenPicture,
    ) -> None:
        """Encode a picture and write it; what goes wrong costs nothing but it."""
        wait_id = snapshots.wait_id
        if (
            snapshots.resumed
            and moment is SnapshotMoment.FIRST
            and moment in album.find_snapshots(wait_id)
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
            album.write(wait_id, moment, jpeg, taken.at)
        except Exception as error:  # noqa: BLE001 - also an instant of no calendar
            if not snapshots.troubled:
                snapshots.troubled = True
                log.warning(
                    "a picture of %s cannot be kept (%s); the wait goes on without", wait_id, error
                )

    async def _prune_all(self, album: SnapshotStore, context: Context) -> None:
        def find(wait_id: str) -> Wait | None:
            try:
                return context.store.read_wait(wait_id)
            except WaitNotFound:
                return None

        while True:
            try:
                async with self._turn:
                    await self._apart(album.prune, find, context.clock.now())
            except Exception as error:  # noqa: BLE001 - the next hour may do better
                log.warning("old pictures could not be removed: %s", error)
            await self.clock.sleep(PRUNE_SECONDS)
