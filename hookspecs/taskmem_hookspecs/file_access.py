"""Check that an agent may see a file, and notice when it changes; for sensors of files."""
# ruff: noqa: PTH112, PTH115, PTH118, PTH119, PTH120

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from taskmem_hookspecs.errors import NotAllowed
from taskmem_hookspecs.paths import is_hidden, is_within_any, resolve_links

T = TypeVar("T")

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
            f"{escape_name(path)} leads through too many links; name the file itself."
        ) from None
    leads = "" if end == os.path.normpath(path) else f" leads to {escape_name(end)}, which"
    if within is not None and not is_within_any(end, within):
        # Do not reveal the target of a link in a folder that the agent may not see.
        folder = resolve_links(os.path.dirname(path))
        leads = leads if is_within_any(folder, within) else ""
        raise NotAllowed(
            f"{escape_name(path)}{leads} lies outside of where you may look "
            f"{_describe_allowed_folders(within)}."
        )
    if is_hidden(end, os.environ.get("TASKMEM_HOME")):
        raise NotAllowed(
            f"{escape_name(path)}{leads} is of a kind that is never shown (keys, passwords, "
            "what was typed, data of the system or of taskmem); wait on the log or "
            "terminal of what uses it."
        )
    return end


def read_handle_path(handle: int) -> str | None:
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


def _describe_allowed_folders(within: tuple[str, ...]) -> str:
    """Return where an agent may look, and which setting allows more.

    The state folder is omitted, because agents must not put files there. `within` includes it
    unless the agent is in a sandbox, which decides which setting is named.
    """
    home = os.environ.get("TASKMEM_HOME", "")
    named = [escape_name(root) for root in within if root != home]
    more = f" and {len(named) - _MOST_FOLDERS} more" if len(named) > _MOST_FOLDERS else ""
    folders = f"({', '.join(named[:_MOST_FOLDERS]) or 'no folder'}{more})"
    if home and home not in within:
        return f"{folders}; have it written there, or {_SANDBOX}"
    config = escape_name(f"{home or '~/.openclaw/taskmem'}/config.toml")
    return (
        f"{folders}; have it written there, or let the user set artifact_roots in "
        f"{config} (TASKMEM_ARTIFACT_ROOTS where that is set, for it goes first) to "
        "these and its folder, then run: taskmem daemon restart"
    )


def escape_name(name: object) -> str:
    """Return a name for a sentence, with control characters escaped."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in str(name)
    )


# --- what may never answer ----------------------------------------------------


def start_in_own_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """Start a call that may hang, as at a mount that has gone away; return its future.

    Its thread keeps neither other calls nor the end of the process waiting.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(lambda done: done.cancelled() or done.exception())

    def settle(set_outcome: Callable[[], None]) -> None:
        if not future.done():
            set_outcome()

    def run() -> None:
        try:
            set_outcome = partial(future.set_result, call())
        except Exception as error:  # noqa: BLE001 - it is raised where the call is awaited
            set_outcome = partial(future.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, set_outcome)

    threading.Thread(target=run, name="file", daemon=True).start()
    return future


def list_mounts() -> Mapping[str, str]:
    """Return the types of the mounted file systems, by folder; no file system is asked."""
    import psutil

    with contextlib.suppress(OSError, psutil.Error):
        return {each.mountpoint: each.fstype for each in psutil.disk_partitions(all=True)}
    return {}


def find_mount(path: str, mounts: Collection[str]) -> str | None:
    """Return the mount that a path without links lies in; None: it is not known."""
    return next(
        (str(each) for each in (Path(path), *Path(path).parents) if str(each) in mounts), None
    )


# --- notifying ----------------------------------------------------------------


_STEP_MS: Final = 20
"""How often events are fetched: half of the latency, and all of the idle cost. Milliseconds."""
_GATHER_MS: Final = 40
"""How long consecutive changes are merged. Milliseconds."""
_LOCAL: Final = frozenset(
    ("apfs", "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs")
)
"""File systems that nobody changes but this machine's kernel."""
_COMPARE_SECONDS: Final = 60.0
"""How often files are compared with what they were."""
_NUDGE_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 1.0
"""How long folders are awaited; one that answers later is watched from then on."""


class FileChangeNotifier:
    """Calls back when one of the registered files changes; one system watch serves all folders.

    Listeners are told whether a file was removed, or went by another name, meanwhile. What the
    kernel does not tell, as it is written through another name or mapped memory, is found within
    a minute.
    """

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[[bool], None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._again: asyncio.Event | None = None
        self._watched: Collection[Path] = ()
        """The folders of which the kernel tells now."""
        self._local: Collection[Path] = ()
        """Those of them that nobody changes but this machine's kernel."""
        self._versions: dict[str, tuple[int, ...]] = {}
        """The versions of the files in them at the last comparison."""
        self._looking = asyncio.Lock()
        self._hanging: set[Path] = set()
        """The folders that have not answered yet."""
        self._comparing: asyncio.Task[None] | None = None

    def listen(self, path: str, listener: Callable[[bool], None]) -> None:
        """Call `listener` when the file at an absolute path changes, appears or disappears."""
        fresh = path not in self._listeners
        self._listeners.setdefault(path, []).append(listener)
        if fresh:
            self._start()

    async def forget(self, path: str, listener: Callable[[bool], None]) -> None:
        """Stop calling `listener` for this path."""
        self._listeners[path].remove(listener)
        if self._listeners[path]:
            return
        del self._listeners[path]
        self._versions.pop(path, None)
        if self._listeners:
            self._start()
        elif self._task is not None and self._comparing is not None:
            self._comparing.cancel()
            self._stop()
            task, self._task = self._task, None
            await task

    def watches(self, path: str) -> bool:
        """Return whether the kernel tells of changes in the folder of a path now."""
        return Path(path).parent in self._watched

    def tells(self, path: str) -> bool:
        """Return whether listeners are told of every change, so that no other look is needed.

        That is so where nobody but this machine's kernel changes the folder, and the file is
        compared.
        """
        return Path(path).parent in self._local and path in self._versions

    def renew(self) -> None:
        """Watch the folders that are there now."""
        self._stop()

    def _start(self) -> None:
        """Restart the watch with the current folders."""
        self._stop()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
            self._comparing = asyncio.create_task(self._compare_files())

    def _stop(self) -> None:
        if self._again is not None:
            self._again.set()

    async def _watch(self) -> None:
        from watchfiles import Change, awatch  # pyright: ignore[reportUnknownVariableType]

        loop = asyncio.get_running_loop()
        # Who forgets the last listener takes this task away, also where others listen since.
        while self._listeners and self._task is asyncio.current_task():
            self._again = again = asyncio.Event()
            self._local = ()  # a folder that hangs leaves all others to be looked at
            parents = {Path(path).parent for path in self._listeners}
            # The folders above tell that one was made anew, which has to be watched then.
            folders = await self._look_at(parents | {parent.parent for parent in parents})
            known = self._listeners.keys() | {*map(str, parents)}
            self._local = _choose_local(folders)
            self._versions = self._join_versions(folders) | self._versions
            # Changes between two watches are missed, so have the listeners look once.
            nudge = loop.call_later(_NUDGE_SECONDS, self._notify_listeners, *self._listeners)
            try:
                self._watched = frozenset(folders)
                if folders:
                    async for changes in awatch(
                        *folders,
                        watch_filter=partial(_is_known, known),
                        step=_STEP_MS,
                        debounce=_GATHER_MS,
                        rust_timeout=60_000,
                        stop_event=again,
                        recursive=False,
                    ):
                        removed = {path for change, path in changes if change is Change.deleted}
                        paths = {path for _, path in changes}
                        self._notify_listeners(*paths - removed)
                        self._notify_listeners(*removed, was_removed=True)
                        if any(c is Change.added and Path(p) in parents for c, p in changes):
                            again.set()
            except (OSError, RuntimeError):
                self._watched = self._local = ()  # a folder that went away; looked for again
            finally:
                nudge.cancel()
            if not again.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_SECONDS):
                        await again.wait()

    async def _compare_files(self) -> None:
        """Notify the listeners of files that differ from what they were a minute ago."""
        while True:
            await asyncio.sleep(_COMPARE_SECONDS)
            folders = await self._look_at(self._watched)
            self._local = _choose_local(folders)
            before, now = self._versions, self._join_versions(folders)
            self._versions = before | now
            self._notify_listeners(*(p for p in before.keys() & now if now[p] != before[p]))

    async def _look_at(self, folders: Collection[Path]) -> Mapping[Path, _Folder]:
        """Return those folders that may be watched and answer in time.

        Once one hangs, each of the others is looked at in a thread of its own. Those that hang are
        watched from their answer on.
        """
        async with self._looking:
            asked, found = {*folders} - self._hanging, dict[Path, _Folder | None]()
            mounts = await asyncio.to_thread(list_mounts)
            paths = dict[Path, list[str]]()
            for path in self._listeners:
                paths.setdefault(Path(path).parent, []).append(path)

            def look_at(some: Collection[Path]) -> None:
                for folder in some:
                    found[folder] = _look_at_folder(folder, paths.get(folder, ()), mounts)

            first, count = start_in_own_thread(partial(look_at, [*asked])), -1
            while not first.done() and count < len(found):
                count = len(found)
                await asyncio.wait((first,), timeout=_ANSWER_SECONDS)
            left = [folder for folder in asked if folder not in found]
            looks = {each: start_in_own_thread(partial(look_at, [each])) for each in left}
            try:
                if looks:
                    await asyncio.wait(looks.values(), timeout=_ANSWER_SECONDS)
            finally:
                for folder, look in looks.items():
                    if not look.done():
                        self._hanging.add(folder)
                        look.add_done_callback(partial(self._note_late_answer, folder))
        return {folder: answer for folder, answer in [*found.items()] if answer is not None}

    def _join_versions(self, folders: Mapping[Path, _Folder]) -> dict[str, tuple[int, ...]]:
        """Return the versions of the files that still have listeners."""
        found = [item for each in folders.values() for item in each.versions.items()]
        return {path: version for path, version in found if path in self._listeners}

    def _note_late_answer(self, folder: Path, _look: object) -> None:
        self._hanging.discard(folder)
        self.renew()

    def _notify_listeners(self, *paths: str, was_removed: bool = False) -> None:
        for path in paths:
            for listener in tuple(self._listeners.get(path, ())):
                listener(was_removed)


class _Folder(NamedTuple):
    """A folder that may be watched."""

    is_local: bool
    """True if nobody but this machine's kernel changes it."""
    versions: Mapping[str, tuple[int, ...]]
    """By path, what differs once a file was changed or replaced; empty: none is there."""


def _look_at_folder(
    folder: Path, paths: Collection[str], mounts: Mapping[str, str]
) -> _Folder | None:
    """Return a folder with the versions of the files at some paths in it, if it is local.

    None: it is not there, or may not be watched, which would end the watch of all.
    """
    if not (os.access(folder, os.R_OK | os.X_OK) and os.path.isdir(folder)):
        return None
    end = resolve_links(str(folder))
    mount = find_mount(end, mounts)
    if mount is None or mounts[mount] not in _LOCAL:
        return _Folder(is_local=False, versions={})
    # Another file system, or one that a link leads to, may hang.
    own = [path for path in paths if os.path.join(end, os.path.basename(path)) not in mounts]
    return _Folder(is_local=True, versions={path: _read_version(path) for path in own})


def _read_version(path: str) -> tuple[int, ...]:
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    times = found.st_mtime_ns, found.st_ctime_ns
    return (found.st_dev, found.st_ino, found.st_size, *times)


def _choose_local(folders: Mapping[Path, _Folder]) -> Collection[Path]:
    return frozenset(folder for folder, found in folders.items() if found.is_local)


def _is_known(known: Collection[str], _change: object, path: str) -> bool:
    return path in known
