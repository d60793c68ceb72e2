"""The commands `taskmem backup` and `taskmem restore`."""

from __future__ import annotations

import errno
import os
import shlex
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import click

from openclaw_taskmem import __version__
from openclaw_taskmem.cli.client import LinkError
from openclaw_taskmem.cli.command_output import YES_OPTION, fail, get_now
from openclaw_taskmem.domain.text.texts import MIB
from openclaw_taskmem.home import Home, find_home
from taskmem_program.files import replace_file, sync_folder

if TYPE_CHECKING:
    from collections.abc import Generator

    from openclaw_taskmem.config import Settings
    from openclaw_taskmem.daemon.lock import Lock
    from openclaw_taskmem.plugin_host.plugin_host import PluginHost
    from taskmem_hookspecs import Checkup, DoctorRow, TaskStore

_MOST_TRIES: Final = 5
"""How often a daemon is stopped that a client started again at once."""
_PATIENCE: Final = 600.0
"""Seconds that a plug-in may take here, where nobody else waits for it."""
_NO_CHECK: Final = (
    "No plug-in has answered how to check a database, so nothing was changed. Try again; if that "
    "does not help, reinstall openclaw-taskmem."
)
_STAMP: Final = "%Y%m%dT%H%M%SZ"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def backup(file: Path) -> None:
    """Write this home into one file, while agents go on working."""
    from openclaw_taskmem.cli.backup_archive import ArchiveList, write_archive
    from openclaw_taskmem.daemon.home_exchange import BACKUP, is_unfinished, open_work_folder
    from openclaw_taskmem.losses import require_known_database
    from openclaw_taskmem.settings_report import name_setting

    home = find_home(os.environ)
    if is_unfinished(home.folder):
        fail(
            f"A taskmem restore of {home.folder} is under way or was cut short, so nothing whole "
            "is there to back up. The next daemon finishes it: taskmem daemon --detach"
        )
    if os.path.lexists(file):
        fail(f"{file} is there already; name a file that is not.")
    file = file.absolute()
    if not file.parent.is_dir():
        fail(f"There is no folder {file.parent}; name a file in one that is there.")
    with _translate_errors(file.parent), open_work_folder(file.parent, BACKUP) as folder:
        settings = _load_settings(home)
        if settings.database_url:
            fail(
                f"{name_setting(settings, 'database_url')} names the database, so a back-up "
                "could not be put back. Back that "
                'database up with its own tools: `pg_dump --format=custom`, or ".backup" of '
                "`sqlite3`."
            )
        require_known_database(settings)
        if not home.database.exists():
            fail(f"There is no {home.database} yet, so there is nothing to back up.")
        copy, partial = folder / "copy.db", folder / "archive"
        at = get_now().replace(microsecond=0)
        # It is read as it is, not migrated: an older daemon may be serving it.
        with _open_store(_load_plugins(settings), f"{settings.database}?mode=ro") as store:
            store.back_up(copy)
        about = ArchiveList(version=__version__, made_at=at, home=str(home.folder))
        write_archive(home, copy, partial, about)
        try:
            _publish_archive(partial, file)
        except FileExistsError:
            fail(f"{file} is there already; name a file that is not.")
        _keep_name(file)
        with suppress(OSError):  # the back-up is whole; a loss would only not name it
            replace_file(home.backup_note, f"{file}\n".encode())
    click.echo(
        f"Backed up {home.folder} to {file} ({file.stat().st_size / MIB:,.1f} MiB): tasks, waits, "
        "wakes, pictures of waits and settings, but not what taskmem record recorded.\n"
        f"Put it back with: taskmem restore {file}"
    )


def _keep_name(file: Path) -> None:
    """Have the name of a finished archive outlive a power cut, or end the command."""
    try:
        sync_folder(file.parent)
    except OSError as error:
        fail(
            f"{file} is whole, but its disk did not say that it keeps the name ({error.strerror}), "
            "so a power cut may take the file away. Check its disk, then back up to "
            "another file."
        )


def _publish_archive(partial: Path, file: Path) -> None:
    """Give a finished archive its name.

    Raises:
        FileExistsError: There is a file of that name by now.
    """
    try:
        os.link(partial, file)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links; so an empty file takes the name first.
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        partial.replace(file)


@click.command()
@click.option("--replace", is_flag=True, help="Stop the daemon, and set aside what is there.")
@click.option("--keep", is_flag=True, help="Go on with what is there, although it is less.")
@YES_OPTION
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
def restore(*, replace: bool, keep: bool, yes: bool, file: Path | None) -> None:
    """Put a file that `taskmem backup` wrote back into this home.

    Wakes that were sent before the back-up are not sent again. With --keep, and without a file,
    nobody is told any more that the database has less than it had.
    """
    from openclaw_taskmem.cli.backup_archive import unpack_archive
    from openclaw_taskmem.cli.command_output import explain_agents_shell
    from openclaw_taskmem.daemon.home_exchange import RESTORE, begin_exchange, open_work_folder

    if why := explain_agents_shell(os.environ):
        fail(why)
    home = find_home(os.environ)
    if file is None or keep:
        if replace or not keep or file is not None:
            raise click.UsageError("Give the file of a back-up, or --keep alone.")
        _keep_what_is_left(home)
        return
    home.prepare()
    with _translate_errors(home.folder), open_work_folder(home.folder, RESTORE) as folder:
        fresh = folder / "home"
        fresh.mkdir(mode=0o700)
        listed = unpack_archive(file, fresh)
        _check_content(fresh, file)
        if not replace:
            _require_free(home)
        elif sys.stdin.isatty() and not yes:
            click.confirm(
                f"What is in {home.folder} now is set aside, and its daemon stopped. In its place "
                f"comes the home as it was at {listed.made_at.isoformat()}. Go on?",
                abort=True,
            )
        lock = _take_lock(home, replace=replace)
        try:
            aside = begin_exchange(home.folder, fresh, get_now().strftime(_STAMP))
        finally:
            lock.release()
        is_whole = _can_back_up(home, aside / home.database.name, folder / "tried.db")
    click.echo(f"Restored {home.folder} as it was at {listed.made_at.isoformat()}.")
    if any(aside.iterdir()):
        click.echo(f"What was there is in {aside}; remove it when you no longer need it.")
        if is_whole:
            click.echo(
                f"To go back to it: TASKMEM_HOME={shlex.quote(str(aside))} taskmem backup FILE, "
                "and then: taskmem restore --replace FILE"
            )
    else:
        aside.rmdir()
    click.echo("Agents find it at their next call, or start it with: taskmem daemon --detach")


def _can_back_up(home: Home, database: Path, copy: Path) -> bool:
    """Return whether a database can be backed up, by a copy of it."""
    from taskmem_hookspecs import TaskmemError

    with suppress(TaskmemError, OSError):
        plugins = _load_plugins(_load_settings(home))
        if database.exists():
            with _open_store(plugins, f"sqlite:///{database}?mode=ro") as store:
                store.back_up(copy)
            return True
    return False


def _keep_what_is_left(home: Home) -> None:
    """Forget what the home has lost."""
    from openclaw_taskmem.losses import accept_losses

    if accept_losses(_load_settings(home)):
        click.echo(f"{home.folder} goes on with what is there, and nobody is told of more.")
    else:
        click.echo(f"Nothing is known to be gone from {home.folder}, so nothing was changed.")


def _require_free(home: Home) -> None:
    from openclaw_taskmem.daemon.lock import find_holder

    held = find_holder(home.lock)
    what = "is in use" if held else "is not empty"
    if held or home.database.exists():
        fail(
            f"The file is whole, but {home.folder} {what}, and nothing was changed. With --replace "
            "the daemon is stopped, and what is there is kept beside the restored files."
        )


def _take_lock(home: Home, *, replace: bool) -> Lock:
    """Take the home's lock; `replace`: stop a daemon that holds it."""
    from openclaw_taskmem.cli.daemon_process import stop_daemon
    from openclaw_taskmem.daemon.lock import Lock, LockHeld

    for _ in range(_MOST_TRIES if replace else 1):
        if replace:
            sentence, status = stop_daemon(home)
            if status:
                fail(f"{sentence} Nothing was changed.")
        try:
            # Without a name in the file, nobody takes this process for a daemon and ends it.
            return Lock(home.lock, named=False)
        except LockHeld:
            continue
    raise LinkError(
        "home_served",
        f"Another process uses {home.folder}, and nothing was changed. Wait for another taskmem "
        "restore, or stop the hosts that start a daemon, then try again.",
    )


def _check_content(fresh: Path, file: Path) -> None:
    """Check the settings and the database that were unpacked, and let no sent wake be sent again.

    Raises:
        SettingsInvalid, TaskmemError: They cannot be used; the text says why.
    """
    from taskmem_hookspecs import Change, DoctorState, WakeQuery, WakeState
    from taskmem_hookspecs.errors import SettingsInvalid

    home = find_home({"TASKMEM_HOME": str(fresh)})
    try:
        settings = _load_settings(home)
    except SettingsInvalid as error:
        text = str(error).replace(str(home.config), f"{home.config.name} in {file}")
        raise SettingsInvalid(text) from error
    if settings.database_url:
        fail(
            "TASKMEM_DATABASE_URL is set, in your shell or in the settings that were backed up, "
            "so the restored database would not be used, and nothing was changed. Unset it, then "
            "try again."
        )
    plugins = _load_plugins(settings)
    # The check refuses the schema of an older version; opening the database migrates it.
    with _open_store(plugins, settings.database) as store:
        row = _check_database(plugins, settings.database)
        if row.state is DoctorState.FAIL:
            fail(f"{row.detail} Nothing was changed.")
        sent = store.find_wakes(WakeQuery(states=(WakeState.SENT,)))
        again = [wake.model_copy(update={"due_at": None}) for wake in sent if wake.due_at]
        store.commit(Change(wakes=tuple(again)))


def _check_database(plugins: PluginHost, url: str) -> DoctorRow:
    import asyncio
    from types import SimpleNamespace

    checkup = SimpleNamespace(status=None, transports=(), database=url, rows=())

    async def check() -> DoctorRow:
        for _, each in plugins.find_doctor_checks():
            if each.name == "database":
                async for row in each.look(cast("Checkup", checkup)):
                    return row
        raise LinkError("plugin_failed", _NO_CHECK)

    return asyncio.run(check())


def _load_settings(home: Home) -> Settings:
    from openclaw_taskmem.config import load_settings

    return load_settings({**os.environ, "TASKMEM_HOME": str(home.folder)})


def _load_plugins(settings: Settings) -> PluginHost:
    from openclaw_taskmem.plugin_host.plugin_host import PluginHost

    return PluginHost(seconds=_PATIENCE, disabled=settings.disabled_plugins)


@contextmanager
def _open_store(plugins: PluginHost, url: str) -> Generator[TaskStore]:
    store = plugins.open_store(url)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def _translate_errors(written: Path) -> Generator[None]:
    """End the command with a sentence where something cannot be used, or a folder not be written.

    `written`: the folder in which the command writes.
    """
    from openclaw_taskmem.cli.backup_archive import ArchiveRefused
    from taskmem_hookspecs import StoreFull, TaskmemError

    refused = f"{written} cannot be written ({{}}); make room there, or check its disk."
    try:
        yield
    except StoreFull:
        fail(refused.format(os.strerror(errno.ENOSPC)))
    except OSError as error:
        if error.filename is not None:
            raise
        fail(refused.format(error.strerror))
    except (ArchiveRefused, TaskmemError) as error:
        fail(f"{error} Nothing was changed.")


COMMANDS: Final = (backup, restore)
