"""Write down what a database has lost, and name the command that puts the last back-up back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from taskmem_program.files import replace_file

if TYPE_CHECKING:
    from datetime import datetime

BACKUP_NOTE: Final = "home.backup"
"""Name of the file, beside a home's database, that says where the last back-up was written."""


class Extent(NamedTuple):
    """How much a database has."""

    position: int
    """Id of its newest event, which only grows; 0: there is none."""
    tasks: int

    def is_less(self, than: Extent) -> bool:
        """Return whether something is gone since a database had `than`."""
        return self.position < than.position or self.tasks < than.tasks


class Loss(NamedTuple):
    """A loss of rows from a database."""

    what: str
    """The sentence that says what is gone."""
    cure: str
    """The sentence that says what to do."""

    def __str__(self) -> str:
        """Return both."""
        return f"{self.what} {self.cure}"


def describe_loss(database: str, had: Extent, at: datetime, has: Extent) -> str:
    """Return the sentence that a database has less than it had at an instant."""
    tasks = f"{had.tasks} task{'' if had.tasks == 1 else 's'}"
    entries = f"{had.position} {'entry' if had.position == 1 else 'entries'}"
    return (
        f"The database {database} has less than on {at:%Y-%m-%d} at {at:%H:%M} UTC: it had {tasks} "
        f"and {entries} in its log, and now has {has.tasks} and {has.position}."
    )


def write_loss(note: Path, sentence: str) -> None:
    """Write down a loss; of several that no person has accepted, the first and the last stay.

    Raises:
        OSError: It cannot be written.
    """
    known = note.read_text("utf-8", "replace") if note.exists() else ""
    told = dict.fromkeys([*known.splitlines()[:1], sentence])
    replace_file(note, "\n".join(told).encode())


def write_restore_command(folder: Path) -> str:
    """Return the command that restores the last back-up of a home, as far as one is known."""
    import shlex  # with the next 2 ms, which each start of a command would pay
    from datetime import UTC, datetime

    try:
        file = Path((folder / BACKUP_NOTE).read_text("utf-8").strip())
        made = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (OSError, ValueError):
        return "taskmem restore --replace FILE"
    return f"taskmem restore --replace {shlex.quote(str(file))} (of {made:%Y-%m-%d %H:%M} UTC)"
