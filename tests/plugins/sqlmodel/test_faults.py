"""What goes wrong under the store is told in one sentence, and passes."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from unittest import mock

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from taskmem_hookspecs import (
    Change,
    Conflict,
    DoctorState,
    EventQuery,
    InvalidArguments,
    Message,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    TaskQuery,
)
from taskmem_hookspecs.errors import SettingsInvalid
from taskmem_hookspecs.testing import a_message, a_task, an_event
from taskmem_program.losses import BACKUP_NOTE
from taskmem_sqlmodel import database, doctor
from taskmem_sqlmodel import store as sql_store
from taskmem_sqlmodel.database import translate_errors
from taskmem_sqlmodel.hooks import task_store
from taskmem_sqlmodel.store import SqlStore

MEGABYTE = "x" * 2**20


@pytest.fixture
def path(tmp_path):
    return tmp_path / "taskmem.db"


@pytest.fixture
def store(path):
    """A store with one task, that soon gives up on a lock."""
    store = SqlStore(f"sqlite:///{path}", busy_timeout=0.05)
    store.commit(Change(tasks=(a_task(),)))
    yield store
    store.close()


def limit_pages(store):
    """Let the next transaction find no room for another page."""
    driver = store._database._writer.connection.driver_connection
    (pages,) = driver.execute("PRAGMA page_count").fetchone()
    driver.execute(f"PRAGMA max_page_count = {pages}")


def write_group(store, changes):
    """Write changes as the leader of a group does; return why each was refused."""
    return store._commits.write([sql_store.list_writes(change, "sqlite") for change in changes])


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# --- locked -----------------------------------------------------------------


def test_a_locked_database_is_busy_and_then_free(store, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="try again"):
            store.commit(Change(tasks=(a_task(version=1),)))
        assert store.read_task("task_1").task.version == 1
        other.execute("ROLLBACK")
    store.commit(Change(tasks=(a_task(version=1),)))
    assert store.read_task("task_1").task.version == 2


def test_a_database_is_opened_while_another_writes(store, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        second = SqlStore(f"sqlite:///{path}", busy_timeout=0)
        assert second.read_task("task_1").task.version == 1
        second.close()


def test_a_new_database_that_another_holds_is_busy(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreBusy):
            SqlStore(f"sqlite:///{path}", busy_timeout=0)
        other.execute("ROLLBACK")
    SqlStore(f"sqlite:///{path}", busy_timeout=0).close()


def test_two_stores_on_one_file_see_each_others_versions(store, path):
    second = task_store(f"sqlite:///{path}")
    second.commit(Change(tasks=(a_task(version=1, name="by the second"),)))
    with pytest.raises(Conflict):
        store.commit(Change(tasks=(a_task(version=1),), events=(an_event(),)))
    assert store.read_task("task_1").task.name == "by the second"
    assert len(store.find_events(EventQuery())) == 0
    second.close()


# --- full -------------------------------------------------------------------


def test_a_full_database_takes_nothing_and_then_goes_on(store):
    limit_pages(store)
    with pytest.raises(StoreFull, match="free some space"):
        store.commit(Change(tasks=(a_task(version=1),), messages=(a_message(content=MEGABYTE),)))
    assert store.read_task("task_1").task.version == 1
    assert list(store.read_records(Message, "task_1")) == []
    store.commit(Change(tasks=(a_task(version=1),)))
    assert store.read_task("task_1").task.version == 2


def test_a_file_that_may_not_grow_is_full_and_then_goes_on(path):
    code = f"""
import resource
from taskmem_hookspecs import Change, StoreFull
from taskmem_hookspecs.testing import a_message, a_task
from taskmem_sqlmodel import database, doctor
from taskmem_sqlmodel.hooks import task_store
store = task_store("sqlite:///{path}")
store.commit(Change(tasks=(a_task(),)))
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (2**19, limits[1]))
large = Change(tasks=(a_task(version=1),), messages=(a_message(content="x" * 2**20),))
try:
    store.commit(large)
except StoreFull as error:
    assert "free some space" in str(error)
else:
    raise AssertionError("it had no room")
assert store.read_task("task_1").task.version == 1
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
store.commit(large)
assert store.read_task("task_1").task.version == 2
store.close()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# --- damaged, missing, unreadable -------------------------------------------


def test_a_file_that_is_no_database_is_unavailable(path):
    path.write_text("This is a letter to my aunt. " * 100)
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match=r"damaged.* back: taskmem restore --replace FILE\."):
        task_store(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_damaged_page_names_the_last_back_up(store, path, tmp_path):
    backup = tmp_path / "my backup"
    backup.touch()
    path.with_name(BACKUP_NOTE).write_text(f"{backup}\n")
    store.close()
    content = path.read_bytes()
    page = int.from_bytes(content[16:18])
    path.write_bytes(content[:page] + b"\xff" * (len(content) - page))

    command = f"taskmem restore --replace '{backup}' (of 2"
    with pytest.raises(StoreUnavailable, match="damaged") as opened:
        task_store(f"sqlite:///{path}").find_tasks(TaskQuery(implicit=False))
    row = doctor.check_database(f"sqlite:///{path}")
    for told in (str(opened.value), f"{row.detail} {row.cure}"):
        assert command in told


def test_a_page_damaged_under_a_writer_names_the_back_up(store, path, tmp_path):
    (tmp_path / "file").touch()
    path.with_name(BACKUP_NOTE).write_text(str(tmp_path / "file"))
    failing = sqlite3.DatabaseError("words")
    failing.sqlite_errorname = "SQLITE_CORRUPT"
    with (
        mock.patch("taskmem_sqlmodel.store._run_writes", side_effect=failing),
        pytest.raises(StoreUnavailable, match=f"--replace {tmp_path / 'file'} "),
    ):
        store.commit(Change(tasks=(a_task(task_id="task_2"),)))


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EIO, errno.EAGAIN])
def test_a_file_system_that_does_not_lock_is_told_at_once(path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(database.fcntl, "lockf", refuse)
    with pytest.raises(StoreUnavailable, match=r"does not lock .* Set TASKMEM_HOME to a folder on"):
        SqlStore(f"sqlite:///{path}")
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot be made"):
        task_store(f"sqlite:///{tmp_path}/file/taskmem.db")


def test_a_folder_in_place_of_the_file_is_told_as_one(tmp_path):
    (tmp_path / "taskmem.db").mkdir()
    with pytest.raises(StoreUnavailable, match=r"taskmem.db is a folder, .*; move it away"):
        task_store(f"sqlite:///{tmp_path}/taskmem.db")


def test_the_other_name_of_postgresql_is_understood():
    with pytest.raises(StoreUnavailable, match="connection"):
        task_store("postgres://nobody@127.0.0.1:1/tasks")


@pytest.mark.parametrize("url", ["sqlite:", "sqlite://", "sqlite:///:memory:"])
def test_a_url_without_a_file_is_a_wrong_setting(url):
    with pytest.raises(SettingsInvalid, match="sqlite:////path/to/file"):
        task_store(url)


@pytest.mark.parametrize("url", ["postgresql://me:hunt@er2@host/db", "postgresql://me:hunter2"])
def test_a_password_that_ends_too_early_is_not_told(url):
    with pytest.raises(SettingsInvalid) as refused:
        task_store(url)
    assert "hunt" not in str(refused.value)
    assert "er2" not in str(refused.value)


@pytest.mark.parametrize("url", ["mysql://host/db", "redis:", "", "sqlite+x:///a"])
def test_other_urls_are_left_to_others(url):
    assert task_store(url) is None


def test_text_that_cannot_be_kept_is_refused(store):
    message = a_message(content="lone \ud800 surrogate")
    with pytest.raises(InvalidArguments, match="nothing was written"):
        store.commit(Change(tasks=(a_task(version=1),), messages=(message,)))
    assert store.read_task("task_1").task.version == 1
    store.commit(Change(tasks=(a_task(version=1),)))


# --- access -----------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_nobody_else_reads_the_files(tmp_path, umask):
    before = os.umask(umask)
    try:
        folder = tmp_path / "state" / "taskmem"
        store = task_store(f"sqlite:///{folder}/taskmem.db")
        store.commit(Change(tasks=(a_task(),)))
        assert mode(folder) == mode(folder.parent) == 0o700
        names = {"taskmem.db", "taskmem.db-shm", "taskmem.db-wal", ".taskmem.db.last"}
        assert {file.name: mode(file) for file in folder.iterdir()} == dict.fromkeys(names, 0o600)
        store.close()
    finally:
        os.umask(before)


def test_a_file_that_others_could_read_is_closed_to_them(store, path):
    store.close()
    path.chmod(0o644)
    task_store(f"sqlite:///{path}").close()
    assert mode(path) == 0o600


# --- group commit -----------------------------------------------------------


def test_a_group_is_one_transaction_in_which_each_stands_alone(store):
    commits = []
    event.listen(store._database.engine, "commit", commits.append)
    refusals = write_group(
        store,
        [
            Change(tasks=(a_task(task_id="task_2"),)),
            Change(tasks=(a_task(version=1),), events=(an_event(),)),
            Change(events=(an_event(),), tasks=(a_task(version=1),)),
            Change(tasks=(a_task(task_id="task_3", name="\ud800"),)),
            Change(messages=(a_message(task_id="task_2"),)),
        ],
    )
    assert [refusal and type(refusal) for refusal in refusals] == [
        None,
        None,
        Conflict,
        InvalidArguments,
        None,
    ]
    assert len(commits) == 1
    assert store.read_task("task_1").task.version == 2
    assert len(store.read_records(Message, "task_2")) == 1
    assert len(store.find_events(EventQuery())) == 1


def test_a_group_that_finds_no_room_leaves_nothing(store):
    limit_pages(store)
    small = Change(tasks=(a_task(version=1),))
    large = Change(messages=(a_message(content=MEGABYTE),))
    with pytest.raises(StoreFull):
        write_group(store, [small, large, small])
    assert store.read_task("task_1").task.version == 1
    store.commit(large)
    store.commit(small)


def test_a_commit_that_fails_at_the_end_fails_for_all(store):
    def fail(_connection):
        raise OperationalError("COMMIT", {}, sqlite3.OperationalError("no disk"))

    changes = [Change(tasks=(a_task(task_id=f"task_{n}"),)) for n in (2, 3)]
    event.listen(store._database.engine, "commit", fail)
    with pytest.raises(StoreUnavailable, match="no disk"):
        write_group(store, changes)
    with pytest.raises(StoreUnavailable, match="no disk"):
        store.commit(changes[0])
    event.remove(store._database.engine, "commit", fail)
    assert len(store.find_tasks(TaskQuery(implicit=False))) == 1
    store.commit(changes[0])
    assert len(store.find_tasks(TaskQuery(implicit=False))) == 2


def test_a_writer_that_is_interrupted_makes_room_for_the_next(store, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sql_store, "_run_writes", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.commit(Change(events=(an_event(),)))
    store.commit(Change(events=(an_event(),)))
    assert len(store.find_events(EventQuery())) == 1


@pytest.mark.parametrize("called", [False, True])
def test_one_who_is_interrupted_while_waiting_calls_the_next(store, monkeypatch, called):
    commits = store._commits
    commits._led = True

    def interrupt_wait(event, timeout=None):
        if called:
            commits._hand_over()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Event, "wait", interrupt_wait)
        with pytest.raises(KeyboardInterrupt):
            store.commit(Change(events=(an_event(),)))
    if not called:
        commits._hand_over()
    store.commit(Change(events=(an_event(),)))
    assert len(store.find_events(EventQuery())) == 1


FAILURES = {
    "SQLITE_FULL": (StoreFull, "no room left .* may be kept or not; read again, free some space"),
    "SQLITE_IOERR_WRITE": (StoreFull, "may be kept or not: .* or the disk fails; read again"),
    "SQLITE_IOERR_SHMSIZE": (StoreFull, "may be kept or not: .* or the disk fails; read again"),
    "SQLITE_IOERR_FSYNC": (StoreUnavailable, "may be kept or not; read again"),
    "SQLITE_CANTOPEN": (StoreUnavailable, "the disk fails or is read-only"),
}


@pytest.mark.parametrize(("code", "meaning"), FAILURES.items(), ids=FAILURES)
def test_a_failure_says_whether_anything_may_be_kept(code, meaning):
    failing = sqlite3.OperationalError("disk I/O error")
    failing.sqlite_errorname = code
    kind, said = meaning
    with pytest.raises(kind, match=said), translate_errors():
        raise OperationalError("COMMIT", {}, failing)


def test_a_full_disk_of_postgresql_keeps_nothing():
    failing = sqlite3.OperationalError("could not extend file")
    failing.sqlstate = "53100"
    with pytest.raises(StoreFull, match="nothing was written"), translate_errors():
        raise OperationalError("INSERT", {}, failing)


# --- killed -----------------------------------------------------------------

KILLED = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size = 1")
database.execute("BEGIN IMMEDIATE")
database.execute("DELETE FROM events")
database.execute("UPDATE tasks SET name = hex(zeroblob(100000))")
database.execute("CREATE TABLE half_done (tried)")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def half_written(store, path, tmp_path):
    """A restored copy whose first writer was killed once its journal was synced."""
    copy = tmp_path / "restored.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("VACUUM INTO ?", (str(copy),))
    subprocess.run([sys.executable, "-c", KILLED, copy], check=False)
    assert copy.with_name("restored.db-journal").stat().st_size > 0
    return copy


def test_a_copy_whose_first_writer_was_killed_opens_whole(half_written):
    store = SqlStore(f"sqlite:///{half_written}")
    (task,) = store.find_tasks(TaskQuery(implicit=False))
    store.close()

    assert task == a_task().model_copy(update={"version": 1})


def test_doctor_reads_it_before_any_daemon_did(half_written):
    assert doctor.check_database(f"sqlite:///{half_written}").state is not DoctorState.FAIL


# --- taken away -------------------------------------------------------------


def test_a_write_while_the_file_is_taken_away_is_refused(store, path, monkeypatch):
    write = sql_store._run_writes

    def late(*given):
        write(*given)
        path.rename(path.with_name("away.db"))

    monkeypatch.setattr(sql_store, "_run_writes", late)
    with pytest.raises(StoreUnavailable, match="replaced or removed"):
        store.commit(Change(events=(an_event(),)))


def test_a_file_that_was_replaced_is_neither_read_nor_written(store, path):
    path.unlink()
    SqlStore(f"sqlite:///{path}").close()

    with pytest.raises(StoreUnavailable, match="replaced or removed"):
        store.count()
    with pytest.raises(StoreUnavailable, match="replaced or removed"):
        store.commit(Change(events=(an_event(),)))


def test_a_file_that_was_emptied_is_not_used_and_stays_so(store, path):
    os.truncate(path, 0)

    with pytest.raises(StoreUnavailable, match="or emptied, while a daemon had it open"):
        store.count()
    with pytest.raises(StoreUnavailable, match="or emptied, while a daemon had it open"):
        store.commit(Change(events=(an_event(),)))
    store.close()
    assert not path.stat().st_size
    assert path.with_name(f"{path.name}-wal").stat().st_size


@pytest.mark.parametrize("writes_after", [0, 1])
def test_a_copy_over_the_file_stays_whole_when_it_is_closed(store, path, tmp_path, writes_after):
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("VACUUM INTO ?", (str(copy),))
    for _ in range(20):
        store.commit(Change(events=(an_event(),)))
    shutil.copyfile(copy, path)
    for _ in range(writes_after):
        store.commit(Change(events=(an_event(),)))
    for name in ("taskmem.db-wal", "taskmem.db-shm"):
        path.with_name(name).unlink()

    store.close()

    assert path.read_bytes() == copy.read_bytes()
