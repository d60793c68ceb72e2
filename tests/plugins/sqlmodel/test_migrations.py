"""Older databases are brought forward whole; newer ones are left alone."""

from __future__ import annotations

import difflib
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import event

from taskmem_hookspecs import (
    Bookmark,
    Change,
    Linkage,
    StoreTooNew,
    StoreUnavailable,
    TextQuery,
    WaitStatus,
    WorkFolder,
)
from taskmem_hookspecs.testing import DAWN, a_folder, a_message, a_task
from taskmem_sqlmodel import schema
from taskmem_sqlmodel.hooks import task_store
from taskmem_sqlmodel.tables import Base, message_params, task_params
from tests.support.databases import DIALECTS
from tests.support.rows import read_all_rows, read_bookmark, rows_of_task
from tests.support.schemas import LAST_STATEMENT, NEXT, add_next_schema

SCRIPTS = ScriptDirectory(str(Path(schema.__file__).with_name("migrations")))
REVISIONS = [script.revision for script in SCRIPTS.walk_revisions()][::-1]
PARTS = (
    *("columns", "indexes", "pk_constraint", "foreign_keys"),
    *("unique_constraints", "check_constraints"),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "taskmem.db"


@pytest.fixture
def old(path, monkeypatch, tmp_path):
    """A database with rows in every table, for which a new schema has come since."""
    store = open_store(path)
    store.commit(rows_of_task(1, DAWN))
    store.commit(Change(bookmarks=(Bookmark(name="tell", value="1"),)))
    store.close()
    add_next_schema(monkeypatch, tmp_path)
    return path


def open_store(path):
    return task_store(f"sqlite:///{path}")


def query_rows(path, question):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


def dump(path):
    with closing(sqlite3.connect(path)) as connection:
        return "\n".join(connection.iterdump())


def run_apart(code, *arguments):
    """Start a process with the schemas that this one has, which runs some code."""
    here = f"""
from pathlib import Path
from taskmem_sqlmodel import schema
schema.HEAD, schema.MIGRATIONS = {schema.HEAD!r}, Path({str(schema.MIGRATIONS)!r})
"""
    return subprocess.Popen(
        [sys.executable, "-c", here + code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


# --- forward ----------------------------------------------------------------


def test_every_row_of_an_older_database_is_kept(old, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(schema, "HEAD", REVISIONS[-1])
        store = open_store(old)
        kept = read_all_rows(store)
        store.close()
    assert all(kept.values())
    store = open_store(old)
    assert read_all_rows(store) == kept
    assert read_bookmark(store, "tell") == "1"
    store.commit(Change(tasks=(a_task(task_id="task_2"),)))
    store.close()
    assert query_rows(old, "SELECT colour FROM tasks") == [("blue",), ("blue",)]
    assert query_rows(old, "SELECT * FROM alembic_version") == [(NEXT,)]


def test_the_tasks_own_keys_are_in_its_metadata(path):
    store = open_store(path)
    linkage = Linkage(
        active_wait_ids=("wait_1",),
        last_wait_event_at=a_task().created_at,
        last_wait_state=WaitStatus.WATCHING,
    )
    store.commit(Change(tasks=(a_task(metadata={"own": 1}, linkage=linkage),)))
    store.close()
    ((metadata,),) = query_rows(path, "SELECT metadata FROM tasks")
    assert json.loads(metadata) == {
        "own": 1,
        "active_wait_ids": ["wait_1"],
        "last_wait_event_at": 1771221600,
        "last_wait_state": "watching",
    }


# --- what each schema is -----------------------------------------------------


def test_each_revision_makes_its_schema(path, sql_snapshot):
    """The first is kept as a whole, and each other by how it differs from the one before."""
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)
    before: list[str] = []
    for revision in REVISIONS:
        with engine.begin() as connection:
            migrate(connection, revision)
        found = query_rows(
            path, "SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY tbl_name, name"
        )
        lines = "\n\n".join(f"{sql};" for (sql,) in found).splitlines()
        kept = [*difflib.unified_diff(before, lines, lineterm="")] if before else lines
        assert "\n".join(kept) + "\n" == sql_snapshot(name=revision)
        before = lines


def test_schemas_are_numbered_without_gaps_up_to_the_newest():
    assert list(map(int, REVISIONS)) == list(range(1, int(schema.HEAD) + 1))
    assert SCRIPTS.get_heads() == [schema.HEAD]


def describe_schema(engine):
    """Return all that a database tells of its tables, in no order."""
    found = sa.inspect(engine)
    return {
        (table, part): sorted(
            json.dumps(item, default=str)
            for item in (items if isinstance(items, list) else [items])
        )
        for part in PARTS
        for (_, table), items in getattr(found, f"get_multi_{part}")().items()
    }


def migrate(connection, revision="head"):
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", SCRIPTS.dir)
    command.upgrade(config, revision)


def list_without_space(rows):
    return [tuple("".join(str(value).split()) for value in row) for row in rows]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_texts_of_an_earlier_database_are_found(request, tmp_path, dialect):
    url = f"sqlite:///{tmp_path}/old.db"
    if dialect == "postgresql":
        url = request.getfixturevalue("postgres").new_database()
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        migrate(connection, "0001")
        row = task_params(a_task(name="Renew certificates", version=1))
        del row["blocked_by"]  # the columns are newer
        connection.execute(Base.metadata.tables["tasks"].insert(), row)
        said = message_params(a_message(content="The quince is ripe."))
        del said["by_call"]
        connection.execute(Base.metadata.tables["task_messages"].insert(), said)
    store = task_store(url)
    found = store.find_texts(TextQuery(patterns=("quince", "renew*")))
    store.commit(Change(messages=(a_message(content="Another quince."),)))
    (more,) = store.find_texts(TextQuery(patterns=("quince",))).values()
    store.close()
    assert [matches.places for matches in found.values()] == [[("task_1", 1)], [("task_1", None)]]
    assert more.places == [("task_1", 2), ("task_1", 1)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_new_database_has_the_schema_of_all_migrations(request, tmp_path, dialect):
    urls = [f"sqlite:///{tmp_path / name}.db" for name in ("migrated", "made")]
    if dialect == "postgresql":
        urls = [request.getfixturevalue("postgres").new_database() for _ in urls]
    migrated, made = (sa.create_engine(url, poolclass=sa.NullPool) for url in urls)
    with migrated.begin() as connection:
        migrate(connection)
    task_store(urls[1]).close()
    assert describe_schema(migrated) == describe_schema(made)
    question = "SELECT version_num FROM alembic_version"
    if dialect == "sqlite":
        question = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"
    with migrated.connect() as one, made.connect() as other:
        # SQLite keeps the text of a statement; a column that is added later has other white space.
        found = [list_without_space(side.exec_driver_sql(question)) for side in (one, other)]
    assert found[0] == found[1]


def test_listings_of_an_earlier_database_are_dropped(path):
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)
    with engine.begin() as connection:
        migrate(connection, "0002")
        row = a_folder(files="c-" * 100_000).model_dump()
        connection.execute(Base.metadata.tables["folders"].insert(), row)
    store = task_store(f"sqlite:///{path}")
    assert store.read_records(WorkFolder, "task_1") == [a_folder()]
    store.close()


def test_a_database_is_made_and_opened_without_alembic(path):
    code = f"""
import sys
from taskmem_sqlmodel.hooks import task_store
from taskmem_sqlmodel.tables import Base, message_params, task_params
task_store("sqlite:///{path}").close()
assert "alembic" not in sys.modules
"""
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], check=True)


# --- never half -------------------------------------------------------------


@pytest.fixture
def failing_at(request):
    """Let the statement that begins so fail."""

    def fail(_connection, _cursor, statement, *_rest):
        if request.param in statement:
            raise KeyboardInterrupt

    event.listen(sa.Engine, "before_cursor_execute", fail)
    yield
    event.remove(sa.Engine, "before_cursor_execute", fail)


@pytest.mark.usefixtures("failing_at")
@pytest.mark.parametrize("failing_at", [LAST_STATEMENT], indirect=True)
def test_a_migration_that_fails_leaves_the_old_database(old):
    before = dump(old)
    with pytest.raises(KeyboardInterrupt):
        open_store(old)
    assert dump(old) == before


@pytest.mark.usefixtures("failing_at")
@pytest.mark.parametrize("failing_at", ["CREATE TABLE wakes"], indirect=True)
def test_a_new_database_that_fails_is_empty(path):
    with pytest.raises(KeyboardInterrupt):
        open_store(path)
    assert query_rows(path, "SELECT * FROM sqlite_master") == []


def test_process_killed_while_migrating_keeps_the_old_database(old):
    before = dump(old)
    code = f"""
import os, sqlalchemy as sa
from sqlalchemy import event
from taskmem_sqlmodel.hooks import task_store
from taskmem_sqlmodel.tables import Base, message_params, task_params
def die(connection, cursor, statement, *rest):
    if {LAST_STATEMENT!r} in statement:
        os.kill(os.getpid(), 9)
event.listen(sa.Engine, "before_cursor_execute", die)
task_store("sqlite:///{old}")
"""
    killed = run_apart(code)
    killed.communicate()
    assert killed.returncode == -9
    assert dump(old) == before
    open_store(old).close()
    assert query_rows(old, "SELECT colour FROM tasks") == [("blue",)]


@pytest.mark.parametrize("fixture", ["path", "old"])
def test_processes_that_open_at_once_migrate_once(request, fixture):
    file = request.getfixturevalue(fixture)
    code = f"""
import sys
from taskmem_hookspecs import Change
from taskmem_hookspecs.testing import a_message, a_task
from taskmem_sqlmodel import store
import alembic.command
print("ready", flush=True)
sys.stdin.readline()
opened = store.SqlStore("sqlite:///{file}", busy_timeout=30)
opened.commit(Change(tasks=(a_task(task_id=sys.argv[1]),)))
opened.close()
"""
    processes = [run_apart(code, f"of_{number}") for number in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * 3
    expected = 3 if fixture == "path" else 4
    assert query_rows(file, "SELECT count(*) FROM tasks") == [(expected,)]
    assert query_rows(file, "SELECT * FROM alembic_version") == [(schema.HEAD,)]


# --- newer, from before the first release, or not ours -----------------------

SENTENCES = {
    StoreTooNew: "written by a newer version .its schema is {}, .*update openclaw",
    StoreUnavailable: "before the first release .its schema is {}. .*set TASKMEM_HOME",
}


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
@pytest.mark.parametrize(
    ("revision", "error"),
    [
        (NEXT, StoreTooNew),
        ("0099", StoreTooNew),
        ("1975ea83b712", StoreTooNew),
        ("0001_tasks", StoreUnavailable),
        ("0014_open_of_a_maker", StoreUnavailable),
    ],
)
def test_a_schema_not_known_here_is_refused_untouched(path, mode, revision, error):
    open_store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        connection.commit()
    path.chmod(0o644)
    before = path.read_bytes(), path.stat()
    with pytest.raises(error, match=SENTENCES[error].format(revision)) as refused:
        open_store(path)
    assert refused.type is error
    after = path.read_bytes(), path.stat()
    assert after[0] == before[0]
    assert after[1].st_mtime_ns == before[1].st_mtime_ns
    assert after[1].st_mode == before[1].st_mode


def test_a_database_of_another_program_is_refused(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE tasks (id INTEGER)")
    before = dump(path)
    with pytest.raises(StoreUnavailable, match="tasks already exists"):
        open_store(path)
    assert dump(path) == before
