"""No question gets slower because there is more of what it does not ask for."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from openclaw_taskmem.engine import history
from taskmem_sqlmodel import counting, statements, task_store
from tests.support.world import World

YES_AND_NO = (False, True)
OF_A_HOME = (statements.sent_since, statements.session_runs, statements.watching)
QUESTIONS = {
    name: statement
    for name, statement in vars(statements).items()
    if isinstance(statement, sa.Select) and not name.startswith("_")
} | {
    f"{ask.__name__}{flags}": ask(**flags)
    for ask, flags in (
        *(
            (statements.tasks, {"by_status": b, "by_home": home})
            for b in YES_AND_NO
            for home in YES_AND_NO
        ),
        (statements.tasks, {"by_status": True, "by_session": True, "by_home": True}),
        (statements.tasks, {"by_status": False, "implicit": True}),
        *((statements.thread, {"limited": b}) for b in YES_AND_NO),
        (statements.thread, {"limited": False, "said": True}),
        *((statements.last_events, {"by_task": b}) for b in YES_AND_NO),
        (statements.waits, {"by_status": True, "by_task": True}),
        (statements.waits, {"by_status": False, "by_task": True}),
        (statements.waits, {"by_status": False, "by_task": False}),
        (statements.wakes, {"by_states": True, "by_task": True}),
        (statements.wakes, {"by_states": False, "by_task": True}),
        (statements.wakes, {"by_states": False, "by_task": False}),
        *(
            (ask, {"by_states": True, "is_open": True, "by_task": b, "by_home": home})
            for ask in (statements.wakes, statements.runs)
            for b in YES_AND_NO
            for home in YES_AND_NO
        ),
        (statements.runs, {"by_states": True, "by_task": True}),
        (statements.runs, {"by_states": False, "by_task": True}),
        (statements.runs, {"by_states": False, "by_task": False}),
        (statements.runs, {"by_states": True, "by_task": False, "implicit": False}),
        *((statements.queued_runs, {"by_role": b}) for b in YES_AND_NO),
        *((ask, {"by_home": b}) for ask in OF_A_HOME for b in YES_AND_NO),
    )
}
DUES = {
    "tasks_stuck_due": statements.STUCK,
    "wakes_due": statements.OWED,
    "runs_leased": statements.LEASED,
}
WHAT_IS_DUE = pytest.mark.parametrize("ask", [statements.due, statements.next_due])


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "taskmem.db"
    task_store(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection:
        yield connection


@pytest.mark.parametrize(
    ("ask", "index"),
    [(statements.wakes, "wakes_open_by_age"), (statements.runs, "runs_open_by_age")],
)
def test_what_is_open_is_found_whatever_has_ended(database, ask, index):
    flags = {"by_states": True, "is_open": True, "by_task": False, "by_home": True}
    assert any(index in step for step in plan_of(database, ask(**flags)))


def test_the_tasks_of_a_session_are_found_whatever_others_have(database):
    flags = {"by_status": True, "by_session": True, "by_home": True}
    [step] = plan_of(database, statements.tasks(**flags))
    assert "tasks_of_session" in step


@pytest.mark.parametrize("by_agent", YES_AND_NO)
@pytest.mark.parametrize(
    ("ask", "index", "columns"),
    [
        (
            counting.open_tasks,
            "tasks_open_of_maker",
            ("registrar_host", "registrar_session"),
        ),
        (counting.open_waits, "waits_open_of_maker", ("host", "session_key")),
    ],
)
def test_what_is_open_of_an_agent_is_counted_in_an_index(
    database, ask, index, columns, by_agent
):
    steps = plan_of(database, ask(by_agent=by_agent))
    host, session = columns
    stretch = f" AND {session}>? AND {session}<?" if by_agent else ""
    table = index.partition("_")[0]
    found = f"SEARCH {table} USING COVERING INDEX {index} ({host}=?{stretch})"
    assert found in steps


def test_implicit_tasks_are_found_whatever_others_there_are(database):
    flags = {"by_status": False, "implicit": True}
    [step] = plan_of(database, statements.tasks(**flags))
    assert "INDEX tasks_implicit" in step


@WHAT_IS_DUE
@pytest.mark.parametrize("index", DUES)
def test_what_is_due_is_read_from_an_index_in_order(database, ask, index):
    [step] = plan_of(database, ask(DUES[index], by_home=False))
    assert f"INDEX {index} " in step


@WHAT_IS_DUE
@pytest.mark.parametrize("index", DUES)
def test_what_is_due_in_a_home_is_found_whatever_others_have(database, ask, index):
    steps = plan_of(database, ask(DUES[index], by_home=True))
    reads = [step.split()[0] for step in steps if "CO-ROUTINE" not in step]
    # Each of the two is cut to the limit as it is read, and only then are they merged.
    stretch = ["SEARCH", "SCAN", "USE"]
    assert reads == ["MERGE", "LEFT", *stretch, "RIGHT", *stretch]
    searches = [step for step in steps if step.startswith("SEARCH")]
    assert all(f"INDEX {index}_at_home (home=? AND" in step for step in searches)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_reads_an_index_in_order(database, name):
    steps = plan_of(database, QUESTIONS[name])
    assert steps
    for step in steps:
        assert not step.startswith("SCAN") or "INDEX" in step or "events" in step, step
        # What went out to a session in a minute is small, and so are its open runs.
        few = name.startswith(("sent_since", "session_runs"))
        assert "TEMP B-TREE" not in step or few, step


def plan_of(database, statement):
    """Return the steps in which a question is answered."""
    asked = dict.fromkeys(statement.compile().params, 1) | {
        "states": ["due", "sent"],
        "wake_ids": ["wake_1"],
        "task_ids": ["task_1"],
        "hosts": ["mcp", "shell"],
    }
    sql = str(
        statement.params(asked).compile(
            dialect=sqlite.dialect(), compile_kwargs={"render_postcompile": True}
        )
    )
    plan = database.execute(f"EXPLAIN QUERY PLAN {sql}", [None] * sql.count("?"))
    return [step for *_, step in plan]


@pytest.mark.parametrize("ask", ["update", "of the task", "of all", "page", "history"])
def test_what_others_logged_makes_no_call_read_more(tmp_path, ask):
    read = [_count_steps(tmp_path / f"{many}.db", ask, many) for many in (200, 30_000)]
    # A step or two are for how full the pages are.
    assert read[1] <= read[0] + 10


def _count_steps(path, ask, many):
    """Count the steps of SQLite's machine for a question, beside others' events."""
    store = task_store(f"sqlite:///{path}")
    world = World(store)
    mine, other = world.register(), world.register()
    world.narrate(mine)
    with closing(sqlite3.connect(path)) as connection, connection:
        named = [row[1] for row in connection.execute("PRAGMA table_info(events)")]
        copied = ", ".join(name for name in named if name != "id")
        connection.execute(
            "WITH RECURSIVE many(n) AS (SELECT 1 UNION SELECT n + 1 FROM many LIMIT ?) "  # noqa: S608 - our own names
            f"INSERT INTO events ({copied}) SELECT {copied} FROM events, many "
            "WHERE events.id = (SELECT max(id) FROM events WHERE task_id = ?)",
            (many, other),
        )
        (newest,) = connection.execute("SELECT max(id) FROM events").fetchone()
    steps = itertools.count()

    def count(driver, _):
        driver.set_progress_handler(lambda: next(steps) < 0, 1)

    sa.event.listen(store._database.engine, "connect", count)
    # The connections that there are already count nothing.
    store._idle.clear()
    store._commits.close()
    {
        "update": lambda: world.narrate(mine),
        "of the task": lambda: store.last_events(mine, 50),
        "of all": lambda: store.last_events(None, 50),
        "page": lambda: store.list_events(newest - 60, 50),
        "history": lambda: history.read_page(world.shell, mine, None),
    }[ask]()
    store.close()
    return next(steps)
