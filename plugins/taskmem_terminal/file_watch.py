"""Watch growing files; only what is appended after the wait's start counts.

A place names the file by its inode, so that a rotated log is read to its end before the new one. A
fingerprint of what was read distinguishes a file that was truncated and rewritten from one that
only grew.

A file is opened only if the agent may see it, even if its path changes meanwhile: the path is
checked before opening, and then the open file's own path, which no link can change. Changes are
noticed by one system watch on the folders of all files.
"""
# ruff: noqa: PTH115, PTH116, PTH120

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import blake2s
from pathlib import Path
from typing import Final, NamedTuple

from taskmem_hookspecs import Frame, InvalidArguments, TargetGone, TargetNotFound
from taskmem_hookspecs.errors import NotAllowed
from taskmem_hookspecs.paths import is_hidden, is_within_any, resolve_links
from taskmem_terminal.frames import OutputReader, ReadOptions, StreamPosition

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MOST_FOLDERS: Final = 8
"""How many folders a refusal names."""
_SANDBOX: Final = "ask the user to set TASKMEM_SANDBOX_LOOKS=all"
"""Advice for an agent in a sandbox, as `domain/conditions/targets.py` gives it."""


def require_viewable(path: str, within: tuple[str, ...] | None) -> str:
    """Resolve the links of a path, which need not exist, and check that it may be shown.

    Raises:
        NotAllowed: The file is never shown, or is outside of `within`; None: any folder is
            allowed.
    """
    try:
        end = resolve_links(path)
    except RecursionError:
        raise NotAllowed(
            f"{_escape_name(path)} leads through too many links; name the file itself."
        ) from None
    leads = "" if end == os.path.normpath(path) else f" leads to {_escape_name(end)}, which"
    if within is not None and not is_within_any(end, within):
        # Do not reveal the target of a link in a folder that the agent may not see.
        folder = resolve_links(os.path.dirname(path))
        leads = leads if is_within_any(folder, within) else ""
        raise NotAllowed(
            f"{_escape_name(path)}{leads} lies outside of where you may look "
            f"{_describe_allowed_folders(within)}."
        )
    if is_hidden(end, os.environ.get("TASKMEM_HOME")):
        raise NotAllowed(
            f"{_escape_name(path)}{leads} is of a kind that is never shown (keys, passwords, "
            "what was typed, data of the system or of taskmem); wait on the log or "
            "terminal of what uses it."
        )
    return end


def _describe_allowed_folders(within: tuple[str, ...]) -> str:
    """Return where an agent may look, and which setting allows more.

    The state folder is omitted, because agents must not put files there. `within` includes it
    unless the agent is in a sandbox, which decides which setting is named.
    """
    home = os.environ.get("TASKMEM_HOME", "")
    named = [_escape_name(root) for root in within if root != home]
    more = f" and {len(named) - _MOST_FOLDERS} more" if len(named) > _MOST_FOLDERS else ""
    folders = f"({', '.join(named[:_MOST_FOLDERS]) or 'no folder'}{more})"
    if home and home not in within:
        return f"{folders}; have it written there, or {_SANDBOX}"
    config = _escape_name(f"{home or '~/.openclaw/taskmem'}/config.toml")
    return (
        f"{folders}; have it written there, or let the user set artifact_roots in "
        f"{config} (TASKMEM_ARTIFACT_ROOTS where that is set, for it goes first) to "
        "these and its folder, then run: taskmem daemon restart"
    )


def open_viewable(path: str, within: tuple[str, ...] | None) -> int:
    """Open a regular file for reading, if it may be shown.

    Raises:
        NotAllowed: As in `require_viewable`. Also, if the daemon runs as root and `within` is set:
            the file is private to another user, in a folder that is not root's or that everyone
            can write to.
        OSError: It cannot be opened.
    """
    handle = os.open(require_viewable(path, within), _FLAGS | os.O_NOFOLLOW)
    try:
        _require_viewable_handle(handle, path, within)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _require_viewable_handle(handle: int, path: str, within: tuple[str, ...] | None) -> None:
    """Check the opened file: a folder of its path may have become a link since.

    Raises:
        NotAllowed: As in `open_viewable`.
        FileNotFoundError: It is no longer a regular file.
    """
    name = _read_handle_path(handle)
    if name is not None:
        require_viewable(name, within)
    info = os.fstat(handle)
    if not stat.S_ISREG(info.st_mode):
        raise FileNotFoundError
    if within is None or not is_anothers(info.st_uid, info.st_mode, os.geteuid()):
        return
    with contextlib.suppress(OSError):
        folder = os.stat(os.path.dirname(name or path))
        if folder.st_uid == os.geteuid() and not folder.st_mode & stat.S_IWOTH:
            return
    raise NotAllowed(
        f"{_escape_name(path)} is another user's, who lets not everyone read it; ask "
        "the user to make it readable."
    )


def _read_handle_path(handle: int) -> str | None:
    """Return the kernel's path of an open file; None: unknown."""
    with contextlib.suppress(OSError):
        if sys.platform == "darwin":
            import fcntl

            found = fcntl.fcntl(handle, fcntl.F_GETPATH, bytes(1024))
            return os.fsdecode(found.rstrip(b"\0"))
        name = os.readlink(f"/proc/self/fd/{handle}")
        removed = os.fstat(handle).st_nlink == 0
        return name.removesuffix(" (deleted)") if removed else name
    return None


def _escape_name(name: object) -> str:
    """Return a name for a sentence, with control characters escaped."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in str(name)
    )


# --- notifying ----------------------------------------------------------------


_STEP_MS: Final = 20
"""How often events are fetched: half of the latency, and all of the idle cost. Milliseconds."""
_GATHER_MS: Final = 40
"""How long consecutive changes are merged. Milliseconds."""
_NUDGE_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 1.0


class FileChangeNotifier:
    """Calls back when one of the registered files changes."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._again: asyncio.Event | None = None

    def listen(self, path: str, listener: Callable[[], None]) -> None:
        """Call `listener` when the file at an absolute path changes, appears or disappears."""
        fresh = path not in self._listeners
        self._listeners.setdefault(path, []).append(listener)
        if fresh:
            self._start()

    async def forget(self, path: str, listener: Callable[[], None]) -> None:
        """Stop calling `listener` for this path."""
        self._listeners[path].remove(listener)
        if self._listeners[path]:
            return
        del self._listeners[path]
        if self._listeners:
            self._start()
        elif self._task is not None:
            self._stop()
            task, self._task = self._task, None
            await task

    def _start(self) -> None:
        """Restart the watch with the current folders."""
        self._stop()
        if self._task is None:
            self._task = asyncio.create_task(self._watch())

    def _stop(self) -> None:
        if self._again is not None:
            self._again.set()

    async def _watch(self) -> None:
        from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]

        loop = asyncio.get_running_loop()
        while self._listeners:
            self._again = asyncio.Event()
            parents = {Path(path).parent for path in self._listeners}
            folders = sorted(folder for folder in parents if folder.is_dir())
            # Changes between two watches are missed, so have the listeners look once.
            nudge = loop.call_later(_NUDGE_SECONDS, self._notify_listeners, *self._listeners)
            try:
                if folders:
                    async for changes in awatch(
                        *folders,
                        watch_filter=lambda _change, path: path in self._listeners,
                        step=_STEP_MS,
                        debounce=_GATHER_MS,
                        rust_timeout=60_000,
                        stop_event=self._again,
                        recursive=False,
                    ):
                        self._notify_listeners(*{path for _, path in changes})
            except (OSError, RuntimeError):
                pass  # a folder that went away; looked for again
            finally:
                nudge.cancel()
            if not self._again.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_SECONDS):
                        await self._again.wait()

    def _notify_listeners(self, *paths: str) -> None:
        for path in paths:
            for listener in tuple(self._listeners.get(path, ())):
                listener()


# --- watching -----------------------------------------------------------------


BACK_SECONDS: Final = 1.0
"""How long a file may be missing during rotation. Seconds."""
_PRINT_BYTES: Final = 64
_MOST_OPEN_FILES: Final = 4
"""How many files stay open: the current one, and rotated ones that waits have not read yet."""
_MOST_NAMES: Final = 5
_FILE_OPTIONS: Final = ReadOptions()

_Inode = tuple[int, int]


class _FilePosition(NamedTuple):
    """How far a wait has read in a file."""

    inode: _Inode
    fingerprint: str
    """Fingerprint of the file's first 64 bytes and of the last 64 before `position.shown`."""
    position: StreamPosition

    def __str__(self) -> str:
        return f"{self.inode[0]}:{self.inode[1]}:{self.fingerprint}:{self.position}"

    @classmethod
    def parse(cls, text: str) -> _FilePosition:
        device, inode, print_, position = text.split(":")
        return cls((int(device), int(inode)), print_, StreamPosition.parse(position))


class _OpenFile:
    """A file that stays readable after its path names another file."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.reader = OutputReader()
        status = os.fstat(handle)
        self.inode = (status.st_dev, status.st_ino)

    @property
    def end(self) -> int:
        return os.fstat(self.handle).st_size

    def read(self, at: int, size: int) -> bytes:
        return os.pread(self.handle, size, at)

    def changed_at(self) -> datetime:
        return datetime.fromtimestamp(os.fstat(self.handle).st_mtime, UTC)

    def compute_fingerprint(self, shown: int) -> str:
        head = self.read(0, min(_PRINT_BYTES, shown))
        last = min(_PRINT_BYTES, shown)
        return blake2s(head + self.read(shown - last, last), digest_size=8).hexdigest()


class _Snapshot:
    """A file with the length it had when a look began."""

    begin = 0

    def __init__(self, file: _OpenFile) -> None:
        self._file = file
        self.end = file.end

    def read(self, at: int, size: int) -> bytes:
        return self._file.read(at, min(size, self.end - at))


class FileWatch:
    """`Watch` on one path."""

    def __init__(
        self, name: str, folders: FileChangeNotifier, within: tuple[str, ...] | None = None
    ) -> None:
        """Start to watch a path as a user wrote it, inside `within`; None: anywhere.

        Raises:
            InvalidArguments: It is not the path of a file that can grow.
            NotAllowed: The file may not be shown.
            TargetNotFound: The file does not exist or cannot be read.
        """
        self._within = within
        self._path = _check_path(name, within)
        self._refusal: str | None = None
        """Why the file now at the path may not be shown; None: it may."""
        self._open_files: dict[_Inode, _OpenFile] = {}
        self._changed = asyncio.Event()
        self._missing_since: float | None = None
        try:
            self._current = self._open(self._path)
        except OSError as error:
            raise TargetNotFound(_describe_missing_file(self._path, within, error)) from error
        self._folders = folders
        self._watched_paths = {str(self._path), os.path.realpath(self._path)}
        for path in self._watched_paths:
            folders.listen(path, self._changed.set)

    async def here(self) -> Frame:
        """Look at the file's end, where a new wait begins.

        Raises:
            TargetGone: The file is missing or cannot be read, or may not be shown now.
        """
        file = self._find_current_file()
        if file is None:
            raise TargetGone(self._removal_reason)
        seen = _Snapshot(file)
        tail = await file.reader.read_tail(seen, StreamPosition(0, 0), _FILE_OPTIONS)
        return Frame(
            seen_at=datetime.now(UTC),
            place=str(_make_position(file, StreamPosition(seen.end, seen.end))),
            changed_at=file.changed_at(),
            tail=tail.text,
            echoes=tail.echoes,
        )

    async def end(self) -> str:
        """Return the place of the file's end; raises as `here` does."""
        return (await self.here()).place

    async def look(self, place: str, start: str) -> Frame:
        """Return what was appended since `place`."""
        seen_at = datetime.now(UTC)
        now = self._find_current_file()
        began = _FilePosition.parse(start)
        known = _FilePosition.parse(place)
        file, position = self._find_file(known, now)
        if file is None:
            return Frame(
                seen_at=seen_at, place=place, text="", tail="", gone=self._find_removal_reason(now)
            )
        seen = _Snapshot(file)
        page = file.reader.read_page(seen, position, _FILE_OPTIONS)
        # If the file was rewritten since the wait began, all of it counts.
        shown, same = began.position.shown, began.inode == file.inode
        same = same and seen.end >= shown and file.compute_fingerprint(shown) == began.fingerprint
        first = began.position if same else StreamPosition(0, 0)
        tail = await file.reader.read_tail(seen, first, _FILE_OPTIONS)
        more = page.more
        next_ = _make_position(file, page.next)
        if now is not None and not more and file is not now:
            # The rotated file is read to its end; go on with the new one.
            more = True
            next_ = _make_position(now, StreamPosition(0, 0))
        return Frame(
            seen_at=seen_at,
            place=str(next_),
            more=more,
            changed_at=file.changed_at(),
            text=page.text,
            tail=tail.text,
            echoes=tuple(dict.fromkeys(page.echoes + tail.echoes)),
            gone=None if more else self._find_removal_reason(now),
        )

    async def wait_for_change(self) -> None:
        """Wait until the file may have grown or disappeared."""
        await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        """Stop listening and close the files."""
        for path in self._watched_paths:
            await self._folders.forget(path, self._changed.set)
        for file in self._open_files.values():
            os.close(file.handle)
        self._open_files.clear()

    def _find_current_file(self) -> _OpenFile | None:
        """Return the file now at the path; None: it is missing, unreadable or not allowed."""
        try:
            status = self._path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError
            inode = (status.st_dev, status.st_ino)
            if inode not in self._open_files:
                self._open(self._path)
            self._current = self._open_files[inode]
            self._refusal = None
        except (OSError, KeyError, NotAllowed) as error:
            self._refusal = str(error) if isinstance(error, NotAllowed) else None
            if self._missing_since is None:
                loop = asyncio.get_running_loop()
                self._missing_since = loop.time()
                loop.call_later(BACK_SECONDS, self._changed.set)
            return None
        self._missing_since = None
        return self._current

    def _find_file(
        self, place: _FilePosition, now: _OpenFile | None
    ) -> tuple[_OpenFile | None, StreamPosition]:
        """Return the file of a place, and the position to read from."""
        file = self._open_files.get(place.inode) or self._find_rotated_file(place.inode)
        if file is not None:
            if (
                file.end >= place.position.shown
                and file.compute_fingerprint(place.position.shown) == place.fingerprint
            ):
                return file, place.position
            # Truncated and rewritten, or another file with the same inode.
            file.reader = OutputReader()
            return file, StreamPosition(0, 0)
        return now, StreamPosition(0, 0)

    def _find_rotated_file(self, inode: _Inode) -> _OpenFile | None:
        """Return the file with this inode, if it was rotated within the folder."""
        missing = (OSError, NotAllowed)
        with contextlib.suppress(*missing), os.scandir(self._path.parent) as there:
            for entry in there:
                if (
                    entry.inode() == inode[1]
                    and entry.is_file(follow_symlinks=False)
                    and entry.stat().st_dev == inode[0]
                ):
                    return self._open(entry.path)
        return None

    def _open(self, path: str | Path) -> _OpenFile:
        """Return the file at a path, which stays open.

        Raises:
            NotAllowed: It may not be shown.
            OSError: It cannot be opened.
        """
        file = _OpenFile(open_viewable(str(path), self._within))
        if file.inode in self._open_files:
            os.close(file.handle)
            return self._open_files[file.inode]
        for inode in list(self._open_files)[: max(0, len(self._open_files) - _MOST_OPEN_FILES + 1)]:
            os.close(self._open_files.pop(inode).handle)
        self._open_files[file.inode] = file
        return file

    def _find_removal_reason(self, now: _OpenFile | None) -> str | None:
        if now is not None or self._missing_since is None:
            return None
        away = asyncio.get_running_loop().time() - self._missing_since
        # `call_later` may fire slightly early.
        if away < BACK_SECONDS * 0.99:
            return None
        return self._removal_reason

    @property
    def _removal_reason(self) -> str:
        return self._refusal or f"{_escape_name(self._path)} was removed."


def _make_position(file: _OpenFile, position: StreamPosition) -> _FilePosition:
    return _FilePosition(file.inode, file.compute_fingerprint(position.shown), position)


def _check_path(name: str, within: tuple[str, ...] | None) -> Path:
    path = Path(name)
    with contextlib.suppress(RuntimeError):
        path = path.expanduser()
    if "\x00" in name or not path.is_absolute():
        raise InvalidArguments(
            f"pty:file:{name!r} is not an absolute path; write it from the root, or from ~."
        )
    path = Path(os.path.normpath(path))
    # Check this first, so that no message reveals what exists there.
    require_viewable(str(path), within)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise TargetNotFound(_describe_missing_file(path, within, error)) from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no ordinary file"
        raise InvalidArguments(
            f"{_escape_name(path)} is {kind}; only a file that grows can be watched."
        )
    return path


def _describe_missing_file(path: Path, within: tuple[str, ...] | None, error: OSError) -> str:
    shown = _escape_name(path)
    if not isinstance(error, FileNotFoundError):
        return f"{shown} cannot be read ({error.strerror}); see that its rights allow it."
    there = sorted(_list_files(path.parent, within), reverse=True)
    if not there:
        return f"{shown} is not there; start what writes it, or create it first (touch), then wait."
    newest = ", ".join(_escape_name(name) for _, name in there[:_MOST_NAMES])
    return (
        f"{shown} is not there; in {_escape_name(path.parent)} there are {newest}. If it is "
        "yet to be written, create it first (touch)."
    )


def _list_files(folder: Path, within: tuple[str, ...] | None) -> list[tuple[float, str]]:
    """Return the files of a folder with their change times, if the agent may know them."""
    with contextlib.suppress(OSError, RecursionError), os.scandir(folder) as entries:
        if within is None or is_within_any(resolve_links(str(folder)), within):
            files = (entry for entry in entries if entry.is_file())
            return [
                (entry.stat().st_mtime, entry.name) for entry in files if not is_hidden(entry.path)
            ]
    return []


def is_anothers(uid: int, mode: int, user: int) -> bool:
    """Return True if the file belongs to another user and is not readable by everyone.

    Only checked for root (`user` 0); for all others the kernel has already checked it.
    """
    return user == 0 and uid != 0 and not mode & 0o004
