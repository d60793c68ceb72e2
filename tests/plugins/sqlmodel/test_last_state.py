"""A database that has less than it had says so; one that has all of it is silent."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from taskmem_hookspecs import Change, TaskQuery
from taskmem_hookspecs.testing import a_task, an_event
from taskmem_sqlmodel.store import SqlStore


def open_store(path: Path) -> SqlStore:
    return SqlStore(f"sqlite:///{path}")


def write_tasks(store: SqlStore, *names: str) -> None:
    for name in names:
        store.commit(Change(tasks=(a_task(task_id=name),), events=(an_event(task_id=name),)))


def read_loss(path: Path) -> str:
    file = path.with_suffix(".lost")
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


def name_log(path: Path) -> Path:
    return path.with_name("taskmem.db-wal")


LOSSES: dict[str, tuple[Callable[[Path], object], str]] = {
    "all of it removed": (remove, "0 and 0"),
    "the file removed": (Path.unlink, "0 and 0"),
    "the file emptied": (lambda path: cut(path, 0), "0 and 0"),
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
    for suffix in (".lost", ".last"):
        assert stat.S_IMODE(killed_file.with_suffix(suffix).stat().st_mode) == 0o600


def test_the_log_of_a_file_that_is_gone_is_kept(killed_file: Path) -> None:
    log = name_log(killed_file).read_bytes()
    killed_file.unlink()

    open_store(killed_file).close()

    assert killed_file.with_suffix(".lost-wal").read_bytes() == log


def test_an_older_copy_in_its_place_is_told_until_accepted(tmp_path: Path) -> None:
    path, older = tmp_path / "taskmem.db", tmp_path / "older.db"
    with closing(open_store(path)) as store:
        write_tasks(store, "task_1")
    shutil.copyfile(path, older)
    with closing(open_store(path)) as store:
        write_tasks(store, "task_2", "task_3")
    shutil.copyfile(older, path)

    with closing(open_store(path)) as store:
        write_tasks(store, "task_4")
    shutil.copyfile(older, path)
    with closing(open_store(path)) as store:
        write_tasks(store, "task_4", "task_5", "task_6")
    open_store(path).close()
    assert "it had 3 tasks and 3 entries in its log, and now has 1 and 1." in read_loss(path)

    path.with_suffix(".lost").unlink()
    open_store(path).close()
    assert not read_loss(path)


def test_what_a_kill_leaves_whole_is_no_loss(killed_file: Path) -> None:
    with closing(open_store(killed_file)) as store:
        assert len(store.find_tasks(TaskQuery())) == 5
    open_store(killed_file).close()

    assert not read_loss(killed_file)


@pytest.mark.parametrize("content", [b"", b"\0" * 48, b"soon\n"])
def test_a_note_that_a_power_cut_broke_tells_of_no_loss(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "taskmem.db"
    path.with_suffix(".last").write_bytes(content)

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
