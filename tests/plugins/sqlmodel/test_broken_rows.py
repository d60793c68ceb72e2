"""A row that cannot be read is set aside: each column of each table, in turn."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from contextlib import closing, contextmanager
from datetime import timedelta

import psycopg
import pytest
import sqlalchemy as sa

from taskmem_hookspecs import (
    DoctorState,
    EventQuery,
    Linkage,
    Message,
    PlanRevision,
    RunNotFound,
    RunQuery,
    TaskNotFound,
    TaskQuery,
    TaskStatus,
    WaitNotFound,
    WaitQuery,
    WaitStatus,
    WakeQuery,
)
from taskmem_hookspecs.testing import DAWN
from taskmem_sqlmodel import doctor, reading
from taskmem_sqlmodel.store import SqlStore
from taskmem_sqlmodel.tables import InstantText, JsonText
from tests.support.rows import (
    extract_ids,
    find_next_lapse,
    find_next_stuck_due,
    find_next_wake_due,
    rows_of_task,
)

NOW = DAWN + timedelta(hours=9)
SOON = DAWN + timedelta(seconds=1)
INSTANTS = ("", "0", "zzz", "2026-13-45T06:00:00.000000Z", "2026-01-01", b"\xff", 7)
HALF = r'["\ud800"]'
"""Half a character, which JSON can say and no text can hold."""
JSON = ("", "{", "[" * 100_000, "5", '"x"', HALF, b"\xff", None)


def breakages(column):
    """Return what no version writes into a column, as SQL's own types have it."""
    if isinstance(column.type, InstantText):
        values = INSTANTS
    elif isinstance(column.type, JsonText):
        values = JSON
    elif isinstance(column.type, sa.Double | sa.Float):
        values = ("many", float("inf"), -1.0)
    elif isinstance(column.type, sa.Integer | sa.BigInteger):
        values = ("many", 0) if column.name == "version" else ("many",)
    elif isinstance(column.type, sa.Boolean):
        values = ()
    else:
        known = {check.name for check in column.table.constraints}
        is_enum = f"{column.name}_is_known" in known
        values = ("no such word", b"\xff") if is_enum else (b"\xff",)
    return [each for each in values if each is not None or column.nullable]


CASES = [
    (table.name, column.name, value)
    for table in reading.ROW_QUERIES
    for column in table.c
    if not column.primary_key and not column.foreign_keys
    for value in breakages(column)
]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A database with a row of each table that will be broken, and one that is not."""
    path = tmp_path_factory.mktemp("broken") / "taskmem.db"
    store = SqlStore(f"sqlite:///{path}")
    store.commit(rows_of_task(1, DAWN))
    store.commit(rows_of_task(2, SOON))
    store.close()
    return path


@pytest.fixture
def path(template, tmp_path):
    return shutil.copy(template, tmp_path / "taskmem.db")


@pytest.fixture
def file_store(path):
    store = SqlStore(f"sqlite:///{path}")
    yield store
    store.close()


def break_row(path, table, column, value):
    """Write a value into the first row of a table, as text where it is bytes."""
    cast = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
    first = "task_id = 'task_1'" if table != "checkpoints" else "run_id = 'run_1'"
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA ignore_check_constraints = ON")
        update = f"UPDATE {table} SET {column} = {cast} WHERE {first}"  # noqa: S608
        raw.execute(update, (value,))


@pytest.mark.parametrize(
    "table", [t for t in reading.ROW_QUERIES if t.name != "bookmarks"], ids=str
)
def test_a_broken_row_harms_no_other(table, path, tmp_path):
    cases = [case for case in CASES if case[0] == table.name]
    assert cases
    for number, (_, column, value) in enumerate(cases):
        copy = shutil.copy(path, tmp_path / f"{number}.db")
        break_row(copy, table.name, column, value)
        store = SqlStore(f"sqlite:///{copy}")
        try:
            others_are_read(store)
        except Exception as error:
            error.add_note(f"{table.name}.{column} = {value!r:.40}")
            raise
        finally:
            store.close()
        seen = doctor.check_database(f"sqlite:///{copy}")
        assert seen.state is DoctorState.FAIL, (column, value)
        assert f"{table.name} " in seen.detail


@pytest.fixture(scope="module")
def url(postgres):
    """The same database on PostgreSQL, where a word may be of a later version, too."""
    url = postgres.new_database()
    store = SqlStore(url)
    store.commit(rows_of_task(1, DAWN))
    store.commit(rows_of_task(2, SOON))
    store.close()
    with psycopg.connect(url) as raw:
        for table in reading.ROW_QUERIES:
            for check in table.constraints:
                if isinstance(check, sa.CheckConstraint) and check.name:
                    raw.execute(f"ALTER TABLE {table.name} DROP CONSTRAINT {check.name}")
    return url


@pytest.fixture(scope="module")
def on_server(url):
    store = SqlStore(url)
    yield store
    store.close()


def breakages_there(column):
    """Return values that PostgreSQL keeps in a column, and no value can be made of."""
    if isinstance(column.type, InstantText):
        values = ("", "zzz")
    elif isinstance(column.type, JsonText):
        values = ("{", "5", HALF, None)
    elif isinstance(column.type, sa.Double | sa.Float):
        values = ("NaN", "Infinity", "-Infinity")
    elif column.name == "version":
        values = (0,)
    else:
        known = {check.name for check in column.table.constraints}
        values = ("no such word",) if f"{column.name}_is_known" in known else ()
    return [each for each in values if each is not None or column.nullable]


@contextmanager
def broken_there(url, table, column, value):
    """Write a value into the first row of a table, and then what was there."""
    first = "run_id = 'run_1'" if table == "checkpoints" else "task_id = 'task_1'"
    with psycopg.connect(url, autocommit=True) as raw:
        select = f"SELECT {column} FROM {table} WHERE {first}"  # noqa: S608
        [(before,)] = raw.execute(select).fetchall()
        update = f"UPDATE {table} SET {column} = %s WHERE {first}"  # noqa: S608
        assert raw.execute(update, (value,)).rowcount == 1
        try:
            yield
        finally:
            raw.execute(update, (before,))


@pytest.mark.long
@pytest.mark.parametrize(
    "table", [t for t in reading.ROW_QUERIES if t.name != "bookmarks"], ids=str
)
def test_a_broken_row_harms_no_other_on_postgresql(table, url, on_server):
    for column in table.c:
        if column.primary_key or column.foreign_keys:
            continue
        for value in breakages_there(column):
            with broken_there(url, table.name, column.name, value):
                said = f"{table.name}.{column.name} = {value!r}"
                try:
                    others_are_read(on_server)
                except Exception as error:
                    error.add_note(said)
                    raise
                seen = doctor.check_database(url)
                assert seen.state is DoctorState.FAIL, said
                assert f"{table.name} " in seen.detail
    assert doctor.check_database(url).state is DoctorState.OK


def others_are_read(store):
    """See that all that is not broken is answered, and that no pass is repeated."""
    for limit in (1, 500):
        assert ids(store.find_wakes(WakeQuery(due_by=NOW, limit=limit)), "wake_id", limit)
        assert ids(store.find_runs(RunQuery(lapsed_by=NOW, limit=limit)), "run_id", limit)
        due = extract_ids(store.find_tasks(TaskQuery(due_by=NOW, limit=limit)))
        assert due in (["task_1"], ["task_1", "task_2"], ["task_2"])
        assert limit == 1 or "task_2" in due
    walk = TaskQuery(status=TaskStatus.ACTIVE, after="", limit=500)
    assert "task_2" in extract_ids(store.find_tasks(walk))
    watching = WaitQuery(status=WaitStatus.WATCHING, limit=500)
    assert "wait_2" in extract_ids(store.find_waits(watching))
    assert "run_2" in extract_ids(store.find_runs(RunQuery()))
    assert "wake_2" in extract_ids(store.find_wakes(WakeQuery()))
    active = TaskQuery(status=TaskStatus.ACTIVE, limit=500, implicit=False)
    assert store.find_tasks(active)
    if "task_1" in extract_ids(store.find_tasks(TaskQuery(implicit=False))):
        assert store.read_task("task_1")
    else:
        with pytest.raises(TaskNotFound):
            store.read_task("task_1")
    facts = store.read_task("task_2")
    assert facts.run is not None
    assert [len(facts.waits), len(facts.wakes), len(facts.artifacts)] == [1, 1, 1]
    assert (
        len(store.read_records(Message, "task_2"))
        == len(store.read_records(PlanRevision, "task_2"))
        == 1
    )
    assert store.find_events(EventQuery(task_id="task_2"))
    assert store.find_events(EventQuery(after=0, limit=1))
    # What is due next is what a pass is then given: it would be repeated at once.
    for next_due, find, asked in (
        (find_next_wake_due, store.find_wakes, WakeQuery(limit=500)),
        (find_next_lapse, store.find_runs, RunQuery(limit=500)),
        (find_next_stuck_due, store.find_tasks, TaskQuery(limit=500)),
    ):
        due = next_due(store)
        assert due in (DAWN, SOON)
        by = "lapsed_by" if next_due is find_next_lapse else "due_by"
        assert find(asked.model_copy(update={by: due}))


def ids(found, field, limit):
    names = {getattr(each, field)[-1] for each in found}
    return names and (limit == 1 or "2" in names)


def test_whoever_asks_for_a_broken_row_is_told_what_to_do(path, file_store):
    for table, column in (("tasks", "plan"), ("waits", "armed_at"), ("runs", "owner")):
        break_row(path, table, column, "{")
    for read, row_id, error in (
        (file_store.read_task, "task_1", TaskNotFound),
        (file_store.read_wait, "wait_1", WaitNotFound),
        (file_store.read_run, "run_1", RunNotFound),
    ):
        with pytest.raises(error, match=f"'{row_id}' cannot be read .*taskmem doctor"):
            read(row_id)


def test_a_broken_row_is_logged_once(path, file_store, caplog):
    break_row(path, "wakes", "created_at", "zzz")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            file_store.find_wakes(WakeQuery(due_by=NOW))
    [line] = caplog.messages
    assert line.startswith("wakes 'wake_1' cannot be read (created_at: ")


def test_a_row_that_is_put_right_is_used_again(path, file_store):
    break_row(path, "wakes", "sent_at", "zzz")
    assert [wake.wake_id for wake in file_store.find_wakes(WakeQuery(due_by=NOW))] == ["wake_2"]
    break_row(path, "wakes", "sent_at", None)
    assert len(file_store.find_wakes(WakeQuery(due_by=NOW))) == 2


def test_metadata_that_is_emptied_by_hand_is_read(path, file_store):
    break_row(path, "tasks", "metadata", "{}")
    task = file_store.read_task("task_1").task
    assert (task.metadata, task.linkage) == ({}, Linkage())


def test_many_broken_rows_use_up_no_limit(path, file_store):
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE wakes SET acknowledged_at = 'zzz' WHERE wake_id = 'wake_1'")
        columns = [c.name for c in reading.WAKES.c if c.name not in ("wake_id", "key")]
        kept = ", ".join(f'"{name}"' for name in columns)
        for n in range(50):
            raw.execute(
                f"INSERT INTO wakes (wake_id, key, {kept})"  # noqa: S608
                f" SELECT 'more_{n}', 'more_{n}', {kept} FROM wakes"
                " WHERE wake_id = 'wake_1'"
            )
    assert [wake.wake_id for wake in file_store.find_wakes(WakeQuery(due_by=NOW, limit=2))] == [
        "wake_2"
    ]
    assert find_next_wake_due(file_store) == SOON


def test_every_table_has_its_kind():
    assert {kind.table for kind in reading.ROW_KINDS} == {*reading.ROW_QUERIES}
