"""Write the MCP server, the skill and other files into a host, for plug-ins that set hosts up.

It is no part of the contract: a plug-in for another kind of host needs none of it.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Final, NamedTuple, cast

from taskmem_program import OWN_PROGRAM
from taskmem_program.files import replace_file

SERVER: Final = "taskmem"
"""Name of the MCP server in a host's configuration."""
TOOLS: Final = "runs"
"""Default set of tools for an MCP host: all that the skill names, including those for hand-offs
between roles."""
SKILL: Final = "task-memory"
_MARK: Final = f"name: {SKILL}"
_SEAL: Final = b"<!-- "
"""Starts the seal at the end of a skill: a checksum of its text."""


_LOCK_TRIES: Final = 20
_LOCK_TRY_SECONDS: Final = 0.02


class SetupRunning(Exception):
    """Another set-up is at work in the home."""


@contextmanager
def mark_running(home: Path) -> Generator[None]:
    """Mark a home while its host is set up, so that its daemon begins no work meanwhile.

    The mark is a lock on the folder of set-up's records, so it ends with this process in any case.
    Without that folder, or where the file system has no locks, there is no mark.

    Raises:
        SetupRunning: Another process has it.
    """
    try:
        folder = os.open(home / "setup", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        for _ in range(_LOCK_TRIES):  # a daemon that looks has it for a moment
            if not _is_locked(folder, fcntl.LOCK_EX):
                break
            time.sleep(_LOCK_TRY_SECONDS)
        else:
            raise SetupRunning
        yield
    finally:
        os.close(folder)


def is_running(home: Path) -> bool:
    """Return whether a set-up is at work in a home."""
    try:
        folder = os.open(home / "setup", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _is_locked(folder, fcntl.LOCK_SH)
    finally:
        os.close(folder)


def _is_locked(folder: int, kind: int) -> bool:
    """Take a lock on a folder; return whether another process keeps it from that."""
    try:
        fcntl.flock(folder, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class NotOurs(Exception):
    """Another skill has that name; `str()` says where."""


def find_home() -> Path:
    """Return the state folder, which the command line has put into the environment.

    Raises:
        KeyError: `TASKMEM_HOME` is not set.
    """
    return Path(os.environ["TASKMEM_HOME"])


def find_command() -> tuple[str, ...]:
    """Return the command that runs this installation's `taskmem`, with its absolute path."""
    program = Path(sys.executable).with_name("taskmem")
    if os.access(program, os.X_OK):
        return (str(program),)
    return OWN_PROGRAM


def runs_taskmem(server: object) -> bool:
    """Return True if an MCP server's entry, of any host, starts `taskmem mcp`."""
    entry = cast("dict[str, object]", server) if isinstance(server, dict) else {}
    arguments = entry.get("args")
    if arguments == ["mcp"]:
        return PurePath(str(entry.get("command"))).name == "taskmem"
    # There may be options of Python before.
    return isinstance(arguments, list) and arguments[-3:] == [*OWN_PROGRAM[-2:], "mcp"]


def describe_data(home: str | Path) -> list[str]:
    """Return the line that says the data folder stays; empty if there is no such folder."""
    if not Path(home).is_dir():
        return []
    return [f"{home}, where taskmem keeps its data, was not touched."]


def write_file(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file atomically; keep the mode of an existing one.

    Follows a link and writes the file that it points to.

    Raises:
        OSError: As for `replace_file`. `filename` names the file, or a folder on the path to it.
    """
    target = Path(os.path.realpath(file))
    with suppress(FileNotFoundError):
        mode = target.stat().st_mode & 0o7777
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        replace_file(target, content, mode=mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error


# --- the skill ----------------------------------------------------------------


def add_seal(words: bytes) -> bytes:
    """Append a checksum to a skill, so that a manual edit can be detected."""
    return words + _SEAL + sha256(words).hexdigest()[:12].encode() + b" -->\n"


class Skill(NamedTuple):
    """The skill in a host's folder of skills."""

    skills: Path
    """The host's folder of skills."""
    words: bytes = b""
    """Text of the skill, with its seal; empty: only to find or remove an installed one."""
    known: tuple[bytes, ...] = ()
    """Texts of earlier versions without a seal; a sealed one is recognised by its seal."""

    @property
    def folder(self) -> Path:
        """The skill's own folder."""
        return self.skills / SKILL

    @property
    def file(self) -> Path:
        """The only file of the skill."""
        return self.folder / "SKILL.md"

    @property
    def there(self) -> bytes | None:
        """The installed text; None: not installed.

        Raises:
            NotOurs: The file is another skill.
        """
        try:
            found = self.file.read_bytes()
        except FileNotFoundError:
            return None
        if _MARK not in found.decode(errors="replace").splitlines()[:10]:
            raise NotOurs(f"{self.file} is another skill; move it away, and run this again.")
        return found

    @property
    def in_place(self) -> bool:
        """True if this version is installed."""
        return self.there == self.words

    def write(self) -> list[str]:
        """Install the skill; return a line about the backup if a manual edit was replaced.

        Raises:
            OSError: It cannot be written.
        """
        kept = self._keep_changed()
        write_file(self.file, self.words, mode=0o644)
        return kept

    def remove(self) -> list[str]:
        """Remove the skill, but no other files; return lines about backups that remain."""
        kept = self._keep_changed()
        self.file.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()
        if kept or not self._copy.exists():
            return kept
        return [f"What {self.file} said before stays as {self._copy}."]

    @property
    def _copy(self) -> Path:
        return self.folder / "SKILL.md.before"

    def _keep_changed(self) -> list[str]:
        """Back up a manually edited skill; return a line that says so."""
        found = self.there
        if found is None or self._is_untouched(found):
            return []
        write_file(self._copy, found, mode=0o644)
        return [f"What {self.file} said is kept as {self._copy}."]

    def _is_untouched(self, found: bytes) -> bool:
        """Return True if the text is that of this or an earlier version."""
        words, seal, _ = found.rpartition(_SEAL)
        if found in (self.words, *self.known):
            return True
        return seal != b"" and found == add_seal(words)
