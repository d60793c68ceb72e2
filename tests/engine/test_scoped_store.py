"""What a home sees and lets go of a store that it shares with others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from openclaw_taskmem.engine.context import ScopedStore
from taskmem_hookspecs import Change, EventQuery, RunQuery, TaskQuery, WaitQuery, WakeQuery
from taskmem_hookspecs.testing import DAWN, a_checkpoint, a_run, a_task, a_wait, a_wake, an_event
from tests.support.memory_store import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    """A store with a row of each kind that belongs to another home."""
    store = MemoryStore()
    row = {"task_id": "task_1", "home": "there"}
    wake = a_wake(wait_id="wait_1", **row)
    made = (a_wait(**row),), (wake,), (a_run(**row),), (a_checkpoint(),)
    waits, wakes, runs, checkpoints = made
    task = a_task(home="there")
    store.commit(
        Change(tasks=(task,), waits=waits, wakes=wakes, runs=runs, checkpoints=checkpoints)
    )
    return store


def test_what_is_of_another_home_is_not_found(store: MemoryStore) -> None:
    here = ScopedStore(store, "here")
    assert not here.find_tasks(TaskQuery())
    assert not here.find_waits(WaitQuery())
    assert not here.find_wakes(WakeQuery())
    assert not here.find_runs(RunQuery())


def test_what_is_named_is_found_wherever_it_belongs(store: MemoryStore) -> None:
    here = ScopedStore(store, "here")
    assert here.find_waits(WaitQuery(task_id="task_1"))
    for wakes in (
        WakeQuery(task_id="task_1"),
        WakeQuery(wait_id="wait_1"),
        WakeQuery(wake_ids=("wake_1",)),
    ):
        assert here.find_wakes(wakes)
    for runs in (RunQuery(task_id="task_1"), RunQuery(task_ids=("task_1",))):
        assert here.find_runs(runs)


def test_a_home_that_is_alone_finds_all_there_is(store: MemoryStore) -> None:
    here = ScopedStore(store, "here", sole=True)
    assert here.find_tasks(TaskQuery())
    assert here.serves("there")


@pytest.mark.parametrize(("home", "kept"), [("here", 1), ("there", 0)])
def test_a_home_lets_go_of_its_own_alone(store: MemoryStore, home: str, kept: int) -> None:
    scoped = ScopedStore(store, home)
    scoped.commit(Change(forget_before=DAWN + timedelta(days=1)))
    assert len(store._checkpoints) == kept


def test_what_is_new_belongs_to_its_home_and_who_registered_it() -> None:
    store = MemoryStore()
    made = {"task_id": "task_1", "home": None}
    change = Change(
        tasks=(a_task(home=None),),
        waits=(a_wait(**made),),
        wakes=(a_wake(**made),),
        runs=(a_run(**made),),
        events=(an_event(data={"home": None}), an_event(data={})),
    )
    ScopedStore(store, "here").commit(change)
    task = store.read_task("task_1").task
    owners = (task.registrar_home, task.home, store.read_wait("wait_1").home)
    (wake,), (run,) = store.find_wakes(WakeQuery()), store.find_runs(RunQuery())
    assert {*owners, wake.home, run.home} == {"here"}
    told = [dict(event.data) for event in store.find_events(EventQuery())]
    assert told == [{"home": "here"}, {}]


def test_what_has_a_home_or_is_not_new_keeps_whose_it_is() -> None:
    store = MemoryStore()
    given, old = a_wait(wait_id="wait_1", home="there"), a_wait(wait_id="wait_2")
    store.commit(Change(waits=(old,)))
    known = store.read_wait("wait_2")
    ScopedStore(store, "here").commit(Change(waits=(given, known)))
    assert store.read_wait("wait_1").home == "there"
    assert store.read_wait("wait_2").home is None
