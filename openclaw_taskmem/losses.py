"""Tell what a home's database has lost, or that a home keeps its tasks elsewhere, and what to do.

A store on a file writes down what is gone (`LOSS_SUFFIX`); what one on a server last had is noted
in the home. So is which database the settings name, so that a daemon without that setting makes no
new one in silence.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from openclaw_taskmem.config import Settings
from openclaw_taskmem.home import Home
from taskmem_hookspecs.errors import SettingsInvalid, TaskmemError
from taskmem_hookspecs.roles import (
    LOSS_SUFFIX,
    LOST_LOG_SUFFIX,
    ExtentStore,
    StoreExtent,
    TaskStore,
)
from taskmem_program.files import replace_file
from taskmem_program.losses import (
    Extent,
    Loss,
    describe_loss,
    write_loss,
    write_restore_command,
)

log = logging.getLogger(__name__)

_ACCEPTANCE: Final = "taskmem restore --keep"
"""The command with which a person goes on with what is there."""
_KEEP: Final = f"To go on with what is left: {_ACCEPTANCE}"


def find_database_file(settings: Settings) -> Path | None:
    """Return the file of the database; None: it is on a server."""
    return _parse_file(settings.database)


def _parse_file(url: str) -> Path | None:
    kind, _, path = url.partition(":///")
    return Path(unquote(path.partition("?")[0])) if kind == "sqlite" else None


def _find_known_file(settings: Settings) -> Path | None:
    """Return the database's file, or that of the last one used if the settings name none.

    None: it is on a server.
    """
    known = None if settings.database_url else read_known_database(settings.home)
    return _parse_file(known or settings.database)


def find_loss(settings: Settings) -> Loss | None:
    """Return what is gone from the database; None: nothing is known to be."""
    file = _find_known_file(settings)
    try:
        what = " ".join(_name_loss(settings, file).read_text("utf-8", "replace").split())
    except OSError:
        return None
    if file is None:
        return Loss(what, f"Put a back-up back with its own tools. {_KEEP}")
    logs = ", ".join(str(each) for each in _list_kept_logs(file))
    kept = f"Its log, which may have the rest, is kept: {logs}. " if logs else ""
    command = write_restore_command(settings.home.folder)
    return Loss(what, f"{kept}Put a back-up back: {command}. {_KEEP}")


def _name_loss(settings: Settings, file: Path | None) -> Path:
    """Return the path of the note that says what is gone from a database."""
    return settings.home.loss_note if file is None else file.with_name(f"{file.name}{LOSS_SUFFIX}")


class ExtentNote:
    """The note in a home that says how much its database on a server has."""

    def __init__(self, settings: Settings, store: TaskStore) -> None:
        """Nothing is read yet."""
        self._settings, self._store = settings, store
        self._logged: Extent | None = None
        """The extent before the loss that was logged last; None: none was."""

    def update(self) -> None:
        """Note how much the database has; log and write down where it has less than it had.

        Another database of the same URL has lost nothing. Other homes write into it, too, so it may
        have had more. Failures are left to the next call.
        """
        with suppress(TaskmemError, OSError):
            store, note = self._store, self._settings.home.extent_note
            found = store.read_extent() if isinstance(store, ExtentStore) else None
            if found is None:
                return
            last = None
            with suppress(FileNotFoundError, ValueError):
                last = StoreExtent.model_validate_json(note.read_bytes())
            if last == found:
                return
            if last is not None and last.database == found.database:
                at = datetime.fromtimestamp(note.stat().st_mtime, UTC)
                had, has = Extent(last.position, last.tasks), Extent(found.position, found.tasks)
                if has.is_less(had):
                    self._tell(had, at, has)
            replace_file(note, found.model_dump_json().encode())

    def _tell(self, had: Extent, at: datetime, has: Extent) -> None:
        """Log a loss, once, and then write it down.

        Raises:
            OSError: It cannot be written.
        """
        sentence = describe_loss(hide_password(self._settings.database), had, at, has)
        if had != self._logged:
            self._logged = had
            log.warning("%s", sentence)
        write_loss(_name_loss(self._settings, _find_known_file(self._settings)), sentence)


def _list_kept_logs(file: Path) -> list[Path]:
    """Return the logs that were set aside as their database was gone."""
    prefix = f"{file.name}{LOST_LOG_SUFFIX}"
    return sorted(each for each in file.parent.iterdir() if each.name.startswith(prefix))


def accept_losses(settings: Settings) -> bool:
    """Forget what is gone, or else where the tasks were; False: there was nothing to forget."""
    notes = [_name_loss(settings, _find_known_file(settings))]
    notes += [settings.home.database_note] if not settings.database_url else []
    known = next((note for note in notes if note.exists()), None)
    if known is not None:
        known.unlink()
    return known is not None


# --- a database outside of the home --------------------------------------------------------


def read_known_database(home: Home) -> str | None:
    """Return the URL, without its password, that the home's tasks were last kept at."""
    try:
        return hide_password(home.database_note.read_text("utf-8").strip()) or None
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
    """Note the database that the settings name, once it was opened; log where that fails."""
    shown = hide_password(settings.database_url)
    if not shown or read_known_database(settings.home) == shown:
        return
    try:
        replace_file(settings.home.database_note, f"{shown}\n".encode())
    except OSError as error:
        log.warning(
            "it could not be noted which database is used (%s), so a start without that setting "
            "would begin a new one",
            error.strerror,
        )


def hide_password(url: str) -> str:
    """Return a database's URL without passwords, also where they are not written as they should be.

    One that cannot be read is not told.
    """
    if not url or url.startswith("sqlite:///"):
        return url
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    try:
        read = make_url(url)
    except (ArgumentError, ValueError):
        return "[a URL that cannot be read]"
    query = {name: value for name, value in read.query.items() if "password" not in name}
    # An @ in a password ends it too early, so that the rest begins the host.
    host = read.host and read.host.rpartition("@")[2]
    shown = URL.create(read.drivername, read.username, None, host, read.port, read.database, query)
    return shown.render_as_string()
