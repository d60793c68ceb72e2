"""Tell what a home's database has lost, or that a home keeps its tasks elsewhere, and what to do.

A store on a file writes down what is gone (`LOSS_SUFFIX`). A database that the settings name is
noted in the home, so that a daemon without that setting makes no new one in silence.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from openclaw_taskmem.config import Settings
from openclaw_taskmem.home import Home
from taskmem_hookspecs.errors import SettingsInvalid
from taskmem_hookspecs.roles import LOSS_SUFFIX

_ACCEPTANCE: Final = "taskmem restore --keep"
"""The command with which a person goes on with what is there."""


def find_database_file(settings: Settings) -> Path | None:
    """Return the file of the database; None: it is on a server."""
    kind, _, path = settings.database.partition(":///")
    return Path(unquote(path.partition("?")[0])) if kind == "sqlite" else None


class Loss(NamedTuple):
    """A loss of rows from a database."""

    what: str
    """The sentence that says what is gone."""
    cure: str
    """The sentence that says what to do."""

    def __str__(self) -> str:
        """Return both."""
        return f"{self.what} {self.cure}"


def find_loss(settings: Settings) -> Loss | None:
    """Return what is gone from the database; None: nothing is known to be."""
    file = find_database_file(settings)
    if file is None:
        return None
    try:
        what = file.with_suffix(LOSS_SUFFIX).read_text("utf-8", "replace").strip()
    except OSError:
        return None
    backup = _describe_backup(settings.home)
    return Loss(what, f"Put a back-up back: {backup}. To go on with what is left: {_ACCEPTANCE}")


def _describe_backup(home: Home) -> str:
    """Return the command that restores the last back-up, as far as one is known."""
    with suppress(OSError):
        file = Path(home.backup_note.read_text("utf-8").strip())
        made = datetime.fromtimestamp(file.stat().st_mtime, UTC)
        return f"taskmem restore --replace {shlex.quote(str(file))} (of {made:%Y-%m-%d %H:%M} UTC)"
    return "taskmem restore --replace FILE"


def accept_losses(settings: Settings) -> bool:
    """Forget what is gone, and where else the tasks were; False: there was nothing to forget."""
    file = find_database_file(settings)
    notes = [settings.home.database_note] if not settings.database_url else []
    notes += [file.with_suffix(LOSS_SUFFIX)] if file is not None else []
    known = [note for note in notes if note.exists()]
    for note in known:
        note.unlink()
    return bool(known)


# --- a database outside of the home --------------------------------------------------------


def read_known_database(home: Home) -> str | None:
    """Return the URL, without its password, that the home's tasks were last kept at."""
    try:
        return home.database_note.read_text("utf-8").strip() or None
    except OSError:
        return None


def require_known_database(settings: Settings) -> None:
    """Refuse to make a database in a home whose tasks are in another.

    Raises:
        SettingsInvalid: The settings name no database, and did when the home was last served.
    """
    known = read_known_database(settings.home)
    if known is not None and not settings.database_url:
        raise SettingsInvalid(
            f"The tasks of {settings.home.folder} are in {known}, and TASKMEM_DATABASE_URL is not "
            f"set here. Set it, or write it as database_url into {settings.home.config}, then "
            f"start again. To begin a new database in the home instead: {_ACCEPTANCE}"
        )


def note_database(settings: Settings) -> None:
    """Note the database that the settings name, once it was opened."""
    scheme, mark, rest = settings.database_url.partition("?")[0].partition("://")
    server, slash, path = rest.partition("/")
    account, at, host = server.rpartition("@")
    shown = f"{scheme}{mark}{account.partition(':')[0]}{at}{host}{slash}{path}"
    if settings.database_url and read_known_database(settings.home) != shown:
        write_note(settings.home.database_note, shown)


def write_note(note: Path, text: str) -> None:
    """Write a file of the home anew, for its owner alone.

    Raises:
        OSError: It cannot be written.
    """
    fresh = note.with_name(f"{note.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(fresh, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(note)
