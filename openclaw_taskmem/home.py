"""The state folder: where it is, and what lies in it.

Standard library only, and little of it: every face pays for this import at its
start. That is also why `Home` is a named tuple (a dataclass would cost 10 ms).
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PATH_BYTES = 107 if sys.platform == "linux" else 103
"""The longest path of a Unix socket in bytes; the system adds a NUL to it."""
_BESIDE = 8
"""How much longer the name of a socket may be that a plug-in puts beside ours."""

_SOCKET = "daemon.sock"


class HomeRefused(Exception):
    """The state folder cannot be used; its `str()` says why and what to do."""

    name = "settings_invalid"
    """What programs match on, as every error of this project has."""


class Home(NamedTuple):
    """The state folder and the files in it; absolute paths, which need not exist."""

    folder: Path
    socket: Path
    """The daemon's socket: in the folder, unless its path would be too long."""

    @property
    def lock(self) -> Path:
        """What a running daemon holds, so that there is one."""
        return self.folder / "daemon.lock"

    @property
    def log(self) -> Path:
        """What a daemon that a face started says and complains about."""
        return self.folder / "daemon.log"

    @property
    def config(self) -> Path:
        """The settings that are not in the environment."""
        return self.folder / "config.toml"

    @property
    def mark(self) -> Path:
        """What tells this home from every other, wherever it is moved to."""
        return self.folder / "home.id"

    @property
    def database(self) -> Path:
        """The SQLite file that is used unless the settings name a database."""
        return self.folder / "taskmem.db"

    @property
    def pictures(self) -> Path:
        """The pictures that are kept of waits."""
        return self.folder / "pictures"

    def prepare(self) -> None:
        """Make the folder, for its owner alone, and the socket's where it is another.

        A folder that is there already is closed to others too, unless it belongs
        to another user or is a shared one (sticky, like `/tmp`).

        Raises:
            HomeRefused: The folder cannot be made, or the socket's own folder
                is not ours alone.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _close_to_others(self.folder)
            if self.socket.parent != self.folder:
                _make_private(self.socket.parent)
                _point(self.folder / _SOCKET, self.socket)
        except OSError as error:
            raise HomeRefused(
                f"The state folder {self.folder} cannot be used ({error.strerror}: "
                f"{error.filename}). Set TASKMEM_HOME to a folder that can be "
                "written."
            ) from error


def find_home(environ: Mapping[str, str]) -> Home:
    """Find the state folder; nothing is made or changed.

    `TASKMEM_HOME`, else `taskmem` in `OPENCLAW_STATE_DIR`, else
    `.openclaw/taskmem` in `OPENCLAW_HOME` or the user's own home. A variable
    that is empty counts as not set.

    Args:
        environ: The environment, such as `os.environ`.
    """
    if own := environ.get("TASKMEM_HOME"):
        folder = _absolute(own, environ)
    elif state := environ.get("OPENCLAW_STATE_DIR"):
        folder = _absolute(state, environ) / "taskmem"
    else:
        user = environ.get("OPENCLAW_HOME") or "~"
        folder = _absolute(user, environ) / ".openclaw" / "taskmem"
    return Home(folder, _find_socket(folder, environ))


def _absolute(path: str, environ: Mapping[str, str]) -> Path:
    if path == "~" or path.startswith("~/"):
        path = (environ.get("HOME") or os.path.expanduser("~")) + path[1:]  # noqa: PTH111 (Path("~") raises where there is no home)
    return Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111 (Path has no call that drops ".." without following links)


def _find_socket(folder: Path, environ: Mapping[str, str]) -> Path:
    """Choose the socket's place: in the folder, or else where its path is short.

    A daemon leaves a link in the folder that says where its socket is: faces
    with another `XDG_RUNTIME_DIR` or none (cron, a service) must find the same.
    """
    near = folder / _SOCKET
    if _fits(near):
        return near
    with suppress(OSError):
        known = near.readlink()
        if _fits(known) and known.parent.is_dir():
            return known
    import hashlib

    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    name = f"taskmem-{os.geteuid()}-{digest}"
    for variable in ("XDG_RUNTIME_DIR", "TMPDIR"):
        base = Path(environ.get(variable, ""))
        far = base / name / _SOCKET
        if base.is_absolute() and _fits(far) and os.access(base, os.W_OK | os.X_OK):
            return far
    return Path("/tmp") / name / _SOCKET  # noqa: S108 (its folder is checked to be ours alone)


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) + _BESIDE <= _PATH_BYTES


def _close_to_others(folder: Path) -> None:
    found = folder.stat()
    shared = found.st_mode & stat.S_ISVTX or found.st_uid != os.geteuid()
    if found.st_mode & 0o077 and not shared:
        folder.chmod(0o700)


def _make_private(folder: Path) -> None:
    """Make a folder in a place that others write to, or find it as we left it."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not ours or found.st_mode & 0o077:
        raise HomeRefused(
            f"{folder}, where the socket of a long TASKMEM_HOME goes, is not a folder "
            "of yours alone. Remove it, or set TASKMEM_HOME to a shorter path."
        )


def _point(link: Path, target: Path) -> None:
    with suppress(OSError):
        if link.readlink() == target:
            return
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)
