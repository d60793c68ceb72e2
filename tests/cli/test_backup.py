"""A home is written into one file and put back; what is not whole replaces nothing."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest
from click.testing import CliRunner, Result

from openclaw_taskmem import losses
from openclaw_taskmem.cli import backup_archive, daemon_process, doctor_rows
from openclaw_taskmem.cli.command_line import cli
from openclaw_taskmem.cli.command_output import HOSTS
from openclaw_taskmem.config import load_settings
from openclaw_taskmem.daemon import home_exchange
from openclaw_taskmem.daemon.home_exchange import BACKUP
from openclaw_taskmem.home import Home
from openclaw_taskmem.losses import (
    ExtentNote,
    find_loss,
    note_database,
    read_known_database,
    require_known_database,
)
from openclaw_taskmem.plugin_host import plugin_host
from openclaw_taskmem.plugin_host.isolation import TookTooLong
from openclaw_taskmem.settings_report import list_changed_settings
from taskmem_hookspecs import Change, DoctorState, StoreUnavailable, WakeQuery, WakeState
from taskmem_hookspecs.errors import SettingsInvalid
from taskmem_hookspecs.model import Value
from taskmem_hookspecs.roles import StoreExtent
from taskmem_hookspecs.testing import DAWN, a_message, a_task, a_wait, a_wake, an_event
from taskmem_sqlmodel.store import SqlStore
from tests.support.daemons import environment
from tests.support.rows import read_all_rows
from tests.support.schemas import add_next_schema
from tests.support.waiting import until

ROWS = Change(
    tasks=(a_task(),),
    messages=(a_message(),),
    waits=(a_wait(task_id="task_1"),),
    wakes=(a_wake(task_id="task_1", state=WakeState.SENT, sent_at=DAWN),),
    events=(an_event(task_id="task_1"),),
)
PICTURE = "pictures/wait_1/last.png"


@pytest.fixture
def filled_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with a task, a wait, a wake, a picture and settings."""
    for name in (*HOSTS, "TASKMEM_SESSION_KEY", "TASKMEM_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    home.prepare()
    write_rows(home, ROWS)
    (home.folder / PICTURE).parent.mkdir(parents=True)
    (home.folder / PICTURE).write_bytes(b"a picture")
    home.config.write_text("stuck_threshold_seconds = 120\n")
    return home


def write_rows(home: Home, change: Change) -> None:
    store = SqlStore(f"sqlite:///{home.database}")
    store.commit(change)
    store.close()


def read_rows(home: Home) -> Mapping[str, list[Value]]:
    store = SqlStore(f"sqlite:///{home.database}")
    rows = read_all_rows(store)
    store.close()
    return rows


def run(home: Home, *words: str | Path, **environ: str) -> Result:
    variables = {"TASKMEM_HOME": str(home.folder), **environ}
    return CliRunner(env=variables).invoke(cli, [*map(str, words)])


def back_up(home: Home, file: Path) -> Path:
    done = run(home, "backup", file)
    assert done.exit_code == 0, done.output
    return file


def test_a_home_is_put_back_as_it_was(filled_home: Home, tmp_path: Path) -> None:
    before, file = read_rows(filled_home), back_up(filled_home, tmp_path / "file")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [file]
    other = Home(tmp_path / "other", tmp_path / "other" / "daemon.sock")
    done = run(other, "restore", file)
    assert done.exit_code == 0
    assert re.search(r" as it was at [\d-]{10}T[\d:]{8}\+00:00\.$", done.output, re.MULTILINE)
    after = read_rows(other)
    assert {**after, "wakes": []} == {**before, "wakes": []}
    assert (other.folder / PICTURE).read_bytes() == b"a picture"
    assert other.config.read_text() == filled_home.config.read_text()
    assert {path.name for path in other.folder.iterdir()} == {
        *("taskmem.db", ".taskmem.db.last", "pictures", "config.toml", "daemon.lock"),
    }


def test_a_back_up_that_was_told_outlives_a_power_cut(
    filled_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    file = back_up(filled_home, tmp_path / "file")
    assert synced[:2] == [file.stat().st_ino, tmp_path.stat().st_ino]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EIO])
def test_only_a_folder_that_cannot_be_synced_is_excused(
    number: int, filled_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def refuse_folders(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    done = run(filled_home, "backup", tmp_path / "file")
    assert (done.exit_code == 0) == (number != errno.EIO), done.output
    said = "Backed up" if number != errno.EIO else f"{tmp_path / 'file'} is whole, but its disk"
    assert done.output.startswith(said)
    assert [*tmp_path.iterdir()] == [tmp_path / "file"]


def test_what_was_sent_before_a_back_up_is_not_sent_again(
    filled_home: Home, tmp_path: Path
) -> None:
    file = back_up(filled_home, tmp_path / "file")
    assert run(filled_home, "restore", "--replace", file).exit_code == 0
    store = SqlStore(f"sqlite:///{filled_home.database}")
    [wake] = store.find_wakes(WakeQuery())
    store.close()
    assert (wake.state, wake.due_at) == (WakeState.SENT, None)


def test_what_is_there_is_replaced_only_when_asked_and_kept(
    filled_home: Home, tmp_path: Path
) -> None:
    file = back_up(filled_home, tmp_path / "file")
    write_rows(filled_home, Change(tasks=(a_task(task_id="task_2"),)))
    refused = run(filled_home, "restore", file)
    assert refused.exit_code == 1
    assert "The file is whole, but" in refused.output
    assert "--replace" in refused.output
    assert len(read_rows(filled_home)["tasks"]) == 2
    assert run(filled_home, "restore", "--replace", file).exit_code == 0
    assert len(read_rows(filled_home)["tasks"]) == 1
    [aside] = filled_home.folder.glob("replaced-*")
    assert len(read_rows(Home(aside, aside / "daemon.sock"))["tasks"]) == 2


def test_what_was_set_aside_can_be_gone_back_to(filled_home: Home, tmp_path: Path) -> None:
    file, again = back_up(filled_home, tmp_path / "file"), tmp_path / "again"
    write_rows(filled_home, Change(tasks=(a_task(task_id="task_2"),)))
    told = run(filled_home, "restore", "--replace", file).output
    [(variable, first)] = re.findall(r"go back to it: TASKMEM_HOME=(\S+) taskmem (.+) FILE, ", told)
    assert run(Home(Path(variable), Path()), first, again).exit_code == 0
    assert "then: taskmem restore --replace FILE" in told
    assert run(filled_home, "restore", "--replace", again).exit_code == 0
    assert len(read_rows(filled_home)["tasks"]) == 2


def test_what_is_too_damaged_to_back_up_is_not_gone_back_to(
    filled_home: Home, tmp_path: Path
) -> None:
    file = back_up(filled_home, tmp_path / "file")
    filled_home.database.write_bytes(b"\xff" * 8192)
    told = run(filled_home, "restore", "--replace", file).output
    assert "What was there is in" in told
    assert "go back" not in told


@pytest.mark.parametrize(
    ("words", "said", "replaced"), [((), "n", 0), ((), "y", 1), (("--yes",), "", 1)]
)
def test_in_a_terminal_it_is_asked_before_a_home_is_replaced(
    *,
    filled_home: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    said: str,
    replaced: int,
) -> None:
    file = back_up(filled_home, tmp_path / "file")
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    done = CliRunner(env={"TASKMEM_HOME": str(filled_home.folder)}).invoke(
        cli, ["restore", "--replace", *words, str(file)], input=said
    )
    assert ("Go on?" in done.output) == (not words)
    assert done.exit_code == 1 - replaced
    assert len([*filled_home.folder.glob("replaced-*")]) == replaced


def test_a_restore_at_work_is_not_ended_by_another(
    filled_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = back_up(filled_home, tmp_path / "file")
    exchange, seen = home_exchange.begin_exchange, list[Result]()

    def be_passed(*given: Any) -> Path:
        seen.append(run(filled_home, "restore", "--replace", file))
        seen.append(run(filled_home, "restore", file))
        return exchange(*given)

    def refuse_signals(*given: int) -> None:
        raise AssertionError(given)

    monkeypatch.setattr(daemon_process, "MOST_CHECKS", 2)
    monkeypatch.setattr(os, "kill", refuse_signals)
    monkeypatch.setattr(home_exchange, "begin_exchange", be_passed)
    assert run(filled_home, "restore", "--replace", file).exit_code == 0
    with_replace, without = seen
    assert (with_replace.exit_code, without.exit_code) == (1, 1)
    assert "If taskmem restore runs, wait for it" in with_replace.output
    assert "is in use, and nothing was changed" in without.output


@pytest.mark.parametrize("name", ["arriving-now", "entering-now"])
def test_a_restore_that_was_cut_short_is_finished_first(
    filled_home: Home, tmp_path: Path, name: str
) -> None:
    (filled_home.folder / name).mkdir()
    for words in (["backup", tmp_path / "file"], ["status"]):
        told = run(filled_home, *words)
        assert told.exit_code != 0
        assert "The next daemon finishes it: taskmem daemon --detach" in told.output
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_restore_that_is_ended_leaves_no_copy(
    home: Home, tmp_path: Path, number: signal.Signals
) -> None:
    os.mkfifo(tmp_path / "file")  # it has no end
    words = (sys.executable, "-m", "openclaw_taskmem", "restore", str(tmp_path / "file"))
    with subprocess.Popen(words, env=environment(home)) as process:
        until(lambda: [*home.folder.glob("restore-*/home")], "it has begun")
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert [*home.folder.iterdir()] == []


def test_what_a_killed_restore_left_goes_at_the_next(home: Home, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file")  # it has no end
    words = (sys.executable, "-m", "openclaw_taskmem", "restore", str(tmp_path / "file"))
    (tmp_path / "wrong").write_text("no back-up")
    with subprocess.Popen(words, env=environment(home)) as process:
        left = until(lambda: [*home.folder.glob("restore-*/home")], "it has begun")
        assert run(home, "restore", tmp_path / "wrong").exit_code == 1
        assert [*home.folder.glob("restore-*/home")] == left
        process.kill()
    assert [*home.folder.glob("restore-*/home")] == left
    assert run(home, "restore", tmp_path / "wrong").exit_code == 1
    assert [*home.folder.iterdir()] == []


def test_what_a_killed_back_up_left_goes_at_the_next(filled_home: Home, tmp_path: Path) -> None:
    left = tmp_path / f"{BACKUP}1" / "copy.db"
    left.parent.mkdir()
    left.write_text("half")
    file = back_up(filled_home, tmp_path / "file")
    assert [*tmp_path.iterdir()] == [file]


def test_a_busy_machine_fails_no_restore(
    filled_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def need_a_minute(call: Callable[[], object], seconds: float, name: str) -> object:
        # Plug-ins are loaded already, on a machine that was not busy then.
        if seconds < 60 and not name.endswith(".loading"):
            raise TookTooLong(seconds, Future())
        return call()

    monkeypatch.setattr(plugin_host, "run_with_timeout", need_a_minute)
    file = back_up(filled_home, tmp_path / "file")
    done = run(filled_home, "restore", "--replace", file)
    assert done.exit_code == 0, done.output


def test_a_database_that_nobody_checked_replaces_nothing(
    filled_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = back_up(filled_home, tmp_path / "file")
    monkeypatch.setattr(plugin_host.PluginHost, "find_doctor_checks", lambda *_: [])
    refused = run(filled_home, "restore", "--replace", file)
    assert refused.exit_code == 1
    assert "has answered how to check a database, so nothing was changed" in refused.output


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.999])
def test_an_archive_that_was_cut_short_replaces_nothing(
    filled_home: Home, tmp_path: Path, share: float
) -> None:
    file = back_up(filled_home, tmp_path / "file")
    file.write_bytes(file.read_bytes()[: int(file.stat().st_size * share)])
    require_refusal(filled_home, file)


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "pictures/../../evil", "daemon.lock", "pictures"]
)
def test_an_archive_with_other_files_replaces_nothing(
    filled_home: Home, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "file"
    with tarfile.open(file, "w:gz") as archive:
        for each, text in ((name, b"x"), ("backup.json", json.dumps({"format": 1}).encode())):
            member = tarfile.TarInfo(each)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    require_refusal(filled_home, file, "which no back-up holds; name a file that")


def test_an_archive_with_a_damaged_database_replaces_nothing(
    filled_home: Home, tmp_path: Path
) -> None:
    good = back_up(filled_home, tmp_path / "good")
    with tarfile.open(good) as archive, tarfile.open(tmp_path / "file", "w:gz") as worse:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            text = content.read()
            if member.name == "taskmem.db":
                text = text[:4096] + bytes(len(text) - 4096)
            worse.addfile(member, io.BytesIO(text))
    require_refusal(filled_home, tmp_path / "file")


def require_refusal(home: Home, file: Path, why: str = "") -> None:
    before = read_rows(home)
    refused = run(home, "restore", "--replace", file)
    assert refused.exit_code == 1
    assert why in refused.output
    assert "Nothing was changed." in refused.output
    assert read_rows(home) == before
    assert not [*home.folder.glob("replaced-*"), *home.folder.glob("restore-*")]


def rewrite_archive(source: Path, target: Path, changed: str, text: bytes) -> None:
    """Write an archive with another content of one member; its list is not adapted."""
    with tarfile.open(source) as archive, tarfile.open(target, "w:gz") as worse:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            given = text if member.name == changed else content.read()
            member.size = len(given)
            worse.addfile(member, io.BytesIO(given))


@pytest.mark.parametrize(
    "text",
    [b"[]", b'"x"', b"{}", b'{"version": "1", "home": "/", "made_at": "\\ud800", "files": {}}'],
)
def test_an_archive_with_a_wrong_list_replaces_nothing(
    filled_home: Home, tmp_path: Path, text: bytes
) -> None:
    good, bad = back_up(filled_home, tmp_path / "good"), tmp_path / "file"
    rewrite_archive(good, bad, "backup.json", text)
    require_refusal(filled_home, bad, f"{bad} is no back-up, or its backup.json is damaged.")


def test_wrong_settings_in_an_archive_are_named_there(filled_home: Home, tmp_path: Path) -> None:
    filled_home.config.write_text("stuck_threshold_seconds = 120\n")
    good, bad = back_up(filled_home, tmp_path / "good"), tmp_path / "file"
    rewrite_archive(good, bad, "config.toml", b"stuck_threshold_seconds = xyz\n")
    require_refusal(filled_home, bad, f"config.toml in {bad} cannot be read")


def test_a_file_that_cannot_be_read_is_told_as_such(
    filled_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_read(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file = back_up(filled_home, tmp_path / "file")
    with monkeypatch.context() as patched:
        patched.setattr(gzip.GzipFile, "read", fail_to_read)
        require_refusal(filled_home, file, f"{file} cannot be read")


def test_settings_behind_a_link_are_backed_up(filled_home: Home, tmp_path: Path) -> None:
    filled_home.config.rename(tmp_path / "settings")
    filled_home.config.symlink_to(tmp_path / "settings")
    file = back_up(filled_home, tmp_path / "file")
    other = Home(tmp_path / "other", tmp_path / "other" / "daemon.sock")
    assert run(other, "restore", file).exit_code == 0
    assert other.config.read_text() == (tmp_path / "settings").read_text()
    assert not other.config.is_symlink()


@pytest.mark.parametrize("in_file", [True, False])
def test_what_could_not_be_put_back_is_not_backed_up(
    filled_home: Home, tmp_path: Path, in_file: bool
) -> None:
    url = f"sqlite:///{filled_home.database}"
    if in_file:
        filled_home.config.write_text(f'database_url = "{url}"\n')
    environ = {} if in_file else {"TASKMEM_DATABASE_URL": url}
    refused = run(filled_home, "backup", tmp_path / "file", **environ)
    where = f"database_url in {filled_home.config}" if in_file else "TASKMEM_DATABASE_URL"
    assert refused.exit_code == 1
    assert refused.output.startswith(f"{where} names the database, so a back-up could not be put")
    assert not [*tmp_path.glob("file"), *tmp_path.glob(".taskmem-backup-*")]


def test_a_name_that_is_too_long_is_nobody_elses_file(filled_home: Home, tmp_path: Path) -> None:
    file = tmp_path / ("x" * 300)
    refused = run(filled_home, "backup", file)
    assert (refused.exit_code, refused.output) == (1, f"File name too long: {file}.\n")


def test_a_wrong_file_is_told_before_what_is_in_its_way(filled_home: Home, tmp_path: Path) -> None:
    wrong = tmp_path / "notes.txt"
    wrong.write_text("wake me")
    refused = run(filled_home, "restore", wrong)
    assert refused.output == f"{wrong} is no back-up, or is damaged. Nothing was changed.\n"


def test_only_a_person_puts_a_home_back(filled_home: Home, tmp_path: Path) -> None:
    file = back_up(filled_home, tmp_path / "file")
    refused = run(filled_home, "restore", "--replace", file, CLAUDECODE="1")
    assert refused.exit_code == 1
    assert "only a person may" in refused.output


def test_a_back_up_takes_the_place_of_no_file(filled_home: Home, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert run(filled_home, "backup", tmp_path / "file").exit_code == 1
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("has_links", [True, False])
def test_of_two_back_ups_to_one_file_one_is_refused(
    filled_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    write = backup_archive.write_archive

    def write_late(*given: Any) -> None:
        write(*given)
        (tmp_path / "file").write_text("the other's")

    def refuse_links(*_: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    if not has_links:
        monkeypatch.setattr(os, "link", refuse_links)
    assert back_up(filled_home, tmp_path / "first").stat().st_size
    monkeypatch.setattr(backup_archive, "write_archive", write_late)
    refused = run(filled_home, "backup", tmp_path / "file")
    assert refused.exit_code == 1
    assert "is there already" in refused.output
    assert (tmp_path / "file").read_text() == "the other's"
    assert {each.name for each in tmp_path.glob("*") if each.is_file()} == {"first", "file"}


def test_a_back_up_leaves_a_database_of_an_older_version(
    filled_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dump_database(filled_home.database)
    with monkeypatch.context() as patched:
        add_next_schema(patched, tmp_path / "newer")
        back_up(filled_home, tmp_path / "file")
        assert dump_database(filled_home.database) == before
        done = run(filled_home, "restore", "--replace", tmp_path / "file")
        assert done.exit_code == 0, done.output
        assert dump_database(filled_home.database) != before


def dump_database(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_a_home_without_a_database_has_nothing_to_back_up(home: Home, tmp_path: Path) -> None:
    refused = run(home, "backup", tmp_path / "file")
    assert "nothing to back up" in refused.output
    assert not home.folder.exists()
    assert list(tmp_path.iterdir()) == []


# --- what is gone ---------------------------------------------------------------


def read_loss(home: Home) -> str | None:
    loss = find_loss(load_settings({"TASKMEM_HOME": str(home.folder)}))
    return None if loss is None else str(loss)


@pytest.fixture
def emptied_home(filled_home: Home, tmp_path: Path) -> Home:
    """A home that was backed up, and whose database was emptied."""
    back_up(filled_home, tmp_path / "file")
    filled_home.database.write_bytes(b"")
    SqlStore(f"sqlite:///{filled_home.database}").close()
    return filled_home


def test_a_loss_names_the_last_back_up_and_both_ways_on(emptied_home: Home, tmp_path: Path) -> None:
    assert (loss := read_loss(emptied_home)) is not None
    assert f"Put a back-up back: taskmem restore --replace {tmp_path / 'file'} (of 2" in loss
    assert loss.endswith("To go on with what is left: taskmem restore --keep")
    (row,) = doctor_rows.check_losses(load_settings({"TASKMEM_HOME": str(emptied_home.folder)}))
    assert (row.id, row.state) == ("database.loss", DoctorState.FAIL)
    assert f"{row.detail} {row.cure}" == loss

    (tmp_path / "file").unlink()
    assert "taskmem restore --replace FILE." in str(read_loss(emptied_home))

    kept = emptied_home.folder / "taskmem.db.lost-wal-2"
    kept.write_bytes(b"changes")
    assert f"which may have the rest, is kept: {kept}. Put" in str(read_loss(emptied_home))


def test_a_home_that_was_restored_has_lost_nothing(emptied_home: Home, tmp_path: Path) -> None:
    assert run(emptied_home, "restore", "--replace", tmp_path / "file").exit_code == 0
    assert read_rows(emptied_home)["tasks"]
    assert read_loss(emptied_home) is None


def test_a_person_goes_on_with_what_is_left(emptied_home: Home) -> None:
    done = run(emptied_home, "restore", "--keep")
    assert "goes on with what is there" in done.output
    assert read_loss(emptied_home) is None
    assert "Nothing is known to be gone" in run(emptied_home, "restore", "--keep").output


@pytest.fixture
def server_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home whose tasks are in a database on a server, without a host in its URL."""
    monkeypatch.setenv("TASKMEM_DATABASE_URL", "postgresql:///db")
    home.prepare()
    return home


def see_extent(home: Home, position: int, tasks: int, database: str = "7/db") -> str | None:
    """Play a daemon whose database has so much; return what is told of losses then."""
    url = {"TASKMEM_DATABASE_URL": "postgresql:///db"}
    settings = load_settings({"TASKMEM_HOME": str(home.folder), **url})
    extent = StoreExtent(database=database, position=position, tasks=tasks)
    store = create_autospec(SqlStore, instance=True)
    store.read_extent.return_value = extent
    ExtentNote(settings, store).update()
    loss = find_loss(settings)
    assert len(list(doctor_rows.check_losses(settings))) == (loss is not None)
    return loss and str(loss)


@pytest.mark.parametrize("left", [(0, 0), (9, 1), (3, 2)])
def test_a_database_on_a_server_that_has_less_says_so(
    server_home: Home, left: tuple[int, int]
) -> None:
    assert see_extent(server_home, 8, 2) is None
    assert see_extent(server_home, 9, 2) is None
    told = see_extent(server_home, *left)
    assert told is not None
    assert "The database postgresql:///db has less than on 2" in told
    had = f"it had 2 tasks and 9 entries in its log, and now has {left[1]} and {left[0]}."
    assert had in told
    assert told.endswith(
        "back with its own tools. To go on with what is left: taskmem restore --keep"
    )
    assert see_extent(server_home, 12, 5) == told

    assert "it had 5 tasks and 12 entries" in str(see_extent(server_home, 0, 0))
    assert "goes on" in run(server_home, "restore", "--keep").output
    assert see_extent(server_home, 1, 1) is None
    assert "it had 1 task and 1 entry" in str(see_extent(server_home, 0, 0))


def test_a_shell_without_the_setting_tells_and_accepts_the_loss(
    server_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_database(load_settings({**os.environ, "TASKMEM_HOME": str(server_home.folder)}))
    see_extent(server_home, 9, 2)
    told = see_extent(server_home, 0, 0)
    monkeypatch.delenv("TASKMEM_DATABASE_URL")
    assert read_loss(server_home) == told
    assert run(server_home, "restore", "--keep").exit_code == 0
    assert read_loss(server_home) is None
    assert read_known_database(server_home) == "postgresql:///db"


def test_a_loss_that_cannot_be_written_down_is_logged_once(
    server_home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    see_extent(server_home, 9, 2)
    store = create_autospec(SqlStore, instance=True)
    settings = load_settings({**os.environ, "TASKMEM_HOME": str(server_home.folder)})
    note = ExtentNote(settings, store)
    monkeypatch.setattr(losses, "write_loss", Mock(side_effect=OSError(errno.ENOSPC, "full")))
    for tasks in (0, 1):
        store.read_extent.return_value = StoreExtent(database="7/db", position=3, tasks=tasks)
        note.update()
    assert caplog.text.count("it had 2 tasks and 9 entries") == 1


def test_another_database_of_the_same_name_has_lost_nothing(server_home: Home) -> None:
    assert see_extent(server_home, 9, 2) is None
    assert see_extent(server_home, 1, 1, database="8/db") is None
    assert see_extent(server_home, 9, 2) is None


def test_how_much_a_server_has_is_read_again_if_it_failed(server_home: Home) -> None:
    settings = load_settings({**os.environ, "TASKMEM_HOME": str(server_home.folder)})
    store = create_autospec(SqlStore, instance=True)
    store.read_extent.side_effect = StoreUnavailable("no table")
    assert see_extent(server_home, 9, 2) is None
    ExtentNote(settings, store).update()
    assert find_loss(settings) is None
    server_home.extent_note.write_text("cut")
    assert see_extent(server_home, 9, 2) is None
    assert see_extent(server_home, 0, 0) is not None


@pytest.mark.parametrize("words", [(), ("--keep", "--replace"), ("--keep", __file__)])
def test_restore_takes_a_file_or_keep_alone(emptied_home: Home, words: tuple[str, ...]) -> None:
    assert run(emptied_home, "restore", *words).exit_code == 2
    assert read_loss(emptied_home) is not None


@pytest.mark.parametrize(
    ("url", "shown"),
    {
        "postgresql://me:hunter/2?x@host:5432/db": "postgresql://me@host:5432/db",
        "postgresql://me:hunt@er2@host/db": "postgresql://me@host/db",
        "postgresql://me@/db?host=/run&password=hunter2": "postgresql://me@/db?host=%2Frun",
        "postgresql://me:hunter2": "[a URL that cannot be read]",
        "sqlite:////a/b%20@c.db": "sqlite:////a/b%20@c.db",
    }.items(),
)
def test_no_password_of_a_database_is_told(home: Home, url: str, shown: str) -> None:
    home.prepare()
    given = {"TASKMEM_HOME": str(home.folder), "TASKMEM_DATABASE_URL": url}
    note_database(load_settings({**given}))
    assert home.database_note.read_text() == f"{shown}\n"
    assert list_changed_settings(load_settings({**given}), given)["TASKMEM_DATABASE_URL"] == shown

    home.database_note.write_text(f"{url}\n")
    assert read_known_database(home) == shown


def test_a_database_that_cannot_be_noted_is_logged(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    home.prepare()
    given = {"TASKMEM_HOME": str(home.folder), "TASKMEM_DATABASE_URL": "postgresql://host/db"}
    monkeypatch.setattr(os, "fsync", refuse)
    note_database(load_settings(given))

    assert "could not be noted which database is used (Read-only file system)" in caplog.text
    assert [each.name for each in home.folder.iterdir()] == []


def test_tasks_that_are_elsewhere_are_not_begun_anew(home: Home, tmp_path: Path) -> None:
    home.prepare()
    named = {"TASKMEM_HOME": str(home.folder)}
    there = {**named, "TASKMEM_DATABASE_URL": "postgresql://me:secret@host:5432/tasks?sslmode=off"}
    require_known_database(load_settings({**named}))
    note_database(load_settings({**there}))
    require_known_database(load_settings({**there}))

    with pytest.raises(
        SettingsInvalid, match=r"are in postgresql://me@host:5432/tasks\?sslmode=off, and TASK"
    ):
        require_known_database(load_settings({**named}))
    assert "postgresql://me@host:5432/tasks" in run(home, "backup", tmp_path / "file").output
    assert stat.S_IMODE(home.database_note.stat().st_mode) == 0o600

    assert run(home, "restore", "--keep").exit_code == 0
    require_known_database(load_settings({**named}))
