"""Older databases are brought forward whole; newer ones are left alone."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event

from taskmem_hookspecs import (
    Change,
    Linkage,
    StoreTooNew,
    StoreUnavailable,
    TaskStatus,
    WaitStatus,
)
from taskmem_hookspecs.testing import a_run, a_task, a_wait, a_wake
from taskmem_sqlmodel import schema, task_store
from taskmem_sqlmodel.rows import Base

RELEASED = Path(__file__).parent / "released"
SCRIPTS = ScriptDirectory(str(Path(schema.__file__).parent / "migrations"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "taskmem.db"


@pytest.fixture
def old(path):
    """A database of the first schema, with rows in every table."""
    release(path, 1)
    return path


def release(path, number):
    """Make a database of an earlier schema, as one was left by its version."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((RELEASED / f"{number:04}.sql").read_text())


def opened(path):
    return task_store(f"sqlite:///{path}")


def asked(path, question):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


def dump(path):
    with closing(sqlite3.connect(path)) as connection:
        return "\n".join(connection.iterdump())


def migrate(path, revision):
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", SCRIPTS.dir)
        command.upgrade(config, revision)


def schema_of(path):
    found = asked(
        path, "SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY tbl_name, name"
    )
    return "\n\n".join(f"{sql};" for (sql,) in found) + "\n"


# --- forward ----------------------------------------------------------------


def test_every_row_of_an_older_database_is_kept(old):
    store = opened(old)
    tasks = {task.task_id: task for task in store.list_tasks(None, 99)}
    assert {id_: task.status for id_, task in tasks.items()} == {
        "task_a": TaskStatus.ACTIVE,
        "task_b": TaskStatus.COMPLETED,
        "task_c": TaskStatus.PAUSED,
        "task_d": TaskStatus.ACTIVE,
    }
    assert tasks["task_a"].plan == ("Build it", "Test it", "Ship it")
    assert tasks["task_a"].done == {0, 1}
    assert tasks["task_a"].metadata == {"ticket": "OPS-7"}
    assert tasks["task_a"].session_key == "agent:main:main"
    assert tasks["task_a"].version == 4
    assert tasks["task_b"].name == "Write the report — ünïcode 👩🏽‍🚀"
    assert tasks["task_c"].metadata == {"nested": {"deep": [1, 2.5, None, True]}}
    assert [message.content for message in store.read_thread("task_a")] == [
        "Build is green.",
        "Plan revised: untested",
        "Step 2 done",
    ]
    assert [message.message_id for message in store.read_thread("task_b")] == [4]
    (revision,) = store.read_revisions("task_a")
    assert revision.old_plan == ("Build it", "Ship it")
    assert [e.event_id for e in store.list_events(0, 9)] == [1, 2]
    assert store.read_bookmark("tell") == "2"
    store.close()


def test_active_tasks_of_an_older_database_are_looked_at(old):
    store = opened(old)
    tasks = store.list_tasks(None, 99)
    due = {task.task_id: task.stuck_due_at for task in tasks if task.stuck_due_at}
    assert due == {t.task_id: t.updated_at for t in tasks if t.status == "active"}
    assert list(store.stuck_due(tasks[0].updated_at, 9)) == ["task_a", "task_d"]
    assert {task.alerts for task in tasks} == {0}
    assert {task.linkage for task in tasks} == {Linkage()}
    store.close()


def test_waits_and_wakes_of_an_older_database_go_on(path):
    release(path, 2)  # open waits, wakes that are owed
    store = opened(path)
    facts = store.read_task("task_a")
    assert [wait.wait_id for wait in facts.waits] == ["wait_a", "wait_b"]
    assert facts.task.linkage.active_wait_ids == ("wait_a",)
    assert [wake.key for wake in facts.wakes] == ["wait:wait_b:2"]
    assert [wake.wake_id for wake in store.wakes_of_wait("wait_c")] == ["wake_c"]
    assert [event.kind for event in store.wait_events("wait_b", 9)] == ["wait_ended"]
    (watching,) = store.list_waits(WaitStatus.WATCHING, None, 9)
    assert (watching.wait_id, watching.start, watching.home) == ("wait_a", None, None)
    assert store.read_wait("wait_b").last_observation.endswith("ünïcode")
    assert store.read_wait("wait_b").version == 3
    store.close()


def test_what_was_said_of_the_wakes_of_an_older_database_is_not_known(path):
    release(path, 3)  # a wait with its place, wakes on their way
    store = opened(path)
    wakes = {wake.wake_id: wake for wake in store.list_wakes(None, None, 9)}
    assert {id_: (wake.state, wake.note) for id_, wake in wakes.items()} == {
        "wake_a": ("unanswered", None),
        "wake_b": ("sent", None),
        "wake_c": ("due", None),
    }
    assert (wakes["wake_b"].delivery_id, wakes["wake_b"].version) == ("delivery_b", 4)
    assert wakes["wake_b"].transport == "openclaw-cli"
    watching = store.read_wait("wait_a")
    assert (watching.start, watching.home) == ("412", "home_1")
    (due,) = store.due_wakes(wakes["wake_c"].due_at, 9)
    store.commit(Change(wakes=(due.model_copy(update={"note": "by another way"}),)))
    store.close()
    store = opened(path)
    assert [wake.note for wake in store.read_wakes(["wake_c"])] == ["by another way"]
    store.close()


def test_wakes_of_an_older_database_are_kept_whole_beside_those_for_runs(path):
    release(path, 4)  # a wake with what was said of it
    question = (
        "SELECT wake_id, key, cause, state, task_id, wait_id, session_key, text, "
        "urgent, attempts, sends, last_error, created_at, due_at, sent_at, "
        "acknowledged_at, transport, note, delivery_id, version FROM wakes"
    )
    before = asked(path, question)
    assert len(before) == 3
    store = opened(path)
    assert sorted(asked(path, question)) == sorted(before)
    [noted] = [wake for wake in store.list_wakes(None, None, 9) if wake.note]
    assert noted.note.endswith("ünïcode")
    wake = a_wake(key="run:run_1:1", cause="run", task_id="task_a", run_id="run_1")
    store.commit(Change(runs=(a_run(task_id="task_a"),), wakes=(wake,)))
    assert store.read_task("task_a").run.state == "queued"
    assert store.read_task("task_b").run is None
    (kept,) = store.read_wakes(["wake_1"])
    assert (kept.cause, kept.run_id) == ("run", "run_1")
    store.close()
    assert asked(path, "PRAGMA foreign_key_check") == []


def test_what_an_older_database_owes_is_everybodys_business(path):
    release(path, 5)  # a run at work, and what hangs on it
    store = opened(path)
    facts = store.read_task("task_a")
    assert (facts.task.home, facts.task.held_until.minute) == (None, 7)
    run = facts.run
    assert (run.run_id, run.home, run.token) == ("run_b", "home_1", 3)
    assert (run.folder, run.step, run.owner.boot) == ("/srv/ünïcode", 2, "boot_1")
    assert [c.number for c in store.read_checkpoints("run_b", 9)] == [1, 2]
    assert [made.size for made in facts.artifacts] == [2**40]
    wakes = store.due_wakes(run.lease_until, 9, "home_2")
    assert {wake.key for wake in wakes} >= {"run:run_b:1", "wait:wait_c:1"}
    assert {wake.home for wake in wakes} == {None}
    (wake,) = store.read_wakes(["wake_d"])
    store.commit(Change(wakes=(wake.model_copy(update={"home": "home_1"}),)))
    (kept,) = store.read_wakes(["wake_d"])
    assert (kept.home, kept.run_id, kept.text) == ("home_1", "run_b", wake.text)
    store.close()


def test_what_is_due_in_an_older_database_is_due_in_its_home(path):
    release(path, 6)  # what is due in two homes, and in none
    store = opened(path)
    late = store.read_task("task_d").task.stuck_due_at
    homes = ("home_1", "home_2", "home_3")
    stuck = {home: list(store.stuck_due(late, 9, home)) for home in homes}
    assert stuck == {"home_1": ["task_a"], "home_2": ["task_d"], "home_3": []}
    wakes = {
        home: [wake.wake_id for wake in store.due_wakes(late, 9, home)]
        for home in homes
    }
    assert wakes == {
        "home_1": ["wake_d", "wake_b"],
        "home_2": ["wake_c", "wake_b"],
        "home_3": ["wake_b"],
    }
    lapsed = {home: len(store.lapsed_runs(late, 9, home)) for home in homes}
    assert lapsed == {"home_1": 1, "home_2": 0, "home_3": 0}
    store.close()


def test_runs_of_an_older_database_ask_nothing_and_count_anew(path):
    release(path, 8)  # a run at work
    store = opened(path)
    run = store.read_task("task_a").run
    assert (run.question, run.rounds_before, run.worked_seconds) == (None, 0, 0.0)
    asking = run.model_copy(update={"question": "Which?", "worked_seconds": 1.5})
    store.commit(Change(runs=(asking,)))
    store.close()
    store = opened(path)
    run = store.read_task("task_a").run
    assert (run.question, run.worked_seconds) == ("Which?", 1.5)
    store.close()


def test_of_the_rows_of_an_older_database_no_host_is_known(path):
    release(path, 9)  # a task with waits and wakes
    store = opened(path)
    facts = store.read_task("task_a")
    assert {row.host for row in (facts.task, *facts.waits, *facts.wakes)} == {None}
    there = facts.task.model_copy(update={"host": "mcp:claude-code"})
    store.commit(Change(tasks=(there,)))
    assert store.read_task("task_a").task.host == "mcp:claude-code"
    store.close()


def test_who_was_woken_for_a_task_of_an_older_database_has_registered_it(path):
    release(path, 10)  # tasks of homes and hosts
    store = opened(path)
    tasks = {task.task_id: task for task in store.list_tasks(None, 9)}
    for task in tasks.values():
        known = (task.session_key, task.host, task.home)
        registrar = (
            *(task.registrar_session, task.registrar_host, task.registrar_home),
        )
        assert registrar == known
    assert tasks["task_a"].registrar_session == "agent:main:main"
    assert tasks["task_a"].registrar_host == "openclaw:one"
    held = {"session_key": "thread-1", "host": "mcp:claude-code"}
    store.commit(Change(tasks=(tasks["task_a"].model_copy(update=held),)))
    task = store.read_task("task_a").task
    assert (task.session_key, task.registrar_host) == ("thread-1", "openclaw:one")
    store.close()


def test_a_wait_of_an_older_database_goes_on_where_it_was_allowed_to(path):
    release(path, 11)  # a wait that is watched
    store = opened(path)
    wait = store.read_wait("wait_a")
    assert wait.within is None
    there = wait.model_copy(update={"within": ("/srv", "/ünïcode")})
    store.commit(Change(waits=(there,)))
    assert store.read_wait("wait_a").within == ("/srv", "/ünïcode")
    store.close()


@pytest.mark.parametrize(
    ("before", "known"),
    [
        ("UPDATE tasks SET session_key = 'agent:main:taskmem:run_b'", False),
        ("UPDATE runs SET session_key = NULL", False),
        ("UPDATE runs SET session_key = NULL WHERE run_id = 'run_a'", True),
        ("UPDATE runs SET role = NULL, session_key = NULL", True),
    ],
    ids=["in-the-background", "given-away", "which-failed", "by-nobody"],
)
def test_who_held_what_is_older_is_not_always_its_registrar(path, before, known):
    release(path, 10)  # a run that failed, and one at work
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE tasks SET home = 'home_1'")
        connection.execute(before)
    store = opened(path)
    task = store.read_task("task_a").task
    expected = ("agent:main:main", "openclaw:one") if known else (None, None)
    assert (task.registrar_session, task.registrar_host) == expected
    assert task.registrar_home == "home_1"
    store.close()


def test_an_older_database_takes_what_the_newest_knows(old):
    store = opened(old)
    task = store.read_task("task_a").task
    linkage = Linkage(
        active_wait_ids=("wait_1",),
        last_wait_event_at=task.created_at,
        last_wait_state=WaitStatus.WATCHING,
    )
    store.commit(
        Change(
            tasks=(task.model_copy(update={"linkage": linkage, "alerts": 1}),),
            waits=(a_wait(task_id="task_a"),),
            wakes=(a_wake(task_id="task_a", wait_id="wait_1"),),
        )
    )
    store.close()
    store = opened(old)
    facts = store.read_task("task_a")
    assert facts.task.linkage == linkage
    assert len(facts.waits) == len(facts.wakes) == 1
    store.close()


def test_the_tasks_own_keys_are_in_its_metadata(path):
    store = opened(path)
    linkage = Linkage(
        active_wait_ids=("wait_1",),
        last_wait_event_at=a_task().created_at,
        last_wait_state=WaitStatus.WATCHING,
    )
    store.commit(Change(tasks=(a_task(metadata={"own": 1}, linkage=linkage),)))
    store.close()
    ((metadata,),) = asked(path, "SELECT metadata FROM tasks")
    assert json.loads(metadata) == {
        "own": 1,
        "active_wait_ids": ["wait_1"],
        "last_wait_event_at": 1771221600,
        "last_wait_state": "watching",
    }


def test_every_schema_is_as_it_was_released(path, sql_snapshot):
    for revision in schema.REVISIONS:
        migrate(path, revision)
        assert schema_of(path) == sql_snapshot(name=revision)


@pytest.mark.parametrize("number", range(len(schema.REVISIONS) - 1))
def test_an_older_database_has_the_schema_it_was_released_with(tmp_path, number):
    made, kept = tmp_path / "made.db", tmp_path / "kept.db"
    migrate(made, schema.REVISIONS[number])
    release(kept, number + 1)
    assert schema_of(kept) == schema_of(made)


def test_every_schema_but_the_newest_has_a_database_to_try_it_on():
    kept = sorted(path.stem for path in RELEASED.glob("*.sql"))
    assert kept == [revision[:4] for revision in schema.REVISIONS[:-1]]


def test_the_scripts_are_the_revisions_that_are_known():
    revisions = [script.revision for script in SCRIPTS.walk_revisions()]
    assert tuple(reversed(revisions)) == schema.REVISIONS
    assert SCRIPTS.get_heads() == [schema.HEAD]


def test_the_newest_schema_is_that_of_the_rows(path):
    opened(path).close()
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_a_database_at_head_is_opened_without_alembic(path):
    opened(path).close()
    code = f"""
import sys
from taskmem_sqlmodel import task_store
task_store("sqlite:///{path}").close()
assert "alembic" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# --- never half -------------------------------------------------------------


@pytest.fixture
def failing_midway():
    """Let the second migration fail after its first table."""

    def fail(_connection, _cursor, statement, *_rest):
        if "CREATE TABLE wakes" in statement:
            raise KeyboardInterrupt

    event.listen(sa.Engine, "before_cursor_execute", fail)
    yield
    event.remove(sa.Engine, "before_cursor_execute", fail)


@pytest.mark.usefixtures("failing_midway")
def test_a_migration_that_fails_leaves_the_old_database(old):
    before = dump(old)
    with pytest.raises(KeyboardInterrupt):
        opened(old)
    assert dump(old) == before


@pytest.mark.usefixtures("failing_midway")
def test_a_new_database_that_fails_is_empty(path):
    with pytest.raises(KeyboardInterrupt):
        opened(path)
    assert asked(path, "SELECT * FROM sqlite_master") == []


def test_a_process_killed_while_migrating_leaves_the_old_database(old):
    before = dump(old)
    code = f"""
import os, sqlalchemy as sa
from sqlalchemy import event
from taskmem_sqlmodel import task_store
def die(connection, cursor, statement, *rest):
    if "CREATE TABLE wakes" in statement:
        os.kill(os.getpid(), 9)
event.listen(sa.Engine, "before_cursor_execute", die)
task_store("sqlite:///{old}")
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -9
    assert dump(old) == before
    opened(old).close()
    assert asked(old, "SELECT count(*) FROM tasks") == [(4,)]


@pytest.mark.parametrize("fixture", ["path", "old"])
def test_processes_that_open_at_once_migrate_once(request, fixture):
    file = request.getfixturevalue(fixture)
    code = f"""
import sys
from taskmem_hookspecs import Change
from taskmem_hookspecs.testing import a_task
from taskmem_sqlmodel import store
import alembic.command
print("ready", flush=True)
sys.stdin.readline()
opened = store.SqlStore("sqlite:///{file}", busy_timeout=30)
opened.commit(Change(tasks=(a_task(task_id=sys.argv[1]),)))
opened.close()
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, f"task_{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * 3
    expected = 3 if fixture == "path" else 7
    assert asked(file, "SELECT count(*) FROM tasks") == [(expected,)]
    assert asked(file, "SELECT * FROM alembic_version") == [(schema.HEAD,)]


# --- newer, or not ours -----------------------------------------------------


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_newer_database_is_refused_untouched(path, mode):
    opened(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("UPDATE alembic_version SET version_num = '0099_later'")
        connection.commit()
    path.chmod(0o644)
    before = path.read_bytes(), path.stat()
    with pytest.raises(StoreTooNew, match=r"0099_later.*update openclaw"):
        opened(path)
    after = path.read_bytes(), path.stat()
    assert after[0] == before[0]
    assert after[1].st_mtime_ns == before[1].st_mtime_ns
    assert after[1].st_mode == before[1].st_mode


def test_a_database_of_another_program_is_refused(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE tasks (id INTEGER)")
    before = dump(path)
    with pytest.raises(StoreUnavailable, match="tasks already exists"):
        opened(path)
    assert dump(path) == before
