"""What plug-ins share that set a host up: our MCP server, the skill, whole files."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Final, NamedTuple

SERVER: Final = "taskmem"
"""The MCP server's name in a host's configuration."""
TOOLS: Final = "runs"
"""The tools that an MCP host is offered unless its entry says otherwise: all that the
skill names, so also those for hand-offs between roles."""
SKILL: Final = "task-memory"
_MARK: Final = f"name: {SKILL}"
_SEAL: Final = b"<!-- "
"""Before the sum of a skill's words, at its end."""


class NotOurs(Exception):
    """There is another skill of that name; `str()` says where."""


def find_home() -> Path:
    """Return the state folder; the command line has put it into the environment."""
    return Path(os.environ["TASKMEM_HOME"])


def find_command() -> tuple[str, ...]:
    """Return the command that is this installation's `taskmem`, by its whole path."""
    program = Path(sys.executable).with_name("taskmem")
    if os.access(program, os.X_OK):
        return (str(program),)
    return (sys.executable, "-m", "openclaw_taskmem")


def runs_taskmem(server: object) -> bool:
    """Whether an MCP server's entry, of any host, starts `taskmem mcp`."""
    match server:
        case {"command": str(program), "args": ["mcp"]}:
            return PurePath(program).name == "taskmem"
        case {"args": ["-m", "openclaw_taskmem", "mcp"]}:
            return True
        case _:
            return False


def describe_data(home: str | Path) -> list[str]:
    """Say of the folder of our data that it stays; empty: there is none."""
    if not Path(home).is_dir():
        return []
    return [f"{home}, where taskmem keeps its data, was not touched."]


def write_file(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file, whole or not at all, and keep its mode where it is there.

    A link is followed: what it points to is written.

    Raises:
        OSError: It cannot be written; it is as it was. `filename` is its own, or that
            of a folder on the way.
    """
    target = Path(os.path.realpath(file))
    with suppress(FileNotFoundError):
        mode = target.stat().st_mode & 0o7777
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _replace(target, content, mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error


def _replace(target: Path, content: bytes, mode: int) -> None:
    handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        Path(draft).chmod(mode)
        Path(draft).replace(target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def make_setup_folder(home: Path) -> Path:
    """Make the folder for what is kept of setting up, for its owner alone.

    Raises:
        OSError: It cannot be made.
    """
    place = home / "setup"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.mkdir(mode=0o700, exist_ok=True)
    return place


# --- the skill ----------------------------------------------------------------


def add_seal(words: bytes) -> bytes:
    """Return a skill with the sum of its words, which shows a change by hand."""
    return words + _SEAL + sha256(words).hexdigest()[:12].encode() + b" -->\n"


class Skill(NamedTuple):
    """A place for the skill, in a host's folder of skills."""

    skills: Path
    """That folder."""
    words: bytes = b""
    """What the skill says."""
    known: tuple[bytes, ...] = ()
    """What else of ours it may say; a skill with a seal is known by that."""

    @property
    def folder(self) -> Path:
        """The skill's own folder."""
        return self.skills / SKILL

    @property
    def file(self) -> Path:
        """The file that is all of it."""
        return self.folder / "SKILL.md"

    @property
    def there(self) -> bytes | None:
        """What is in that place; None: nothing is.

        Raises:
            NotOurs: Something else is.
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
        """Whether it is there, in this version."""
        return self.there == self.words

    def write(self) -> list[str]:
        """Put it there, and say what was kept of one that has other words.

        Raises:
            OSError: It cannot be written.
        """
        kept = self._keep_changed()
        write_file(self.file, self.words, mode=0o644)
        return kept

    def remove(self) -> list[str]:
        """Take it away, and say what was kept of it; what else is there stays."""
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
        """Keep a copy of what was changed by hand, and say so."""
        found = self.there
        if found is None or self._is_untouched(found):
            return []
        write_file(self._copy, found, mode=0o644)
        return [f"What {self.file} said is kept as {self._copy}."]

    def _is_untouched(self, found: bytes) -> bool:
        """Whether a skill has the words of a version of ours, be it an earlier one."""
        words, seal, _ = found.rpartition(_SEAL)
        if found in (self.words, *self.known):
            return True
        return seal != b"" and found == add_seal(words)
