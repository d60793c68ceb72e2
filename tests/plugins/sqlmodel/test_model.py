"""Whatever is written, the store holds what the one in memory holds."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskmem_hookspecs import (
    Change,
    Conflict,
    RunQuery,
    RunState,
    TaskNotFound,
    TaskQuery,
    WakeQuery,
)
from taskmem_hookspecs.testing import DAWN
from taskmem_sqlmodel.hooks import task_store
from tests.support import row_strategies as strategies
from tests.support.memory_store import MemoryStore
from tests.support.rows import (
    find_next_lapse,
    find_next_stuck_due,
    find_next_wake_due,
    read_all_rows,
)

TASKS = ("task_1", "task_2")
KEYS = {"wake_1": "one", "wake_2": "two", "wake_3": "one"}
moments = st.integers(-3, 3).map(lambda seconds: DAWN + timedelta(seconds=seconds))
versions = st.integers(0, 2)


@st.composite
def rows(draw, of, ids, **fields):
    """Draw one of a few rows, with a version and instants that often meet."""
    row = draw(st.sampled_from(ids).flatmap(of))
    drawn_fields = {name: draw(field) for name, field in fields.items()}
    return row.model_copy(update={"version": draw(versions), **drawn_fields})


tasks = rows(strategies.tasks, TASKS, updated_at=moments, stuck_due_at=st.none() | moments)
waits = rows(
    lambda wait_id: strategies.waits(wait_id, "task_1"), ("wait_1", "wait_2"), created_at=moments
)
wakes = rows(
    lambda wake_id: strategies.wakes(wake_id, "task_2", None),
    tuple(KEYS),
    created_at=moments,
    due_at=st.none() | moments,
    sent_at=st.none() | moments,
    session_key=st.sampled_from([None, "main"]),
    delivery_id=st.sampled_from(["first", "second"]),
).map(lambda wake: wake.model_copy(update={"key": KEYS[wake.wake_id]}))

runs = rows(
    lambda run_id: strategies.runs(run_id, "task_1"),
    ("run_1", "run_2"),
    created_at=moments,
    lease_until=st.none() | moments,
    session_key=st.sampled_from([None, "main"]),
    role=st.sampled_from([None, "builder"]),
)
artifacts = rows(
    lambda artifact_id: strategies.artifacts(artifact_id, "task_2"), ("made_1", "made_2")
)
checkpoints = (
    st.tuples(st.sampled_from(("run_1", "run_2")), st.integers(1, 3))
    .flatmap(lambda key: strategies.checkpoints(*key))
    .flatmap(lambda one: moments.map(lambda at: one.model_copy(update={"at": at})))
)

events = st.builds(
    lambda event, **fields: event.model_copy(update=fields),
    strategies.events(),
    at=moments,
    kind=st.sampled_from(("a", "b")),
    task_id=st.sampled_from((None, "task_9", *TASKS)),
    wait_id=st.sampled_from((None, "wait_1")),
)

changes = st.builds(
    Change,
    tasks=st.lists(tasks, max_size=2).map(tuple),
    messages=st.lists(st.sampled_from(TASKS).flatmap(strategies.messages), max_size=2).map(tuple),
    waits=st.lists(waits, max_size=1).map(tuple),
    wakes=st.lists(wakes, max_size=2).map(tuple),
    runs=st.lists(runs, max_size=2).map(tuple),
    checkpoints=st.lists(checkpoints, max_size=2).map(tuple),
    artifacts=st.lists(artifacts, max_size=1).map(tuple),
    events=st.lists(events, max_size=2).map(tuple),
    forget_before=st.none() | moments,
    forget_home=st.sampled_from([None, "home_1"]),
)


def try_commit(store, change):
    try:
        store.commit(change)
    except (Conflict, TaskNotFound):
        return False
    return True


def answers_of_home(store, home, now):
    sent = WakeQuery(session_key="main", sent_since=DAWN, home=home)
    return {
        "stuck": list(store.find_tasks(TaskQuery(due_by=now, home=home))),
        "stuck next": find_next_stuck_due(store, home),
        "due": list(store.find_wakes(WakeQuery(due_by=now, home=home))),
        "due next": find_next_wake_due(store, home),
        "sent": list(store.find_wakes(sent)),
        "lapsed": list(store.find_runs(RunQuery(lapsed_by=now, home=home))),
        "lapses next": find_next_lapse(store, home),
        "session": list(store.find_runs(RunQuery(session_key="main", home=home))),
    }


def answers(store):
    """Return what a store says when it is asked everything that can be asked."""
    now = DAWN + timedelta(seconds=1)
    queued = RunQuery(states=(RunState.QUEUED,), oldest_first=True, limit=9)
    roles = (queued.model_copy(update={"role": r}) for r in (None, "builder", "x"))
    sent = (WakeQuery(session_key=k, sent_since=DAWN) for k in (None, "main"))
    tasks = TaskQuery(limit=9, implicit=False)
    return {
        **read_all_rows(store),
        "counts": store.count(),
        "active": list(store.find_tasks(TaskQuery(status="active", after=""))),
        "paused": list(store.find_tasks(TaskQuery(status="paused"))),
        "sent": [list(store.find_wakes(query)) for query in sent],
        "queued": [list(store.find_runs(query)) for query in roles],
        "homes": [answers_of_home(store, home, now) for home in (None, "home_1", "home_3")],
        "facts": [store.read_task(t.task_id) for t in store.find_tasks(tasks)],
    }


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(changes, max_size=8))
def test_it_answers_as_the_store_in_memory_does(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("model") / "taskmem.db"
    store, model = task_store(f"sqlite:///{path}"), MemoryStore()
    for change in written:
        assert try_commit(store, change) == try_commit(model, change)
        assert answers(store) == answers(model)
        before, home = change.forget_before or DAWN, change.forget_home
        given = (before, 1, home, 5)
        assert store.drop_ended(*given) == model.drop_ended(*given)
        assert answers(store) == answers(model)
    store.close()
