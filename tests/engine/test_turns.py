"""What a gateway's hooks show of turns, heard in any order."""

from __future__ import annotations

import json
from datetime import timedelta
from secrets import token_hex
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import KEY_BYTES, Caller, find_key_fault
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.engine import turns
from taskmem_hookspecs import Change, Owner, RunQuery, RunState, TaskQuery
from tests.support.memory_store import MemoryStore
from tests.support.sessions import Session
from tests.support.world import World


class Between(MemoryStore):
    """Lets something happen just after the runs of a session were read."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Any = None

    def find_runs(self, query: RunQuery) -> Any:
        found = super().find_runs(query)
        if query.session_key is None:
            return found
        then, self.then = self.then, None
        if then is not None:
            then()
        return found


def test_heartbeat_does_not_take_back_a_run_moved_to_background() -> None:
    store = Between()
    session = Session(World(store))
    task = session.takes_up()
    store.then = lambda: session.call("task_background", task_id=task)

    turns.claim_or_renew_run(session.world.context, session.reported_session)

    away = session.run(task)
    assert (away.state, away.owner) == (RunState.QUEUED, None)
    assert away.session_key == f"agent:main:taskmem:{away.run_id}"


def test_turn_end_leaves_a_run_moved_to_background_alone() -> None:
    store = Between()
    session = Session(World(store))
    task = session.takes_up()
    store.then = lambda: session.call("task_background", task_id=task)

    session.ends("Running in the background.")

    away = session.run(task)
    assert (away.state, away.limits.rounds) == (RunState.QUEUED, 1)


def test_a_heartbeat_meanwhile_hides_no_task_that_covers_a_turn() -> None:
    store = Between()
    session = Session(World(store), request="Please bake three loaves.")
    session.begins()
    for number in range(3):
        session.does(f"bake loaf {number}")
    (covering,) = store.find_tasks(TaskQuery(implicit=True))
    run = session.run(covering.task_id)
    assert run.lease_until is not None
    later = run.lease_until + timedelta(seconds=1)
    heard = run.model_copy(update={"lease_until": later})
    store.then = lambda: store.commit(Change(runs=(heard,)))

    assert session.register() == covering.task_id


def test_the_longest_key_of_a_session_is_kept_by_every_database(real_world: World) -> None:
    key = "agent:main:"
    # Nothing that compresses: an index may take more of what does.
    key += token_hex(KEY_BYTES)[: KEY_BYTES - len(key)]
    session = Session(real_world, key)
    task = session.takes_up()

    assert session.run(task).session_key == real_world.task(task).session_key == key
    assert session.call("task_status")["task_id"] == task
    assert find_key_fault(key) is None
    assert find_key_fault(f"{key}x") == (
        "has 1,025 bytes, and at most 1,024 are kept; give a shorter one"
    )


class OutrunStore(MemoryStore):
    """Lets something be written just before a commit."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Any = None

    def commit(self, change: Change) -> None:
        first, self.first = self.first, None
        if first is not None:
            first()
        super().commit(change)


@pytest.mark.parametrize("outcome", ["more_tools", "failed", "done"])
def test_step_outcome_counts_despite_a_concurrent_write(outcome: str) -> None:
    store = OutrunStore()
    session = Session(World(store))
    task = session.takes_up(segmented=True)
    # Another daemon writes: its turns are not ours.
    store.first = lambda: store.commit(Change(runs=(session.run(task),)))

    session.call("task_step_done", task_id=task, outcome=outcome, note="So it is.")

    run = session.run(task)
    assert run.budget.step_bonus == (outcome == "more_tools")
    assert run.budget.failed_steps == ((0,) if outcome == "failed" else ())
    assert store.read_task(task).task.done == ({0} if outcome == "done" else set())


class Behind(MemoryStore):
    """Shows as queued what was queued a moment ago."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Any = None

    def find_runs(self, query: RunQuery) -> Any:
        found = super().find_runs(query)
        if not query.oldest_first:
            return found
        then, self.then = self.then, None
        if then is not None:
            then()
        return found


def test_two_calls_of_one_process_never_claim_the_same_run() -> None:
    store = Behind()
    world = World(store)
    owner = Owner(role="agent", process="7:9")
    worker = Caller(process="7:9", owner=owner)
    for name in ("First", "Second"):
        task = world.register(name)
        world.call("task_claim", worker, task_id=task, role="builder")
        world.call("task_handoff", worker, task_id=task, to="builder", note="Next.")
    got: list[Any] = []

    def claims() -> None:
        got.append(world.call("task_claim", worker, role="builder"))

    store.then = claims
    claims()

    first, second = (claim["task_id"] for claim in got)
    assert first != second
    for claim in got:
        held = store.read_task(claim["task_id"]).run
        assert held is not None
        assert held.token == claim["token"]


@pytest.mark.parametrize(("circle", "turn"), [(1, 1), (33, 1), (200, 20)])
def test_calls_in_a_circle_are_no_news_however_long_it_is(circle: int, turn: int) -> None:
    session = Session(World())
    task = session.takes_up()
    idle: list[int] = []
    for first in range(0, circle + 4 * turn, turn):
        for number in range(first, first + turn):
            session.does(f"look {number % circle}", f"as before {number % circle}")
        session.ends("Still at it.")
        idle.append(session.run(task).limits.idle_rounds)
        session.begins(Origin.TASKMEM)

    assert idle == [0] * (circle // turn) + [1, 2, 3, 4]
    assert session.run(task).why == "stalled_loop"


def test_what_is_kept_of_calls_is_small() -> None:
    session = Session(World())
    task = session.takes_up()
    for number in range(210):
        session.does(f"look {number}", "x" * 300)

    assert len(json.dumps(session.run(task).progress.recent)) < 2_500
