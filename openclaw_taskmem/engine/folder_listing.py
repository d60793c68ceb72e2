"""List the files of a folder, with git where it is a repository."""
# ruff: noqa: PTH110, PTH112, PTH118, PTH119 - paths are text, as the system has them

from __future__ import annotations

import os
import stat
import subprocess
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from time import perf_counter
from typing import Final

from openclaw_taskmem.domain.tasks.ledger import FileTimes, FolderListing

MOST: Final = 20_000
"""Files listed per folder, at most."""
SECONDS: Final = 5.0
"""How long one folder is listed, in seconds."""
_NOT_THE_AGENTS: Final = "/memory/.dreams/"
"""Where OpenClaw keeps its memory of sessions in an agent's workspace."""
_GIT: Final = (
    *("git", "--no-optional-locks", "-c", "core.fsmonitor=false"),
    *("-c", "core.untrackedCache=false", "ls-files", "-z", "--cached", "--others"),
    "--exclude-standard",
)
"""Reads the index and file names; runs nothing that a repository may configure."""


def list_files(folder: str, *, ignored: bool = False) -> FolderListing | None:
    """Return the files of a folder with times and sizes; None: it is no folder.

    The listing is incomplete after `MOST` files or `SECONDS`, or if a name is no text.
    Files that git ignores are left out unless `ignored`; so are dot folders outside git, and
    OpenClaw's own files. Links are not followed.
    """
    if not os.path.isdir(folder):
        return None
    until = perf_counter() + SECONDS
    top = folder.rstrip("/") + "/"
    files: dict[str, FileTimes] = {}
    complete = True
    for path, info in _walk_files(folder, git=not ignored):
        if len(files) >= MOST or perf_counter() > until:
            return FolderListing(files=files, complete=False)
        if _NOT_THE_AGENTS in path:
            continue
        if not _is_text(path):
            complete = False
        elif stat.S_ISREG(info.st_mode):
            files[path.removeprefix(top)] = _to_stamps(info)
    return FolderListing(files=files, complete=complete)


def has_file(folder: str, ends: tuple[str, ...]) -> bool | None:
    """Whether a path in a folder has one of the `ends`, ignored by git or not.

    None: there was not enough time to search all of it.
    """
    until = perf_counter() + SECONDS
    for here, folders, files in os.walk(folder):
        if any(os.path.join(here, name).endswith(ends) for name in (*folders, *files)):
            return True
        if perf_counter() > until:
            return None
    return False


def read_stamps(path: str) -> FileTimes | None:
    """Return a file's times and size; None: it does not exist or is no regular file."""
    with suppress(OSError, ValueError):
        info = os.lstat(path)
        return _to_stamps(info) if stat.S_ISREG(info.st_mode) else None
    return None


def _to_stamps(info: os.stat_result) -> FileTimes:
    written, changed = max(info.st_mtime_ns, 0), max(info.st_ctime_ns, 0)
    return FileTimes(written=written, changed=changed, size=info.st_size)


def _is_text(path: str) -> bool:
    """Whether a path can be stored, that is, decodes as text."""
    return not any("\udc80" <= each <= "\udcff" for each in path)


def _walk_files(folder: str, *, git: bool) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files below a folder, breadth first."""
    folders = deque([folder])
    while folders:
        here = folders.popleft()
        asks = git and (here == folder or _is_repository(here))
        names = _list_git_paths(here) if asks else None
        for path in _list_disk_paths(here) if names is None else names:
            with suppress(OSError, ValueError):
                info = os.lstat(path)
                if not stat.S_ISDIR(info.st_mode):
                    yield path, info
                elif names is not None or not os.path.basename(path).startswith("."):
                    folders.append(path)


def _list_disk_paths(folder: str) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(entry.path for entry in entries)
    return []


def _is_repository(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, ".git"))


def _list_git_paths(folder: str) -> list[str] | None:
    """Return the paths in a folder that git does not ignore; None: git cannot tell."""
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    own = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        answer = subprocess.run(  # noqa: S603 - no shell, and nothing configured
            _GIT,
            check=False,
            cwd=folder,
            env={**own, **quiet},
            capture_output=True,
            timeout=SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if answer.returncode != 0:
        return None
    names = os.fsdecode(answer.stdout).split("\0")
    paths = [os.path.join(folder, name.rstrip("/")) for name in names if name]
    # A repository further up may ignore the whole folder.
    return paths if paths or _is_repository(folder) else None
