"""Watch what becomes of a path: whether it is there, changes, stands still, and how large it is."""
# ruff: noqa: PTH114, PTH120 - paths are texts of the agent's

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

from taskmem_hookspecs import Frame, InvalidArguments, Target, TargetGone, TargetNotFound
from taskmem_hookspecs.conditions import State
from taskmem_hookspecs.file_access import (
    FileChangeNotifier,
    escape_name,
    read_handle_path,
    require_viewable,
)
from taskmem_targets.facts import SIZE

_LOOK_SECONDS: Final = 5.0
"""Time limit of a look at a path; one on a mount that has gone away may never answer."""
_MOST_LOOKS: Final = 32
"""How many looks may hang before those of all paths do."""
_ABSENT: Final = "-"
"""Place of a path that is not there."""
_REST_SECONDS: Final = 3600.0
"""Period of the looks where every change is told."""
_MOST_FILES: Final = 1_000
"""How many files of a folder are looked at for when they were changed."""
_PATTERN_SIGNS: Final = frozenset("*?[")
_HANDLE_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW


class _Found(NamedTuple):
    """The file or folder at a path."""

    place: str
    """Differs once it was changed or replaced."""
    size: int | None
    """None: the names in the folder may not be read."""
    changed_at: datetime | None
    """When it, or a file in the folder, was changed; None: they may not be read, or are many."""
    is_folder: bool


class _Look(NamedTuple):
    """A look at a path."""

    found: _Found | None
    """None: nothing is there."""
    is_plain: bool
    """True if its folder tells what becomes of it: it is neither a link nor a folder."""
    has_folder: bool
    """True if its folder may be read, and so be watched."""


class PathSensor:
    """Plays Sensor for `path:/absolute/path`."""

    def __init__(self) -> None:
        self._changes = FileChangeNotifier()
        self._looks = threading.Semaphore(_MOST_LOOKS)

    async def watch(self, target: Target) -> PathWatch:
        """Start to watch a path, whether or not anything is there.

        Raises:
            InvalidArguments: It is not absolute.
            NotAllowed: It may not be shown.
            TargetNotFound: It cannot be looked at now.
        """
        if not target.name.startswith("/"):
            raise InvalidArguments(
                f"{escape_name(target.name)} is no absolute path; write path:/folder/name."
            )
        watch = PathWatch(target, self._changes, self._looks)
        await watch.begin()
        return watch


class PathWatch:
    """Plays Watch on one path."""

    def __init__(
        self, target: Target, changes: FileChangeNotifier, looks: threading.Semaphore
    ) -> None:
        """Take the path; `looks` limits those that hang, as at a mount."""
        self._path, self._within = target.name, target.within
        self._looks = looks
        self._look: asyncio.Future[_Look] | None = None
        """The last look, if it hangs."""
        self._is_plain = False
        """As in the last look."""
        self._changed = asyncio.Event()
        self._changes = changes

    async def begin(self) -> None:
        """Look at the path, and listen to what its folder tells.

        Raises:
            InvalidArguments: It is a pattern, and no file has that name.
            NotAllowed: It may not be shown.
            TargetNotFound: It cannot be looked at now.
        """
        try:
            found = await self._find()
        except OSError as error:
            raise TargetNotFound(self._describe_failure(error), sure=False) from error
        if found is None and not _PATTERN_SIGNS.isdisjoint(self._path):
            folder = escape_name(os.path.dirname(self._path))
            raise InvalidArguments(
                f"A path names one file or folder, without patterns; wait until path:{folder} "
                "changes, which it does when a name comes or goes, or name the file."
            )
        self._changes.listen(self._path, self._note_change)

    @property
    def rest_seconds(self) -> float:
        """Return for how long it need not be looked at."""
        is_told = self._is_plain and self._changes.tells(self._path)
        return _REST_SECONDS if is_told else 0.0

    async def here(self) -> Frame:
        """Look at the path as it is when a wait begins.

        Raises:
            TargetGone: It cannot be looked at.
        """
        try:
            found = await self._find()
        except OSError as error:
            raise TargetGone(self._describe_failure(error)) from error
        place = found.place if found else _ABSENT
        return Frame(seen_at=datetime.now(UTC), place=place, tail=self._describe(found))

    async def end(self) -> str:
        """Return the place of the path as it is now; raises as `here` does."""
        return (await self.here()).place

    async def look(self, place: str, start: str) -> Frame:
        """Return what became of the path since a wait began."""
        seen_at = datetime.now(UTC)
        try:
            found = await self._find()
        except OSError as error:
            return Frame(seen_at=seen_at, place=place, note=self._describe_failure(error))
        now = found.place if found else _ABSENT
        changed = {State.CHANGED} if now != start else set[State]()
        return Frame(
            seen_at=seen_at,
            place=now,
            changed_at=found.changed_at if found else None,
            note=self._describe(found),
            states=frozenset({State.THERE if found else State.GONE, *changed}),
            numbers={} if found is None or found.size is None else {SIZE: found.size},
        )

    async def wait_for_change(self) -> None:
        """Return once its folder tells of a change of it."""
        await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        """Watch it no more."""
        await self._changes.forget(self._path, self._note_change)

    def _note_change(self, _was_removed: bool) -> None:  # noqa: FBT001 - as it is called
        self._changed.set()

    async def _find(self) -> _Found | None:
        """Look at the path; None: nothing is there.

        Raises:
            NotAllowed: It may not be shown.
            OSError: It cannot be looked at, did not answer, or the look before it still hangs.
        """
        if self._look is None or self._look.done():
            self._look = _run_in_thread(self._looks, lambda: _find(self._path, self._within))
        async with asyncio.timeout(_LOOK_SECONDS):
            look = await asyncio.shield(self._look)
        self._is_plain = look.is_plain
        if look.has_folder and not self._changes.watches(self._path):
            self._changes.renew()  # its folder is new
        return look.found

    def _describe(self, found: _Found | None) -> str:
        name = escape_name(self._path)
        if found is None:
            return f"{name} is not there."
        unit = "names" if found.is_folder else "bytes"
        size = "" if found.size is None else f" with {found.size:,} {unit}"
        at = found.changed_at
        changed = "" if at is None else f"; last changed at {at:%H:%M:%S} UTC"
        return f"{name} is there{size}{changed}."

    def _describe_failure(self, error: OSError) -> str:
        why = error.strerror or f"it did not answer within {_LOOK_SECONDS:g} s"
        return f"{escape_name(self._path)} cannot be looked at ({why})."


def _run_in_thread(limit: threading.Semaphore, look: Callable[[], _Look]) -> asyncio.Future[_Look]:
    """Run a look in a thread that does not keep the daemon from ending, if it hangs."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Look] = loop.create_future()
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    if not limit.acquire(blocking=False):
        future.set_exception(TimeoutError())
        return future

    def settle(found: _Look | None, error: BaseException | None) -> None:
        if future.done():
            return
        if found is not None:
            future.set_result(found)
        elif error is not None:
            future.set_exception(error)

    def run() -> None:
        found, failure = None, None
        try:
            found = look()
        except Exception as error:  # noqa: BLE001 - it is raised where the look is awaited
            failure = error
        limit.release()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, found, failure)

    threading.Thread(target=run, name="path", daemon=True).start()
    return future


def _find(path: str, within: tuple[str, ...] | None) -> _Look:
    """Look at a path; of a folder, the names in it are its size.

    Raises:
        NotAllowed: It may not be shown.
        OSError: It cannot be looked at.
    """
    end = require_viewable(path, within)
    is_link = os.path.islink(path)
    has_folder = os.access(os.path.dirname(path), os.R_OK | os.X_OK)
    try:
        handle = os.open(end, _HANDLE_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return _Look(found=None, is_plain=not is_link, has_folder=has_folder)
    try:
        # A folder of its path may have become a link since.
        if (name := read_handle_path(handle)) is not None:
            require_viewable(name, within)
        info = os.fstat(handle)
        is_folder = stat.S_ISDIR(info.st_mode)
        # Only the kernel sets it.
        size: int | None = info.st_size
        changed: float | None = info.st_ctime
        if is_folder:
            size, changed = _read_folder(end, info.st_ctime)
    finally:
        os.close(handle)
    parts = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    found = _Found(
        place=".".join(map(str, parts)),
        size=size,
        changed_at=None if changed is None else datetime.fromtimestamp(changed, UTC),
        is_folder=is_folder,
    )
    return _Look(found=found, is_plain=not (is_link or is_folder), has_folder=has_folder)


def _read_folder(folder: str, changed: float) -> tuple[int | None, float | None]:
    """Return how many names a folder lists, and when it or a file in it was last changed.

    None: they may not be read; of the time, too, if they are too many to look at each.
    """
    try:
        with os.scandir(folder) as listed:
            files = [*listed]
    except PermissionError:
        return None, None
    if len(files) > _MOST_FILES:
        return len(files), None
    for file in files:
        with suppress(OSError):  # it is gone
            changed = max(changed, file.stat(follow_symlinks=False).st_ctime)
    return len(files), changed
