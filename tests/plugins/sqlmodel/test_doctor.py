"""The database's row of `taskmem doctor`, in each of its states; nothing is kept."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from taskmem_hookspecs import Change, DoctorState
from taskmem_hookspecs.testing import a_task
from taskmem_sqlmodel import doctor, schema
from taskmem_sqlmodel.hooks import health_checks
from taskmem_sqlmodel.store import SqlStore
from tests.support.schemas import NEXT

OK, WARN, FAIL = DoctorState.OK, DoctorState.WARN, DoctorState.FAIL


@pytest.fixture
def path(tmp_path):
    return tmp_path / "taskmem.db"


@pytest.fixture
def kept_database(path):
    """A database with a task in it, which no daemon holds."""
    store = SqlStore(f"sqlite:///{path}")
    store.commit(Change(tasks=(a_task(),)))
    store.close()
    return f"sqlite:///{path}"


def test_a_sound_database_of_the_newest_schema_is_fine(kept_database):
    row = doctor.check_database(kept_database)
    assert (row.id, row.state, row.cure) == ("database", OK, None)
    assert schema.HEAD in row.detail


def test_looking_changes_no_byte_of_it(kept_database, path):
    before = path.read_bytes()
    doctor.check_database(kept_database)
    assert path.read_bytes() == before


def test_a_disk_without_room_is_told_though_all_can_be_read(kept_database):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    most = doctor.TRIED_BYTES // 2
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        row = doctor.check_database(kept_database)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert row.state is FAIL
    assert "no room left" in row.detail
    assert "free some space" in row.detail


def test_a_database_that_cannot_be_written_is_told(kept_database, monkeypatch):
    # Whoever runs the tests may be root, whom no mode of a file stops.
    connect = sqlite3.connect

    def read_only(address, **more):
        return connect(address.replace("mode=rw", "mode=ro"), **more)

    monkeypatch.setattr(doctor.sqlite3, "connect", read_only)
    row = doctor.check_database(kept_database)
    assert row.state is FAIL
    assert "cannot be written; give its owner write access" in row.detail


def test_a_database_that_another_holds_for_long_is_told(kept_database, path, monkeypatch):
    monkeypatch.setattr(doctor, "LOCK_SECONDS", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        row = doctor.check_database(kept_database)
    assert row.state is FAIL
    assert "Another process holds the database" in row.detail


def test_a_database_that_a_daemon_has_open_is_fine(path):
    store = SqlStore(f"sqlite:///{path}")
    try:
        assert doctor.check_database(f"sqlite:///{path}").state is OK
    finally:
        store.close()


def test_one_that_is_not_there_yet_is_made_by_a_daemon(path):
    row = doctor.check_database(f"sqlite:///{path}")
    assert row.state is WARN
    assert "taskmem daemon --detach" in row.cure
    assert not path.exists()


def test_one_of_an_older_schema_is_brought_up_to_date(kept_database, monkeypatch):
    monkeypatch.setattr(schema, "HEAD", NEXT)
    row = doctor.check_database(kept_database)
    assert row.state is FAIL
    assert f"older schema than {NEXT}" in row.detail
    assert "taskmem daemon restart" in row.cure


@pytest.mark.parametrize(
    ("revision", "cure"), [("9999", "update openclaw-taskmem"), ("0001_tasks", "set TASKMEM_HOME")]
)
def test_one_of_a_schema_that_is_refused_is_told(kept_database, path, revision, cure):
    with closing(sqlite3.connect(path)) as found, found:
        found.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    row = doctor.check_database(kept_database)
    assert row.state is FAIL
    assert revision in row.detail
    assert cure in row.detail


def test_one_that_is_damaged_is_to_be_restored(kept_database, path):
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(size // 4))
    row = doctor.check_database(kept_database)
    assert row.state is FAIL
    assert "damaged" in row.detail
    assert row.cure


def test_a_file_that_is_no_database_is_told(path):
    path.write_text("Not a database, but rather a long text of somebody's." * 100)
    row = doctor.check_database(f"sqlite:///{path}")
    assert row.state is FAIL
    assert "no SQLite database" in row.detail


def test_one_that_is_large_is_read_as_far_as_the_time_allows(kept_database):
    with closing(sqlite3.connect(kept_database.removeprefix("sqlite:///"))) as found, found:
        found.execute("CREATE TABLE much AS SELECT 1 AS n")
        for _ in range(19):
            found.execute("INSERT INTO much SELECT n FROM much")
    row = doctor.check_database(kept_database, seconds=1e-6)
    assert row.state is OK
    assert "as far as it was read" in row.detail


@pytest.mark.parametrize("url", ["", "nonsense"])
def test_a_url_that_is_none_is_told_how_to_write(url):
    row = doctor.check_database(url)
    assert row.state is FAIL
    assert "sqlite:////path/to/file.db" in row.cure


def test_a_server_that_is_not_there_is_told_without_its_password():
    row = doctor.check_database("postgresql://me:hunter2@127.0.0.1:1/tasks")
    assert row.state is FAIL
    assert "127.0.0.1:1/tasks" in row.detail
    assert "hunter2" not in row.detail


def test_a_driver_that_is_missing_is_installed(monkeypatch):
    def refuse(*_, **__):
        raise ModuleNotFoundError(name="psycopg")

    monkeypatch.setattr(doctor.sa, "create_engine", refuse)
    row = doctor.check_database("postgresql://127.0.0.1/tasks")
    assert row.state is FAIL
    assert "psycopg" in row.detail
    assert "openclaw-taskmem[postgres]" in row.cure


def test_a_database_on_a_server_is_fine(postgres):
    url = postgres.new_database()
    assert doctor.check_database(url).state is FAIL
    SqlStore(url).close()
    assert doctor.check_database(url).state is OK
    row = doctor.check_database(f"{url}%20-cdefault_transaction_read_only%3Don")
    assert row.state is FAIL
    assert "read-only" in row.detail


def test_the_plugin_brings_the_check_along(kept_database):
    async def look(check):
        return [
            row async for row in check.look(SimpleNamespace(database=kept_database, status=None))
        ]

    [check] = health_checks()
    assert not check.costs
    assert [row.state for row in asyncio.run(look(check))] == [OK]


def test_the_database_that_the_daemon_uses_is_told(path):
    served = "postgresql://me:[secret removed]@db/tasks"
    row = doctor.check_database(f"sqlite:///{path}", served=served)
    assert (row.state, served in row.detail) == (WARN, True)
    assert "TASKMEM_DATABASE_URL is not set here" in row.detail
    assert "config.toml" in row.cure


def test_a_folder_in_place_of_the_database_is_told(path):
    path.mkdir()
    row = doctor.check_database(f"sqlite:///{path}")
    assert row.state is FAIL
    assert row.detail.startswith(f"{path} is a folder, where the database should be; move it away")
