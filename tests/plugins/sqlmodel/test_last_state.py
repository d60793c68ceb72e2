"""A database that has less than it had says so; one that has all of it is silent."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from taskmem_hookspecs import Change, TaskQuery
from taskmem_hookspecs.testing import a_task, an_event
from taskmem_sqlmodel import last_state
from taskmem_sqlmodel.last_state import LastState
from taskmem_sqlmodel.store import SqlStore


def open_store(path: Path) -> SqlStore:
    return SqlStore(f"sqlite:///{path}")


def write_tasks(store: SqlStore, *names: str) -> None:
    for name in names:
        store.commit(Change(tasks=(a_task(task_id=name),), events=(an_event(task_id=name),)))


def read_loss(path: Path) -> str:
    file = path.with_name(f"{path.name}.lost")
    return file.read_text() if file.exists() else ""


def copy_all(source: Path, target: Path) -> Path:
    target.mkdir()
    for file in source.iterdir():
        shutil.copy2(file, target / file.name)
    return target / "taskmem.db"


@pytest.fixture
def killed_file(tmp_path: Path) -> Path:
    """The database of five tasks as a killed daemon leaves it, the older half in its file."""
    folder = tmp_path / "first"
    folder.mkdir()
    with closing(open_store(folder / "taskmem.db")) as store:
        write_tasks(store, "task_1", "task_2")
        settle(store)
        write_tasks(store, "task_3", "task_4", "task_5")
        return copy_all(folder, tmp_path / "killed")


def settle(store: SqlStore) -> None:
    store.settle()
    store.settle()


def remove(path: Path) -> None:
    for file in path.parent.glob("taskmem.db*"):
        file.unlink()


def cut(file: Path, size: int) -> None:
    with file.open("r+b") as opened:
        opened.truncate(size)


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2 :] = b"\xff" * (len(content) - len(content) // 2)
    file.write_bytes(content)


def drop_tasks(path: Path) -> None:
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.execute("DELETE FROM tasks WHERE task_id IN ('task_1', 'task_2')")


def drop_tasks_and_add_an_event(path: Path) -> None:
    drop_tasks(path)
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.execute("UPDATE events SET id = 6 WHERE id = 5")


def name_log(path: Path) -> Path:
    return path.with_name("taskmem.db-wal")


LOSSES: dict[str, tuple[Callable[[Path], object], str]] = {
    "all of it removed": (remove, "0 and 0"),
    "the file removed": (Path.unlink, "0 and 0"),
    "the file emptied": (lambda path: cut(path, 0), "0 and 0"),
    "some tasks deleted": (drop_tasks, "3 and 5"),
    "tasks deleted, events added": (drop_tasks_and_add_an_event, "3 and 6"),
    "the log removed": (lambda path: name_log(path).unlink(), "2 and 2"),
    "the log emptied": (lambda path: cut(name_log(path), 0), "2 and 2"),
    "the log's head damaged": (lambda path: name_log(path).write_bytes(b"\xff" * 99), "2 and 2"),
    "the log cut": (lambda path: cut(name_log(path), name_log(path).stat().st_size - 1), "4 and 4"),
    "the log damaged": (lambda path: damage(name_log(path)), "3 and 3"),
}


@pytest.mark.parametrize(("lose", "left"), LOSSES.values(), ids=LOSSES.keys())
def test_a_database_that_has_less_than_it_had_says_so(
    killed_file: Path, lose: Callable[[Path], object], left: str
) -> None:
    lose(killed_file)

    open_store(killed_file).close()

    assert "it had 5 tasks and 5 entries in its log" in read_loss(killed_file)
    assert f"and now has {left}." in read_loss(killed_file)
    for name in ("taskmem.db.lost", ".taskmem.db.last"):
        assert stat.S_IMODE(killed_file.with_name(name).stat().st_mode) == 0o600


def test_the_log_of_a_file_that_is_gone_is_kept(killed_file: Path) -> None:
    log = name_log(killed_file).read_bytes()
    killed_file.unlink()

    open_store(killed_file).close()

    assert killed_file.with_suffix(".db.lost-wal").read_bytes() == log

    name_log(killed_file).write_bytes(b"another")
    killed_file.write_bytes(b"")
    open_store(killed_file).close()

    assert killed_file.with_suffix(".db.lost-wal").read_bytes() == log
    assert killed_file.with_suffix(".db.lost-wal-2").read_bytes() == b"another"


def test_two_databases_of_one_folder_share_no_note(killed_file: Path) -> None:
    other = killed_file.with_suffix(".sqlite")

    open_store(other).close()
    open_store(killed_file).close()

    assert not read_loss(other)
    assert not read_loss(killed_file)


def test_a_loss_that_cannot_be_written_is_logged_and_kept(
    killed_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    remove(killed_file)
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(last_state, "write_loss", refuse)
        with closing(open_store(killed_file)) as store:
            write_tasks(store, "task_1")
    assert "it had 5 tasks" in caplog.text
    assert not read_loss(killed_file)

    open_store(killed_file).close()
    assert "it had 5 tasks and 5 entries in its log, and now has 1 and 1." in read_loss(killed_file)


def test_old_tasks_that_the_store_drops_are_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, copies = LastState.save, list[Path]()

    def save_after_copy(state: LastState, position: int, tasks: int) -> None:
        copies.append(copy_all(path.parent, tmp_path / f"killed-{len(copies)}"))
        save(state, position, tasks)

    path = tmp_path / "first" / "taskmem.db"
    with closing(open_store(path)) as store:
        write_tasks(store, "task_1")
        old = a_task(task_id="task_2", implicit=True)
        store.commit(Change(tasks=(old,), events=(an_event(task_id="task_2"),)))
        monkeypatch.setattr(LastState, "save", save_after_copy)
        store.commit(Change(forget_before=old.updated_at + timedelta(seconds=1)))
        monkeypatch.undo()
        assert [task.task_id for task in store.find_tasks(TaskQuery())] == ["task_1"]
    for each in (*copies, path):
        open_store(each).close()
        assert not read_loss(each)
    assert len(copies) == 2


def test_an_older_copy_in_its_place_is_told_until_accepted(tmp_path: Path) -> None:
    path, older = tmp_path / "taskmem.db", tmp_path / "older.db"
    with closing(open_store(path)) as store:
        write_tasks(store, "task_1")
    shutil.copyfile(path, older)
    with closing(open_store(path)) as store:
        write_tasks(store, "task_2", "task_3")
    shutil.copyfile(older, path)

    with closing(open_store(path)) as store:
        write_tasks(store, "task_4", "task_5", "task_6")
    open_store(path).close()
    [told] = read_loss(path).splitlines()
    assert "it had 3 tasks and 3 entries in its log, and now has 1 and 1." in told

    path.with_suffix(".db.lost").unlink()
    open_store(path).close()
    assert not read_loss(path)


def test_each_loss_is_told_though_none_was_accepted(killed_file: Path) -> None:
    for names in (["task_1", "task_2"], ["task_1", "task_2", "task_3"], []):
        killed_file.write_bytes(b"")
        name_log(killed_file).unlink(missing_ok=True)
        with closing(open_store(killed_file)) as store:
            write_tasks(store, *names)
        open_store(killed_file).close()

    first, last = read_loss(killed_file).splitlines()
    assert "it had 5 tasks and 5 entries in its log, and now has 0 and 0." in first
    assert "it had 3 tasks and 3 entries in its log, and now has 0 and 0." in last


def test_what_a_kill_leaves_whole_is_no_loss(killed_file: Path) -> None:
    with closing(open_store(killed_file)) as store:
        assert len(store.find_tasks(TaskQuery())) == 5
    open_store(killed_file).close()

    assert not read_loss(killed_file)


@pytest.mark.parametrize("content", [b"", b"\0" * 48, b"soon\n"])
def test_a_note_that_a_power_cut_broke_tells_of_no_loss(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "taskmem.db"
    path.with_name(".taskmem.db.last").write_bytes(content)

    with closing(open_store(path)) as store:
        write_tasks(store, "task_1")

    assert not read_loss(path)


def test_a_store_at_rest_is_in_its_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "first" / "taskmem.db"
    with closing(open_store(path)) as store:
        write_tasks(store, "task_1")
        store.settle()
        assert name_log(path).stat().st_size
        store.settle()
        assert not name_log(path).stat().st_size
        copy = tmp_path / "taskmem.db"
        shutil.copyfile(path, copy)
    with closing(open_store(copy)) as store:
        assert len(store.find_tasks(TaskQuery())) == 1


def test_a_reader_that_keeps_the_log_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "taskmem.db"
    statements: list[str] = []
    with closing(open_store(path)) as store:
        write_tasks(store, "task_1")
        writer = store._database._writer
        assert writer is not None
        driver = cast("sqlite3.Connection", writer.connection.driver_connection)
        with store._database.lend_reader() as reader:
            reader.exec_driver_sql("SELECT count(*) FROM tasks").all()
            write_tasks(store, "task_2")
            driver.set_trace_callback(statements.append)
            settle(store)
            driver.set_trace_callback(None)
            assert name_log(path).stat().st_size
        assert [each for each in statements if "=" in each or "wal" in each] == [
            "PRAGMA busy_timeout = 0",
            "PRAGMA wal_checkpoint(TRUNCATE)",
            "PRAGMA busy_timeout = 5000",
        ]

        store.settle()
        assert not name_log(path).stat().st_size
