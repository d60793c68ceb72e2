"""No question gets slower because there is more of what it does not ask for."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from openclaw_taskmem.engine import run_history
from taskmem_hookspecs import (
    Checkpoint,
    EventQuery,
    LedgerEntry,
    Message,
    PlanRevision,
    RunQuery,
    RunState,
    TaskQuery,
    WaitQuery,
    WakeQuery,
    WakeState,
    WorkFolder,
)
from taskmem_hookspecs.testing import DAWN
from taskmem_sqlmodel import reading, tables
from taskmem_sqlmodel.hooks import task_store
from tests.support.world import World

YES_AND_NO = (False, True)
OPEN = {
    WakeQuery: (WakeState.DUE, WakeState.SENT),
    RunQuery: tuple(state for state in RunState if not state.terminal),
}
ENDED = {WakeQuery: (WakeState.DUE, WakeState.REFUSED), RunQuery: (*RunState,)}
ASK = {
    TaskQuery: reading.select_tasks,
    WaitQuery: reading.select_waits,
    WakeQuery: reading.select_wakes,
    RunQuery: reading.select_runs,
    EventQuery: reading.select_events,
}
AT_HOME = ({}, {"home": "home_1"})
ALL_ASKED = [
    *(
        TaskQuery(status=status, **home, implicit=False)
        for status in (None, "active")
        for home in AT_HOME
    ),
    TaskQuery(status="active", session_key="s", home="home_1", implicit=False),
    TaskQuery(implicit=True),
    TaskQuery(status="active", after="task_1"),
    WaitQuery(status="error", task_id="task_1"),
    WaitQuery(task_id="task_1"),
    WaitQuery(status="watching", task_id="task_1"),
    WaitQuery(),
    *(WaitQuery(status="watching", **home) for home in AT_HOME),
    *(WakeQuery(sent_since=DAWN, session_key="s", **home) for home in AT_HOME),
    WakeQuery(wake_ids=("wake_1",)),
    WakeQuery(states=OPEN[WakeQuery], wait_id="wait_1"),
    *(RunQuery(session_key="s", **home) for home in AT_HOME),
    RunQuery(states=ENDED[RunQuery], implicit=False),
    *(RunQuery(states=("queued",), oldest_first=True, role=role) for role in (None, "builder")),
    *(ask(states=ENDED[ask], task_id="task_1") for ask in ENDED),
    *(ask(task_id="task_1") for ask in OPEN),
    *(ask() for ask in OPEN),
    *(
        ask(states=OPEN[ask], task_id=task_id, **home)
        for ask in OPEN
        for task_id in (None, "task_1")
        for home in AT_HOME
    ),
    EventQuery(after=0),
    EventQuery(),
    EventQuery(task_id="task_1"),
    EventQuery(wait_id="wait_1"),
]
FEW = {
    repr(query)
    for query in ALL_ASKED
    if isinstance(query, WakeQuery | RunQuery) and query.session_key
}
RECORDS = (Message, PlanRevision, LedgerEntry, WorkFolder, Checkpoint)
QUESTIONS = (
    {
        name: statement
        for name, statement in vars(reading).items()
        if isinstance(statement, sa.Select) and not name.startswith(("_", "IMPLICIT_"))
    }
    | {repr(query): ASK[type(query)](query.model_copy(update={"limit": 9})) for query in ALL_ASKED}
    | {
        f"{kind.__name__} {given}": reading.select_records(kind, frozenset(given))
        for kind, given in (
            *((kind, ()) for kind in RECORDS),
            *((kind, ("limit",)) for kind in RECORDS),
            (Message, ("limit", "before")),
            (Message, ("said_after",)),
            (Checkpoint, ("limit", "before", "holding")),
        )
    }
)
DUES = {
    "tasks_stuck_due": TaskQuery(due_by=DAWN, limit=9),
    "wakes_due": WakeQuery(due_by=DAWN, limit=9),
    "runs_leased": RunQuery(lapsed_by=DAWN, limit=9),
}


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "taskmem.db"
    task_store(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection:
        yield connection


@pytest.mark.parametrize(
    ("ask", "index"), [(WakeQuery, "wakes_open_by_age"), (RunQuery, "runs_open_by_age")]
)
def test_what_is_open_is_found_whatever_has_ended(database, ask, index):
    query = ask(states=OPEN[ask], home="home_1", limit=9)
    assert any(index in step for step in plan_of(database, ASK[ask](query)))


def test_the_tasks_of_a_session_are_found_whatever_others_have(database):
    query = TaskQuery(status="active", session_key="s", home="home_1", implicit=False)
    [step] = plan_of(database, reading.select_tasks(query))
    assert "tasks_of_session" in step


@pytest.mark.parametrize("by_agent", YES_AND_NO)
@pytest.mark.parametrize(
    ("ask", "index", "columns"),
    [
        (
            reading.select_open_tasks,
            "tasks_open_of_maker",
            ("registrar_host", "registrar_session"),
        ),
        (reading.select_open_waits, "waits_open_of_maker", ("host", "session_key")),
    ],
)
def test_what_is_open_of_an_agent_is_counted_in_an_index(database, ask, index, columns, by_agent):
    steps = plan_of(database, ask(by_agent=by_agent))
    host, session = columns
    stretch = f" AND {session}>? AND {session}<?" if by_agent else ""
    table = index.partition("_")[0]
    found = f"SEARCH {table} USING COVERING INDEX {index} ({host}=?{stretch})"
    assert found in steps


def test_implicit_tasks_are_found_whatever_others_there_are(database):
    [step] = plan_of(database, reading.select_tasks(TaskQuery(implicit=True)))
    assert "INDEX tasks_implicit" in step


def test_implicit_tasks_are_counted_without_a_look_at_others(database):
    first, *_ = plan_of(database, reading.IMPLICIT_TASKS)
    assert "INDEX tasks_implicit" in first


def test_runs_of_implicit_tasks_are_counted_without_others(database):
    plan = plan_of(database, reading.UNCOUNTED_RUNS)
    assert not [step for step in plan if step.startswith("SCAN runs")]


@pytest.mark.parametrize(
    ("column", "some", "index"),
    [
        (reading.TASKS.c.status, "", "tasks_by_id"),
        (reading.WAITS.c.status, tables.RARER_WAIT, "waits_rarer"),
        (reading.WAKES.c.state, tables.RARER_WAKE, "wakes_rarer"),
        (reading.RUNS.c.state, tables.RARER_RUN, "runs_rarer"),
    ],
)
def test_rows_are_counted_by_state_in_order_of_an_index(database, column, some, index):
    [step] = plan_of(database, reading.select_counts(column, some))
    assert f"USING COVERING INDEX {index}" in step
    [step] = plan_of(database, reading.select_number(column.table))
    assert "USING COVERING INDEX" in step


@pytest.mark.parametrize("index", DUES)
def test_what_is_due_is_read_from_an_index_in_order(database, index):
    query = DUES[index]
    [step] = plan_of(database, ASK[type(query)](query))
    assert f"INDEX {index} " in step


@pytest.mark.parametrize("index", DUES)
def test_what_is_due_in_a_home_is_found_whatever_others_have(database, index):
    query = DUES[index].model_copy(update={"home": "home_1"})
    steps = plan_of(database, ASK[type(query)](query))
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
        few = name in FEW
        assert "TEMP B-TREE" not in step or few, step


def plan_of(database, statement):
    """Return the steps in which a question is answered."""
    asked = dict.fromkeys(statement.compile().params, 1) | {
        "states": ["due", "sent"],
        "wake_ids": ["wake_1"],
        "task_ids": ["task_1"],
        "message_ids": [1],
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
    store._database._idle.clear()
    store._database._close_writer()
    find = store.find_events
    {
        "update": lambda: world.narrate(mine),
        "of the task": lambda: find(EventQuery(task_id=mine, limit=50)),
        "of all": lambda: find(EventQuery(limit=50)),
        "page": lambda: find(EventQuery(after=newest - 60, limit=50)),
        "history": lambda: run_history.read_history_page(world.context, mine, None),
    }[ask]()
    store.close()
    return next(steps)
