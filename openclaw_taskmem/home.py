"""The state folder: where it is, and which files are in it.

Standard library only, and little of it, since every command imports this at its start. For the same
reason `Home` is a named tuple (a dataclass would cost 10 ms).
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from taskmem_program import OWN_PROGRAM
from taskmem_program.losses import BACKUP_NOTE

_PATH_BYTES: Final = 107 if sys.platform == "linux" else 103
"""Bytes of the longest path of a Unix socket, without the system's NUL."""
_PLUGIN_NAME_BYTES: Final = 8
"""Bytes by which the name of a plug-in's socket beside ours may be longer."""

_SOCKET: Final = "daemon.sock"
"""Name of the daemon's socket in the home."""
_CONFIG: Final = "config.toml"
_DATABASE: Final = "taskmem.db"
_LOCK: Final = "daemon.lock"
"""By one of these three files a folder is known to be a home."""
_PROGRAM_FOLDERS: Final = (
    *("bin", "boot", "dev", "etc", "lib", "opt", "proc", "run", "sbin", "srv", "sys", "usr", "var"),
    *("Applications", "Library", "System"),
)
"""Folders in `/` whose folders belong to programs, on Linux and on macOS."""
_SYSTEM_FOLDERS: Final = (
    *_PROGRAM_FOLDERS,
    *("home", "media", "mnt", "root", "tmp", "Users", "Volumes", "private"),
)
"""Folders in `/` that belong to the system, on Linux and on macOS."""


_REPLACED_STARTS: Final = ("$", "~", "%")
"""Beginnings of names that a shell or a host replaces."""


class HomeRefused(Exception):
    """The state folder cannot be used; `str()` says why and what to do."""

    name = "settings_invalid"
    """The error's name, for programs, as in all errors of this project."""


class Home(NamedTuple):
    """The state folder and its files: absolute paths, which need not exist."""

    folder: Path
    socket: Path
    """The daemon's socket: in the folder, unless its path would be too long."""

    @property
    def lock(self) -> Path:
        """The lock of the running daemon, so that there is only one."""
        return self.folder / _LOCK

    @property
    def log(self) -> Path:
        """The log of a daemon that was started in the background."""
        return self.folder / "daemon.log"

    @property
    def config(self) -> Path:
        """The file of settings."""
        return self.folder / _CONFIG

    @property
    def identity_file(self) -> Path:
        """The id of this home, which stays the same when it is moved."""
        return self.folder / "home.id"

    @property
    def database(self) -> Path:
        """The SQLite file that is used unless the settings name a database."""
        return self.folder / _DATABASE

    @property
    def database_note(self) -> Path:
        """The file that says at which URL the tasks are, if the settings named one."""
        return self.folder / "home.database"

    @property
    def extent_note(self) -> Path:
        """The file that says how much a database on a server last had."""
        return self.folder / "home.database-last"

    @property
    def loss_note(self) -> Path:
        """The file that says what is gone from a database on a server."""
        return self.folder / "home.database-lost"

    @property
    def backup_note(self) -> Path:
        """The file that says where the last back-up was written."""
        return self.folder / BACKUP_NOTE

    @property
    def pictures(self) -> Path:
        """The folder of waits' pictures."""
        return self.folder / "pictures"

    @property
    def listings(self) -> Path:
        """The folder of what agents' folders held when open tasks began."""
        return self.folder / "listings"

    def require_own(self) -> None:
        """Refuse a folder that another user made, can replace or has put a file into.

        Others' settings, which name programs, and links must not be used. Files of root are
        allowed, as root can read everything anyway. A folder of the system, and the user's own
        home, are refused as well: they would be closed to all others.

        Raises:
            HomeRefused: Something is another user's or can be written by others, or the folder's
                name is no UTF-8.
        """
        try:
            str(self.folder).encode()
        except UnicodeEncodeError as error:
            raise HomeRefused(
                f"The name of the state folder {str(self.folder)!a} is no UTF-8. "
                "Set TASKMEM_HOME to a folder whose name is."
            ) from error
        require_no_common_folder(self.folder)
        _require_replaced_names(self.folder)
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            _require_own_folder(self.folder)
            is_open = self.folder.stat().st_mode & 0o011
            for name in sorted(os.listdir(self.folder)):  # noqa: PTH208 (names only)
                with suppress(OSError):
                    _require_own_file(self.folder / name, is_open=bool(is_open))

    def prepare(self) -> None:
        """Create the folder for its owner alone, and the socket's folder if it is another.

        An existing folder of ours is closed to other users.

        Raises:
            HomeRefused: The folder cannot be created or is not ours (see `require_own`), or the
                socket's own folder is not ours alone.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.require_own()
            if self.folder.stat().st_mode & 0o077:
                self.folder.chmod(0o700)
                if not keeps_modes(self.folder):
                    raise HomeRefused(describe_modeless(self.folder))
                # Check again for files added while it was open.
                self.require_own()
            if self.socket.parent != self.folder:
                _make_private(self.socket.parent)
                _link_socket(self.folder / _SOCKET, self.socket)
        except OSError as error:
            raise HomeRefused(
                f"The state folder {self.folder} cannot be used ({describe_os_error(error)}). "
                "Set TASKMEM_HOME to a folder that can be written."
            ) from error

    def move_socket(self, environ: Mapping[str, str]) -> Home:
        """Return this home with its socket outside the folder, whose file system has no sockets."""
        return self._replace(socket=_find_far_socket(self.folder, environ))

    def find_socket(self, environ: Mapping[str, str]) -> Path:
        """Return the path at which a running daemon is reached.

        It is the socket's, unless the daemon had to put it elsewhere, and no link says so.
        """
        if not os.path.lexists(self.folder / _SOCKET):
            for far in _list_far_sockets(self.folder, environ):
                if far.is_socket() and not _is_anothers(far.parent):
                    return far
        return self.socket


def require_no_common_folder(folder: Path) -> None:
    """Refuse a folder of the system, the user's own home, and what has that in it.

    Raises:
        HomeRefused: It is one.
    """
    real, home = os.path.realpath(folder), os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111
    is_system = _is_of_system(Path(real))
    if is_system or (home != "/" and os.path.commonpath([real, home]) == real):
        kind = "one of the system" if is_system else "your own home, or has it in it"
        raise HomeRefused(
            f"The state folder {folder} is {kind}, and would be closed to all other users. "
            f"Set TASKMEM_HOME to a folder of its own, for example {folder / 'taskmem'}."
        )


def _is_of_system(folder: Path) -> bool:
    """Tell whether a folder is `/`, in it, or of programs: it has files, and none of a home."""
    parts = folder.parts[1:]
    if not parts or (len(parts) == 1 and parts[0] in _SYSTEM_FOLDERS):
        return True
    if len(parts) != 2 or parts[0] not in _PROGRAM_FOLDERS:  # noqa: PLR2004 - such as /usr/local
        return False
    own = (_CONFIG, _DATABASE, _LOCK)
    with suppress(OSError):
        return any(folder.iterdir()) and not any((folder / each).exists() for each in own)
    return False


def describe_os_error(error: OSError) -> str:
    """Return what the system says, and the file it is about, if there is one."""
    is_named = isinstance(error.filename, str)  # else a descriptor, or nothing
    return f"{error.strerror}: {error.filename}" if is_named else str(error.strerror or error)


def keeps_modes(folder: Path) -> bool:
    """Tell whether a folder's file system keeps the modes of files.

    Those of Windows' disks in WSL, FAT and some network shares do not. True also if it cannot be
    tried. Source: https://github.com/microsoft/WSL/issues/4038
    """
    probe = folder / f".modes-{os.getpid()}"
    try:
        file = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError:
        return True
    try:
        return not os.fstat(file).st_mode & 0o077
    finally:
        os.close(file)
        probe.unlink(missing_ok=True)


def describe_modeless(folder: Path) -> str:
    """Say that a folder cannot be closed to others, and what to do."""
    return (
        f"The file system of {folder} keeps no permissions (chmod changes nothing there), so other "
        "users could read and change what is in it. Set TASKMEM_HOME to a folder on a file system "
        "of Linux or macOS, such as one in your home."
    )


def find_home(environ: Mapping[str, str]) -> Home:
    """Return the state folder (see `locate_home`); refuse one that is not ours.

    Raises:
        HomeRefused: As for `Home.require_own`.
    """
    home = locate_home(environ)
    home.require_own()
    return home


def locate_home(environ: Mapping[str, str]) -> Home:
    """Return the state folder, whoever owns it; nothing is created or changed.

    It is `TASKMEM_HOME`, else `taskmem` in `OPENCLAW_STATE_DIR`, else `.openclaw/taskmem` in
    `OPENCLAW_HOME` or the user's home. Empty variables count as unset.

    Args:
        environ: The environment, such as `os.environ`.

    Raises:
        HomeRefused: `TASKMEM_HOME` is another folder in each working folder.
    """
    if own := environ.get("TASKMEM_HOME"):
        folder = _make_absolute(own, environ)
        if not own.startswith(("/", *_REPLACED_STARTS)):
            raise HomeRefused(
                f"TASKMEM_HOME is {own}, another folder in each working folder. Set it to the "
                f"whole path, such as {folder}."
            )
    elif state := environ.get("OPENCLAW_STATE_DIR"):
        folder = _make_absolute(state, environ) / "taskmem"
    else:
        user = environ.get("OPENCLAW_HOME") or "~"
        folder = _make_absolute(user, environ) / ".openclaw" / "taskmem"
    return Home(folder, _find_socket(folder, environ))


def build_own_command(home: Home) -> str:
    """Return the shell command that calls this installation for a home."""
    import shlex

    return f"TASKMEM_HOME={shlex.quote(str(home.folder))} {_format_program()}"


def find_short_command(environ: Mapping[str, str]) -> str:
    """Return the shell command that calls this installation: `taskmem` where PATH has it."""
    import shutil

    found = shutil.which("taskmem", path=environ.get("PATH"))
    program = Path(sys.executable).with_name("taskmem")
    is_own = found is not None and program.exists() and program.samefile(found)
    return "taskmem" if is_own else _format_program()


def _format_program() -> str:
    import shlex

    program = Path(sys.executable).with_name("taskmem")
    return shlex.join([str(program)] if os.access(program, os.X_OK) else OWN_PROGRAM)


def _make_absolute(path: str, environ: Mapping[str, str]) -> Path:
    # Hosts replace nothing in the variables that their settings name.
    for written in ("$HOME", "${HOME}"):
        if path == written or path.startswith(f"{written}/"):
            path = f"~{path.removeprefix(written)}"
    if path == "~" or path.startswith("~/"):
        path = (environ.get("HOME") or os.path.expanduser("~")) + path[1:]  # noqa: PTH111 (Path("~") raises where there is no home)
    return Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111 (Path has no call that drops ".." without following links)


def _find_socket(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the socket's path: in the folder, or else where the path is short enough.

    A daemon leaves a link in the folder that points to its socket, so that clients with another
    `XDG_RUNTIME_DIR` or none (cron, a service) find it. A folder that another user has created in
    place of ours is skipped.
    """
    near = folder / _SOCKET
    if _is_short_enough(near):
        return near
    with suppress(OSError):
        known = near.readlink()
        if _is_short_enough(known) and known.parent.is_dir() and not _is_anothers(known.parent):
            return known
    return _find_far_socket(folder, environ)


def _find_far_socket(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the path of a socket outside the folder: the first that we can make."""
    sockets = _list_far_sockets(folder, environ)
    for far in sockets:
        if not _is_anothers(far.parent) and os.access(far.parents[1], os.W_OK | os.X_OK):
            return far
    return sockets[-1]  # preparing it says what is wrong


def _list_far_sockets(folder: Path, environ: Mapping[str, str]) -> list[Path]:
    """List the paths outside the folder at which its socket may be, the best first."""
    import hashlib

    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    name = f"taskmem-{os.geteuid()}-{digest}"
    shared = Path("/tmp")  # noqa: S108 (our folder in it is checked to be ours alone)
    set_to = (Path(environ.get(each, "")) for each in ("XDG_RUNTIME_DIR", "TMPDIR"))
    bases = (*set_to, shared, Path(environ.get("HOME", "")))
    sockets = [base / name / _SOCKET for base in bases if base.is_absolute()]
    return [far for far in sockets if _is_short_enough(far)]


def _is_short_enough(path: Path) -> bool:
    return len(os.fsencode(path)) + _PLUGIN_NAME_BYTES <= _PATH_BYTES


def _is_anothers(folder: Path) -> bool:
    """Tell whether the path exists and belongs to another user."""
    with suppress(OSError):
        return folder.lstat().st_uid != os.geteuid()
    return False


def _require_replaced_names(folder: Path) -> None:
    """Refuse a new folder in whose path a variable or a user's name was not replaced.

    It would be made in the working folder, another one in each project.
    """
    left = [part for part in folder.parts if part.startswith(_REPLACED_STARTS) and len(part) > 1]
    if left and not folder.exists():
        raise HomeRefused(
            f"The name of the state folder {folder} still has {left[0]} in it, which nothing "
            "replaced. Set TASKMEM_HOME to the whole path."
        )


def _require_own_folder(folder: Path) -> None:
    us = os.geteuid()
    info, place = folder.stat(), folder.lstat()
    if stat.S_ISLNK(place.st_mode) and place.st_uid not in (us, 0):
        fault = f"is a link that user {place.st_uid} made"
    elif info.st_uid != us:
        fault = f"belongs to user {info.st_uid}"
    elif info.st_mode & stat.S_ISVTX and info.st_mode & 0o022:
        fault = "is one that other users write to"
    else:
        return
    raise HomeRefused(
        f"The state folder {folder} {fault}; set TASKMEM_HOME to a folder of your own."
    )


def _require_own_file(path: Path, *, is_open: bool) -> None:
    """Refuse another user's file in a state folder, and a named pipe in place of one.

    `is_open`: others may enter the folder.
    """
    info = path.lstat()
    if info.st_uid in (os.geteuid(), 0) and stat.S_ISLNK(info.st_mode):
        info = path.stat()
    if info.st_uid not in (os.geteuid(), 0):
        raise HomeRefused(
            f"{path} belongs to user {info.st_uid}; see how it came there and remove "
            "it, or set TASKMEM_HOME to a folder of your own."
        )
    if stat.S_ISFIFO(info.st_mode):
        raise HomeRefused(
            f"{path} is a named pipe, at which every command would wait for ever; remove it."
        )
    # A group with the user's own number is the user's alone, as umask 002 assumes.
    others = 0o002 if info.st_gid == info.st_uid else 0o022
    is_kept = stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)
    if is_open and is_kept and info.st_mode & others:
        if not keeps_modes(path.parent):
            raise HomeRefused(describe_modeless(path.parent))
        raise HomeRefused(
            f"{path} can be written by other users; see that its content is yours, "
            f"then run: chmod go-w {path}"
        )


def _make_private(folder: Path) -> None:
    """Create a folder for us alone where others may write, or check the existing one."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    info = folder.lstat()
    ours = stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()
    if not ours or info.st_mode & 0o077:
        raise HomeRefused(
            f"{folder}, where the socket of a long TASKMEM_HOME goes, is not a folder "
            "of yours alone. Remove it, or set TASKMEM_HOME to a shorter path."
        )


def _link_socket(link: Path, target: Path) -> None:
    with suppress(OSError):
        if link.readlink() == target:
            return
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    with suppress(OSError):  # some file systems have no links
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(target)
        fresh.replace(link)
