"""Who holds a run, and for how long."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime
from typing import Any, Final

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.errors import EvidenceMissing, Fenced, RunHeld
from openclaw_taskmem.tools import catalog
from taskmem_hookspecs import Change, Owner, Run, RunQuery, WakeState
from taskmem_hookspecs.errors import (
    Conflict,
    InvalidArguments,
    NotAllowed,
    RunNotFound,
    StoreBusy,
    TaskmemError,
    TaskNotFound,
)
from tests.support.memory_store import MemoryStore
from tests.support.sessions import Session
from tests.support.world import PERSON, WORKER, World

LEASE: Final = 300
OTHER: Final = Caller(process="8:9", owner=Owner(role="agent", process="8:9"))


class CommitCountingStore(MemoryStore):
    """Counts what is committed of runs, and may refuse it."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[Run] = []
        self.commits = 0
        self.busy = False

    def commit(self, change: Change) -> None:
        if self.busy and not change.tasks:
            raise StoreBusy("The database is locked.")
        super().commit(change)
        self.commits += 1
        self.runs += change.runs


@pytest.fixture
def world() -> World:
    return World(CommitCountingStore())


def counting_store(world: World) -> CommitCountingStore:
    assert isinstance(world.store, CommitCountingStore)
    return world.store


def lease(world: World, task: str) -> datetime | None:
    return world.store.find_runs(RunQuery(task_id=task, limit=1))[0].lease_until


def claim_task(world: World, **plan: Any) -> str:
    """Return a task that a worker has just claimed, a tenth of its lease ago."""
    task = world.register(**plan)
    world.call("task_claim", WORKER, task_id=task)
    world.clock.tick(LEASE / 10)
    counting_store(world).runs.clear()
    counting_store(world).commits = 0
    return task


# --- the lease ------------------------------------------------------------------

QUESTIONS: Final = [("task_status", {}), ("task_update", {"query": "Where am I?"})]
WRITES: Final = [
    ("task_update", {"message": "Still at it."}),
    ("task_plan_update", {"new_plan": ["Go"], "reason": "Shorter."}),
    ("task_step_done", {"outcome": "done"}),
    ("task_step_done", {"outcome": "failed"}),
    ("task_step_done", {"outcome": "failed", "remaining": ["Go"]}),
]


@pytest.mark.parametrize(("tool", "given"), QUESTIONS + WRITES)
def test_each_call_of_the_holder_renews_its_lease_in_one_commit(
    world: World, tool: str, given: dict[str, Any]
) -> None:
    task = claim_task(world)
    before = lease(world, task)
    assert before is not None

    world.call(tool, WORKER, task_id=task, **given)

    assert [run.lease_until for run in counting_store(world).runs] == [lease(world, task)]
    after = lease(world, task)
    assert after is not None
    assert (after - before).total_seconds() == LEASE / 10
    assert counting_store(world).commits == 1


@pytest.mark.parametrize(("tool", "given"), WRITES)
def test_the_token_of_a_claim_shows_its_holder_as_well(
    world: World, tool: str, given: dict[str, Any]
) -> None:
    task = claim_task(world)
    before = lease(world, task)

    world.call(tool, Caller(), task_id=task, token=1, **given)

    after = lease(world, task)
    assert before is not None
    assert after is not None
    assert after > before
    assert counting_store(world).commits == 1


def test_a_question_soon_after_another_writes_nothing(world: World) -> None:
    task = claim_task(world)
    world.call("task_status", WORKER, task_id=task)
    world.clock.tick(LEASE / 10 - 1)

    world.call("task_status", WORKER, task_id=task)

    assert counting_store(world).commits == 1


@pytest.mark.parametrize("caller", [OTHER, PERSON, Caller()])
def test_a_question_of_anybody_else_renews_nothing(world: World, caller: Caller) -> None:
    task = claim_task(world)
    refused = pytest.raises(NotAllowed) if caller is OTHER else nullcontext()

    with refused:
        world.call("task_status", caller, task_id=task)

    assert counting_store(world).commits == 0


def test_update_of_a_task_without_a_run_renews_no_lease(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[object] = []
    monkeypatch.setattr(catalog, "renew_lease", lambda *given: looked.append(given))
    task = world.register()

    world.call("task_update", WORKER, task_id=task, message="On it.")
    assert looked == []

    world.call("task_update", WORKER, task_id=task, query="Where am I?")
    with pytest.raises(TaskmemError):
        world.call("task_update", WORKER, task_id=task, completed_steps=[99])
    assert len(looked) == 2


def test_a_call_on_a_wait_renews_the_lease_of_its_task(world: World) -> None:
    task = claim_task(world)
    wait = world.open_wait(task)
    before = lease(world, task)

    world.call("wait_cancel", WORKER, wait_id=wait.wait_id)

    after = lease(world, task)
    assert before is not None
    assert after is not None
    assert after > before


def test_a_call_that_is_refused_renews_the_lease(world: World) -> None:
    task = claim_task(world, plan=["Write out/report.md"])
    before = lease(world, task)

    with pytest.raises(EvidenceMissing):
        world.call("task_update", WORKER, task_id=task, status="completed")
    with pytest.raises(TaskmemError, match="no wait"):
        world.call("wait_cancel", WORKER, wait_id="wait_none")

    after = lease(world, task)
    assert before is not None
    assert after is not None
    assert after > before


def test_status_is_answered_when_the_lease_cannot_be_renewed(world: World) -> None:
    task = claim_task(world)
    counting_store(world).busy = True

    assert world.call("task_status", WORKER, task_id=task)["task_id"] == task


@pytest.mark.parametrize("tool", ["task_status", "task_resume"])
@pytest.mark.parametrize("caller", [WORKER, PERSON])
def test_call_without_task_or_session_is_told_to_give_a_task_id(
    world: World, tool: str, caller: Caller
) -> None:
    said = "No session_key was given, so give a task_id; task_list shows the tasks."

    with pytest.raises(TaskNotFound, match=said):
        world.call(tool, caller)


# --- the queue ------------------------------------------------------------------


def test_run_that_goes_on_in_its_session_is_not_in_the_queue() -> None:
    session = Session(World())
    away = session.takes_up()
    session.call("task_background", task_id=away)
    interrupted = session.register(name="Interrupted")
    session.world.call("task_reset", PERSON, task_id=interrupted)

    for _ in range(2):
        with pytest.raises(RunNotFound, match="Nothing is queued for main"):
            session.world.call("task_claim", WORKER, role="main")
        # Nor is it once the session was told.
        session.world.deliver()

    # Who names it takes it.
    claim = session.world.call("task_claim", WORKER, task_id=interrupted, role="main")
    assert claim["run"]["state"] == "running"


def test_background_run_is_not_claimable_though_its_wake_is_lost() -> None:
    session = Session(World())
    session.begins()
    session.call("task_background", task_id=session.register())
    [told] = session.world.wakes()
    lost = told.model_copy(update={"state": WakeState.UNANSWERED, "due_at": None})
    session.world.store.commit(Change(wakes=(lost,)))

    with pytest.raises(RunNotFound, match="Nothing is queued for main"):
        session.world.call("task_claim", WORKER, role="main")


def test_a_worker_gets_what_is_behind_many_that_are_not_for_it() -> None:
    session = Session(World())
    session.begins()
    for number in range(20):
        session.world.clock.tick(1)
        task = session.register(name=f"Interrupted {number}")
        session.world.call("task_reset", PERSON, task_id=task)
    session.world.clock.tick(1)
    free = session.register(name="Free")
    session.call("task_handoff", task_id=free, to="main")

    claim = session.world.call("task_claim", WORKER, role="main")

    assert claim["task_id"] == free


def test_an_agent_of_a_gateway_claims_as_what_that_says(world: World) -> None:
    main = Session(world)
    for name in ("For a builder", "For a main one"):
        task = main.register(name=name)
        role = "main" if name.endswith("main one") else "builder"
        main.call("task_handoff", task_id=task, to=role)
        world.clock.tick(1)
    said = (
        "Your gateway says that you are main, so you cannot claim as builder; leave "
        "out role, or leave it to an agent of that role. Nothing was claimed."
    )

    for given in ({}, {"task_id": task}):
        with pytest.raises(InvalidArguments, match=said):
            main.call("task_claim", role="builder", **given)

    assert main.call("task_claim")["task_id"] == task
    with pytest.raises(RunNotFound, match="Nothing is queued for main; "):
        main.call("task_claim", role="main")


class RowCountingStore(MemoryStore):
    """Counts the rows that are read of the queue."""

    rows = 0

    def find_runs(self, query: RunQuery) -> Any:
        found = super().find_runs(query)
        self.rows += len(found) if query.oldest_first else 0
        return found


@pytest.mark.parametrize("crowd", [20, 80])
def test_the_queue_is_read_in_proportion_to_what_is_in_the_way(crowd: int) -> None:
    store = RowCountingStore()
    world = World(store)
    session = Session(world)
    session.begins()
    for number in range(crowd):
        task = session.register(name=f"Interrupted {number}")
        world.call("task_reset", PERSON, task_id=task)

    with pytest.raises(RunNotFound):
        world.call("task_claim", WORKER, role="main")

    assert store.rows < 3 * crowd


class ContestedStore(CommitCountingStore):
    """Lets somebody else be first, always, with the run of one task."""

    task: str | None = None

    def commit(self, change: Change) -> None:
        if any(run.task_id == self.task for run in change.runs):
            raise Conflict("Somebody else wrote it first.")
        super().commit(change)


def queue(world: World) -> list[str]:
    """Return two tasks that are queued for builders."""
    tasks = [world.register(name) for name in ("First", "Second")]
    for task in tasks:
        world.call("task_claim", WORKER, task_id=task, role="builder")
        world.call("task_handoff", WORKER, task_id=task, to="builder")
    return tasks


def test_a_run_that_others_always_write_first_leaves_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("random.choice", lambda found: found[0])
    store = ContestedStore()
    world = World(store)
    store.task, second = queue(world)

    claim = world.call("task_claim", WORKER, role="builder")

    assert claim["task_id"] == second


class Behind(MemoryStore):
    """Shows as queued what was queued a moment ago."""

    ends: Any = None

    def find_runs(self, query: RunQuery) -> Any:
        found = super().find_runs(query)
        if not query.oldest_first:
            return found
        ends, self.ends = self.ends, None
        if ends is not None:
            ends()
        return found


def test_a_task_that_has_ended_meanwhile_leaves_the_next() -> None:
    store = Behind()
    world = World(store)
    tasks = queue(world)

    def ends() -> None:
        for task in tasks:
            world.call("task_update", PERSON, task_id=task, status="failed")

    store.ends = ends

    with pytest.raises(RunNotFound, match="Nothing is queued for builder"):
        world.call("task_claim", WORKER, role="builder")


# --- the tokens -----------------------------------------------------------------


def test_the_tokens_of_a_task_grow_though_the_clock_goes_back(world: World) -> None:
    task = world.register()

    def claim_and_fail() -> int:
        token = world.call("task_claim", WORKER, task_id=task)["token"]
        for status in ("failed", "active"):
            world.call("task_update", WORKER, task_id=task, status=status)
        return int(token)

    tokens = [claim_and_fail()]
    world.clock.jump(-3600)
    tokens += [claim_and_fail(), claim_and_fail()]
    assert tokens == sorted(set(tokens))

    world.call("task_claim", OTHER, task_id=task)
    with pytest.raises(Fenced):
        world.call("task_update", Caller(), task_id=task, token=tokens[1], completed_steps=[1])
    world.call("task_update", OTHER, task_id=task, status="failed")
    status = world.call("task_status", OTHER, task_id=task)
    assert status["run"]["token"] == tokens[-1] + 1


def test_who_asks_for_a_task_that_was_reset_goes_on_with_it(world: World) -> None:
    task = world.register()
    world.call("task_claim", WORKER, task_id=task)
    world.call("task_reset", WORKER, task_id=task)
    world.call("task_update", WORKER, task_id=task, ask="Blue or green?")
    with pytest.raises(RunHeld):
        world.call("task_resume", OTHER, task_id=task, answer="Red")
    answer = world.call("task_resume", WORKER, task_id=task, answer="Blue")
    assert answer["message"].startswith("It is yours again")


def test_claim_after_an_attached_review_gets_a_higher_token(world: World) -> None:
    backlog = world.register("Backlog")
    old = world.call("task_claim", WORKER, task_id=backlog)["token"]
    for status in ("failed", "active"):
        world.call("task_update", WORKER, task_id=backlog, status=status)
    task = world.register()
    world.call("task_claim", WORKER, task_id=task, attach=[backlog])

    world.call("task_handoff", WORKER, task_id=task)

    world.call("task_resume", PERSON, task_id=backlog)
    assert world.call("task_claim", OTHER, task_id=backlog)["token"] > old
