"""The skill as a plain folder, for every host that reads such."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from taskmem_openclaw.setup import keeping, shipped
from taskmem_openclaw.setup.edits import at

NAME: Final = "task-memory"
_MARK: Final = f"name: {NAME}"


class NotOurs(Exception):
    """There is another skill of that name; `str()` says where."""


class Skill(NamedTuple):
    """A place for the skill."""

    folder: Path

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
            raise NotOurs(
                f"{self.file} is another skill; move it away, and run this again."
            )
        return found

    @property
    def in_place(self) -> bool:
        """Whether it is there, in this version."""
        return self.there == shipped.skill()

    def write(self) -> list[str]:
        """Put it there, and say what was kept of one that has other words.

        Raises:
            OSError: It cannot be written.
        """
        kept = self._keep_changed()
        keeping.written(self.file, shipped.skill(), mode=0o644)
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
        if found is None or shipped.is_untouched(found):
            return []
        keeping.written(self._copy, found, mode=0o644)
        return [f"What {self.file} said is kept as {self._copy}."]


def tell_data(home: str | Path) -> list[str]:
    """Say of the folder of our data that it stays; empty: there is none."""
    if not Path(home).is_dir():
        return []
    return [f"{home}, where taskmem keeps its data, was not touched."]


def into(folder: Path) -> Skill:
    """Return the skill in a folder of skills."""
    return Skill(folder / NAME)


def copies(config: Path, said: Mapping[str, Any]) -> list[Skill]:
    """Return the copies that OpenClaw's own installer has made of the skill.

    Args:
        config: OpenClaw's configuration file, beside which it keeps its own.
        said: What that says.
    """
    state = config.parent
    workspace = at(said, ("agents", "defaults", "workspace"))
    named = Path(str(workspace)).expanduser() if workspace else state / "workspace"
    places = [into(each / "skills") for each in (state, named)]
    found: list[Skill] = []
    for each in places:
        with suppress(NotOurs, OSError):
            if each.there is not None:
                found.append(each)
    return found
