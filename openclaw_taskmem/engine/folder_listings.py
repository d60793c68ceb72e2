"""List the files of folders: what a folder holds now, and what it held when work in it began.

What it held is looked at once for all tasks that begin there within a minute, and kept for as long
as one of them is open. Only names are kept: whether a file was written is told by its own times.

A folder is listed with git where it is a repository.
"""
# ruff: noqa: PTH110, PTH112, PTH116, PTH118, PTH120 - paths are text, as the system has them

from __future__ import annotations

import os
import secrets
import stat
import subprocess
import threading
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from openclaw_taskmem.domain.tasks.ledger import FileTimes, FolderListing
from openclaw_taskmem.domain.text.redaction import scrub
from taskmem_hookspecs import Clock
from taskmem_hookspecs.birth_times import read_birth_time
from taskmem_hookspecs.paths import iterate_matches

MOST_FILES: Final = 20_000
"""Files listed per folder, at most."""
LIST_SECONDS: Final = 3.0
"""How long all folders of a task are looked through when it is completed, in seconds."""
NAMES_SECONDS: Final = 0.5
"""How long one folder is looked at when a task begins: the caller waits for it."""
SHARED_SECONDS: Final = 60.0
"""How long one look serves the tasks that begin after it."""
_MOST_LOOKS: Final = 64
"""Looks that are kept in memory for the tasks that begin after them."""
_NOT_THE_AGENTS: Final = "/memory/.dreams/"
"""Where OpenClaw keeps its memory of sessions in an agent's workspace."""
_GIT: Final = (
    "git",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.untrackedCache=false",
    "ls-files",
    "-z",
    "-t",
    "--cached",
    "--others",
    "--exclude-standard",
)
"""Reads the index and file names; runs nothing that a repository may configure."""
_HANDLE_FLAGS: Final = getattr(os, "O_PATH", os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that open a file for its state alone."""
_SPARSE_TAG: Final = "S "
"""Tag by which git marks a file that a sparse checkout leaves out."""
_ABSENT_TAG: Final = "R "
"""Tag by which git marks a tracked file that is not there."""


class LookTime:
    """Counts how long folders are looked through, together `LIST_SECONDS` at most."""

    def __init__(self) -> None:
        """Begin with all of the time."""
        self._left, self._until = LIST_SECONDS, 0.0

    def __enter__(self) -> float:
        """Return until when one look may take, by `perf_counter`."""
        self._until = perf_counter() + self._left
        return self._until

    def __exit__(self, *_: object) -> None:
        """Take off what the look took."""
        self._left = self._until - perf_counter()


def list_files(
    folder: str, since: int, until: float, *, ignored: bool = False
) -> FolderListing | None:
    """Return the files of a folder, and the times of those changed since; None: it is no folder.

    `since` is in nanoseconds since 1970. The listing is incomplete after `MOST_FILES` files or
    `until`, by `perf_counter`, or if a name is no text. Files that git ignores are left out unless
    `ignored`; so are dot folders outside git, and OpenClaw's own files. Links are not followed.
    """
    if not os.path.isdir(folder):
        return None
    names, complete = set[str](), True
    changed: dict[str, FileTimes] = {}
    for name, info in _walk_files(folder, until, git=not ignored):
        if name is None or len(names) >= MOST_FILES or perf_counter() > until:
            return FolderListing(frozenset(names), changed, complete=False)
        if not _is_text(name):
            complete = False
        elif info is not None and stat.S_ISREG(info.st_mode):
            names.add(name)
            if info.st_ctime_ns >= since:
                changed[name] = _add_birth(os.path.join(folder, name), _to_stamps(info))
    return FolderListing(frozenset(names), changed, complete)


def list_names(folder: str) -> Sequence[str] | None:
    """Return the names of a folder's files; None: it is no folder, or cannot be listed completely.

    They are in order, and those that look like credentials are left out.
    """
    if not os.path.isdir(folder):
        return None
    names = _read_names(folder.rstrip("/") + "/", perf_counter() + NAMES_SECONDS)
    together = "\n".join(names or ())
    if names is None or not _is_text(together):
        return None
    if _NOT_THE_AGENTS[1:] in f"{folder}/{together}":
        names = [name for name in names if _NOT_THE_AGENTS not in f"{folder}/{name}"]
    if scrub(together) != together:
        names = [name for name in names if scrub(name) == name]
    return names


def _read_names(top: str, until: float) -> Sequence[str] | None:
    """Return the names of regular files and of what git knows; None: they are too many, or late."""
    paths, folders = list[str](), deque([top])
    while folders:
        here = folders.popleft()
        if perf_counter() > until or len(paths) > MOST_FILES:
            return None
        asks = here == top or os.path.exists(f"{here}.git")
        names = _list_git_paths(here, until, stats=False) if asks else None
        if names is None:
            found, is_whole = _list_disk_paths(here)
            if not is_whole:
                return None
            folders += [f"{path}/" for path, is_folder in found if is_folder]
            names = [path[len(here) :] for path, is_folder in found if not is_folder]
        elif inner := {*_find_repositories(here, names)}:
            folders += [f"{here}{name.rstrip('/')}/" for name in names if name in inner]
            names = [name for name in names if name not in inner]
        paths += names if here == top else [f"{here[len(top) :]}{name}" for name in names]
    return sorted(dict.fromkeys(paths)) if len(paths) <= MOST_FILES else None


def find_ends(
    folder: str, names: Mapping[str, tuple[str, ...]], until: float
) -> tuple[set[str], bool]:
    """Return which names are ends of paths in a folder, ignored by git or not.

    `names` maps each to its spellings. False: there was not enough time to search all of it.
    """
    missing, complete = dict(names), True
    for here, folders, files in os.walk(folder):
        if not (missing and complete):
            break
        every = tuple(end for ends in missing.values() for end in ends)
        paths = (os.path.join(here, name) for name in (*folders, *files))
        for path in [each for each in paths if each.endswith(every)]:
            missing = {n: ends for n, ends in missing.items() if not path.endswith(ends)}
        complete = perf_counter() <= until
    return names.keys() - missing.keys(), complete


def has_match(pattern: str, roots: Sequence[str]) -> bool:
    """Tell whether a path within `roots` matches a pattern, as far as is seen in `LIST_SECONDS`."""
    until = perf_counter() + LIST_SECONDS
    for path in iterate_matches(pattern, roots):
        if path is not None or perf_counter() > until:
            return path is not None
    return False


def is_removed_since(path: str, since: int) -> bool:
    """Tell whether a file that a folder held is gone, and may have gone since an instant.

    `since` is in nanoseconds since 1970. A removal changes the folder that the file was in.
    """
    if os.path.lexists(path):
        return False
    above = os.path.dirname(path)
    while above != "/" and not os.path.isdir(above):
        above = os.path.dirname(above)
    with suppress(OSError):
        return os.stat(above).st_ctime_ns >= since
    return True


def read_stamps(path: str) -> FileTimes | None:
    """Return a file's times and size; None: it does not exist or is no regular file."""
    with suppress(OSError, ValueError):
        info = os.lstat(path)
        return _to_stamps(info) if stat.S_ISREG(info.st_mode) else None
    return None


def _to_stamps(info: os.stat_result) -> FileTimes:
    written, changed = max(info.st_mtime_ns, 0), max(info.st_ctime_ns, 0)
    return FileTimes(written=written, changed=changed, size=info.st_size)


def _add_birth(path: str, stamps: FileTimes) -> FileTimes:
    with suppress(OSError):
        handle = os.open(path, _HANDLE_FLAGS)
        try:
            return stamps._replace(born=read_birth_time(handle))
        finally:
            os.close(handle)
    return stamps


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\udc80" <= each <= "\udcff" for each in name)


# --- walking ---------------------------------------------------------------------


def _walk_files(
    folder: str, until: float, *, git: bool
) -> Iterator[tuple[str | None, os.stat_result | None]]:
    """Yield the files below a folder by name, breadth first, each with its state.

    The name None: time was up, or a folder holds too many.
    """
    top = folder.rstrip("/") + "/"
    folders = deque([folder])
    while folders:
        here = folders.popleft()
        if perf_counter() > until:
            yield None, None
            return
        asks = git and (here == folder or os.path.exists(os.path.join(here, ".git")))
        names = _list_git_paths(here, until, stats=True) if asks else None
        found, is_whole = (
            _list_disk_paths(here)
            if names is None
            else (
                [(os.path.join(here, each.rstrip("/")), each.endswith("/")) for each in names],
                True,
            )
        )
        for path, is_folder in found:
            if _NOT_THE_AGENTS in path:
                continue
            info = None if is_folder else _read_state(path)
            if is_folder or (info is not None and stat.S_ISDIR(info.st_mode)):
                folders.append(path)
            elif info is not None:
                yield path.removeprefix(top), info
        if not is_whole:
            yield None, None
            return


def _read_state(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _list_disk_paths(folder: str) -> tuple[Sequence[tuple[str, bool]], bool]:
    """Return the files and folders in a folder, but dot folders; True: it is a folder.

    False as the second value: it holds more than `MOST_FILES`, and these are some of them.
    """
    try:
        with os.scandir(folder) as entries:
            listed = sorted(islice(entries, MOST_FILES + 1), key=lambda entry: entry.name)
    except OSError:
        return (), True
    found = [
        (entry.path, is_folder)
        for entry in listed
        if not ((is_folder := entry.is_dir(follow_symlinks=False)) and entry.name.startswith("."))
        and (is_folder or entry.is_file(follow_symlinks=False))
    ]
    return found, len(listed) <= MOST_FILES


def _find_repositories(folder: str, names: Sequence[str]) -> Iterator[str]:
    """Yield those of the names that git knows which are folders, and so other repositories."""
    has_modules = os.path.exists(os.path.join(folder, ".gitmodules"))
    for name in names:
        if name.endswith("/") or (has_modules and os.path.isdir(os.path.join(folder, name))):
            yield name


def _list_git_paths(folder: str, until: float, *, stats: bool) -> list[str] | None:
    """Return the names in a folder that git does not ignore; None: git cannot tell.

    Without `stats`, tracked files that are not there are left out; else the caller asks for each.
    """
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    own = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        answer = subprocess.run(  # noqa: S603 - no shell, and nothing configured
            _GIT if stats else (*_GIT, "--deleted"),
            check=False,
            cwd=folder,
            env={**own, **quiet},
            capture_output=True,
            timeout=max(until - perf_counter(), 0.0),
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if answer.returncode != 0:
        return None
    tagged = os.fsdecode(answer.stdout).split("\0")
    gone = {each[2:] for each in tagged if each.startswith(_ABSENT_TAG)}
    names = [
        each[2:] for each in tagged if each and not each.startswith((_ABSENT_TAG, _SPARSE_TAG))
    ]
    names = [each for each in names if each not in gone] if gone else names
    # A repository further up may ignore the whole folder.
    is_repository = os.path.exists(os.path.join(folder, ".git"))
    return names if names or is_repository else None


# --- what a folder held ------------------------------------------------------------


class FolderLook(NamedTuple):
    """One look at a folder."""

    at: float
    """When, by the monotonic clock."""
    listing_id: str
    packed: bytes
    """The names, packed; empty: it could not be listed completely."""
    folders: Sequence[str]
    """Those that hold the files."""
    stamp: int
    """From the changed times of all these: another one, if names came or went since."""


def _look_at(path: str, now: float, before: FolderLook | None) -> FolderLook:
    """Look at a folder; a listing that is equal to the one `before` has its id."""
    names = list_names(path)
    packed = b"" if names is None else zlib.compress("\0".join(names).encode(), 1)
    same = before if before is not None and before.packed == packed else None
    listing_id = secrets.token_hex(8) if same is None else same.listing_id
    folders = [os.path.join(path, each) for each in _list_folders(names or ())]
    return FolderLook(now, listing_id, packed, folders, _stamp_folders(folders))


def _list_folders(names: Sequence[str]) -> Sequence[str]:
    """Return the folders of files, and those above them; the top one is empty."""
    folders = {""}
    for name in names:
        folder = name.rpartition("/")[0]
        while folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return sorted(folders)


def _stamp_folders(folders: Sequence[str]) -> int:
    return hash(tuple(map(_read_changed, folders)))


def _read_changed(folder: str) -> int:
    info = _read_state(folder)
    return -1 if info is None else info.st_ctime_ns


class FolderListings:
    """Keeps the names of what folders held when work in them began, with the tasks that need them.

    A listing is a file: its names, packed, and after them the ids of its open tasks, a line each.
    What cannot be written is kept in memory alone; what cannot be read is not known any more.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Take up what a folder keeps; it is created for the first listing. None: memory alone."""
        self._folder = folder
        self._lock = threading.Lock()
        self._looks: dict[str, FolderLook] = {}
        """By path, oldest first."""
        self._packed: dict[str, bytes] = {}
        """By listing id: what could not be written."""
        self._tasks: dict[str, set[str]] = defaultdict(set)
        """By listing id: the open tasks that need it."""
        with suppress(OSError):
            for path in sorted(folder.iterdir()) if folder else ():
                with suppress(OSError, ValueError):
                    self._tasks[path.name] = set()
                    self._tasks[path.name] |= {*_split_file(path.read_bytes())[1]}

    def look_at(self, path: str, clock: Clock) -> FolderLook:
        """Look at a folder in which a task is to begin; nothing is kept yet.

        A look of the last `SHARED_SECONDS` serves, if no name came or went since, or if there were
        too many. This may take long, as a network folder may not answer: call it without any lock.
        """
        now = clock.monotonic()
        look = self._looks.get(path)
        is_new = look is not None and now - SHARED_SECONDS <= look.at <= now
        if (
            look is None
            or not is_new
            or (look.packed and look.stamp != _stamp_folders(look.folders))
        ):
            look = _look_at(path, now, look)
        with self._lock:
            self._looks.pop(path, None)
            self._looks[path] = look
            if len(self._looks) > _MOST_LOOKS:
                del self._looks[next(iter(self._looks))]
        return look

    def hold(self, look: FolderLook, task_id: str) -> None:
        """Keep what a look showed for as long as a task is open, if that is complete."""
        if look.packed:
            with self._lock:
                self._add_task(look, task_id)

    def _add_task(self, look: FolderLook, task_id: str) -> None:
        listing_id, tasks = look.listing_id, self._tasks[look.listing_id]
        if task_id in tasks:
            return
        line = f"{task_id}\n".encode()
        try:
            if self._folder is None:
                raise FileNotFoundError
            self._folder.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            with os.fdopen(os.open(self._folder / listing_id, flags, 0o600), "ab") as file:
                file.write(line if tasks else look.packed + line)
        except OSError:
            self._packed[listing_id] = look.packed
        tasks.add(task_id)

    def read_names(self, listing_id: str) -> frozenset[str] | None:
        """Return the names that a listing holds; None: it is not kept any more."""
        with self._lock:
            if listing_id not in self._tasks:
                return None
            packed = self._packed.get(listing_id)
            try:
                if packed is None and self._folder is not None:
                    packed = (self._folder / listing_id).read_bytes()
                names = _split_file(packed or b"")[0]
            except (OSError, ValueError):
                return None
        return frozenset(filter(None, names.split("\0")))

    def release(self, task_ids: Iterable[str]) -> None:
        """Remove the listings that only tasks which have ended needed."""
        ended = {*task_ids}
        with self._lock:
            for listing_id in [i for i, tasks in self._tasks.items() if ended and tasks & ended]:
                self._tasks[listing_id] -= ended
                if not self._tasks[listing_id]:
                    self._remove(listing_id)

    def _remove(self, listing_id: str) -> None:
        del self._tasks[listing_id]
        self._packed.pop(listing_id, None)
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / listing_id).unlink(missing_ok=True)

    def drop_unneeded(self, is_open: Callable[[str], bool]) -> None:
        """Remove what no open task needs, such as that of tasks which another home has ended."""
        with self._lock:
            known = {task_id for tasks in self._tasks.values() for task_id in tasks}
            empty = [listing_id for listing_id, tasks in self._tasks.items() if not tasks]
            for listing_id in empty:
                self._remove(listing_id)
        self.release(task_id for task_id in known if not is_open(task_id))


def _split_file(content: bytes) -> tuple[str, list[str]]:
    """Return the names that a file holds, and the ids of its tasks.

    Raises:
        ValueError: It is damaged.
    """
    unpacker = zlib.decompressobj()
    try:
        names = unpacker.decompress(content).decode()
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError("it is cut")
    return names, unpacker.unused_data.decode(errors="replace").split()
