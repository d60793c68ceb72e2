"""Watch what becomes of a path: whether it is there, changes, stands still, and how large it is."""
# ruff: noqa: PTH114, PTH120 - paths are texts of the agent's

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from taskmem_hookspecs import Frame, InvalidArguments, Target, TargetGone, TargetNotFound
from taskmem_hookspecs.conditions import State
from taskmem_hookspecs.file_access import (
    FileChangeNotifier,
    escape_name,
    find_mount,
    list_mounts,
    read_handle_path,
    require_viewable,
    start_in_own_thread,
)
from taskmem_targets.facts import SIZE

_LOOK_SECONDS: Final = 5.0
"""Time limit of a look at a path; one on a mount that has gone away may never answer."""
_MOST_HANGING: Final = 32
"""How many looks at paths of one mount may hang before no wait begins there."""
_ABSENT: Final = "-"
"""Place of a path that is not there."""
_REST_SECONDS: Final = 3600.0
"""Period of the looks where every change is told."""
_MOST_FILES: Final = 1_000
"""How many files of a folder are looked at for when they were changed."""
_PATTERN_SIGNS: Final = frozenset("*?[")
_Question = tuple[str, tuple[str, ...] | None]
"""A path, and the folders in which it must lie."""
_HANDLE_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW


class _Entry(NamedTuple):
    """The file or folder at a path."""

    version: str
    """Differs once it was changed or replaced."""
    size: int | None
    """Bytes, or names in the folder; None: they may not be read."""
    changed_at: datetime | None
    """When it, or a file in the folder, was changed; None: they may not be read, or are many."""
    is_folder: bool


class _Finding(NamedTuple):
    """The result of a look at a path."""

    entry: _Entry | None
    """None: nothing is there."""
    is_plain: bool
    """True if its folder tells what becomes of it: it is neither a link nor a folder."""
    has_folder: bool
    """True if its folder may be read, and so be watched."""


class _Looks:
    """Looks at paths, each in a thread of its own, as one on a mount that is gone may hang.

    While one hangs, no other thread looks at the same path.
    """

    def __init__(self) -> None:
        self._running: dict[_Question, asyncio.Future[_Finding]] = {}
        self._hanging: set[_Question] = set()
        """Those of them that have not answered in time."""

    async def look(self, path: str, within: tuple[str, ...] | None) -> _Finding:
        """Look at a path.

        Raises:
            NotAllowed: It may not be shown.
            TimeoutError: It did not answer.
            OSError: It cannot be looked at.
        """
        question = path, within
        if question not in self._running:
            self._running[question] = start_in_own_thread(partial(_look_at, path, within))
            self._running[question].add_done_callback(lambda _: self._note_end(question))
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return await asyncio.shield(self._running[question])
        except TimeoutError:
            if question in self._running:  # else the file system itself says so
                self._hanging.add(question)
            raise

    def has_too_many_hanging(self, path: str, within: tuple[str, ...] | None) -> bool:
        """Tell whether so many other looks hang at a path's mount that no wait may begin there.

        What a link leads to counts for the mount that the link lies in.
        """
        others = self._hanging - {(path, within)}
        if len(others) < _MOST_HANGING:
            return False
        mounts = list_mounts()
        found = [find_mount(each, mounts) for each, _ in others]
        return found.count(find_mount(path, mounts)) >= _MOST_HANGING

    def _note_end(self, question: _Question) -> None:
        del self._running[question]
        self._hanging.discard(question)


class PathSensor:
    """Plays Sensor for `path:/absolute/path`."""

    def __init__(self) -> None:
        self._changes = FileChangeNotifier()
        self._looks = _Looks()

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

    def __init__(self, target: Target, changes: FileChangeNotifier, looks: _Looks) -> None:
        self._path, self._within = target.name, target.within
        self._looks = looks
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
        if self._looks.has_too_many_hanging(self._path, self._within):
            raise TargetNotFound(self._describe_failure(TimeoutError()), sure=False)
        try:
            entry = await self._read_entry()
        except OSError as error:
            raise TargetNotFound(self._describe_failure(error), sure=False) from error
        if entry is None and not _PATTERN_SIGNS.isdisjoint(self._path):
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
            entry = await self._read_entry()
        except OSError as error:
            raise TargetGone(self._describe_failure(error)) from error
        place = entry.version if entry else _ABSENT
        return Frame(seen_at=datetime.now(UTC), place=place, tail=self._describe(entry))

    async def end(self) -> str:
        """Return the place of the path as it is now; raises as `here` does."""
        return (await self.here()).place

    async def look(self, place: str, start: str) -> Frame:
        """Return what became of the path since a wait began."""
        seen_at = datetime.now(UTC)
        try:
            entry = await self._read_entry()
        except OSError as error:
            return Frame(seen_at=seen_at, place=place, note=self._describe_failure(error))
        now = entry.version if entry else _ABSENT
        changed = {State.CHANGED} if now != start else set[State]()
        return Frame(
            seen_at=seen_at,
            place=now,
            changed_at=entry.changed_at if entry else None,
            note=self._describe(entry),
            states=frozenset({State.THERE if entry else State.GONE, *changed}),
            numbers={} if entry is None or entry.size is None else {SIZE: entry.size},
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

    async def _read_entry(self) -> _Entry | None:
        """Look at the path, and watch its folder if that is new; None: nothing is there.

        Raises:
            NotAllowed: It may not be shown.
            OSError: It cannot be looked at, or did not answer.
        """
        found = await self._looks.look(self._path, self._within)
        self._is_plain = found.is_plain
        if found.has_folder and not self._changes.watches(self._path):
            self._changes.renew()
        return found.entry

    def _describe(self, entry: _Entry | None) -> str:
        name = escape_name(self._path)
        if entry is None:
            return f"{name} is not there."
        unit = "names" if entry.is_folder else "bytes"
        size = "" if entry.size is None else f" with {entry.size:,} {unit}"
        at = entry.changed_at
        changed = "" if at is None else f"; last changed at {at:%H:%M:%S} UTC"
        return f"{name} is there{size}{changed}."

    def _describe_failure(self, error: OSError) -> str:
        why = error.strerror or f"it did not answer within {_LOOK_SECONDS:g} s"
        return f"{escape_name(self._path)} cannot be looked at ({why})."


def _look_at(path: str, within: tuple[str, ...] | None) -> _Finding:
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
        return _Finding(entry=None, is_plain=not is_link, has_folder=has_folder)
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
    entry = _Entry(
        version=".".join(map(str, parts)),
        size=size,
        changed_at=None if changed is None else datetime.fromtimestamp(changed, UTC),
        is_folder=is_folder,
    )
    return _Finding(entry=entry, is_plain=not (is_link or is_folder), has_folder=has_folder)


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
