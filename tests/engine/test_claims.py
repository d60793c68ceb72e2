"""Who holds a run, and for how long."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import pytest

from openclaw_taskmem.domain.callers import Caller
from taskmem_hookspecs import Change, Owner, Run
from taskmem_hookspecs.errors import EvidenceMissing, StoreBusy, TaskmemError
from taskmem_hookspecs.testing import MemoryStore
from tests.support.world import PERSON, World

LEASE: Final = 300
WORKER: Final = Caller(process="7:9", owner=Owner(role="agent", process="7:9"))
OTHER: Final = Caller(process="8:9", owner=Owner(role="agent", process="8:9"))


class Written(MemoryStore):
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
    return World(Written())


def written(world: World) -> Written:
    assert isinstance(world.store, Written)
    return world.store


def lease(world: World, task: str) -> datetime | None:
    return world.store.list_runs(None, task, 1)[0].lease_until


def claimed(world: World, **plan: Any) -> str:
    """Return a task that a worker has just claimed, a tenth of its lease ago."""
    task = world.register(**plan)
    world.call("task_claim", WORKER, task_id=task)
    world.clock.tick(LEASE / 10)
    written(world).runs.clear()
    written(world).commits = 0
    return task


# --- the lease ------------------------------------------------------------------

QUESTIONS: Final = [
    ("task_status", {}),
    ("task_update", {"query": "Where am I?"}),
]
WRITES: Final = [
    ("task_update", {"message": "Still at it."}),
    ("task_plan_update", {"new_plan": ["Go"], "reason": "Shorter."}),
    ("task_step_done", {"outcome": "done"}),
    ("task_step_done", {"outcome": "failed"}),
    ("task_step_done", {"outcome": "failed", "remaining": ["Go"]}),
    ("task_step_done", {"outcome": "more_tools"}),
]


@pytest.mark.parametrize(("tool", "given"), QUESTIONS + WRITES)
def test_each_call_of_who_holds_a_run_renews_its_lease_in_one_commit(
    world: World, tool: str, given: dict[str, Any]
) -> None:
    task = claimed(world)
    before = lease(world, task)
    assert before is not None

    world.call(tool, WORKER, task_id=task, **given)

    assert [run.lease_until for run in written(world).runs] == [lease(world, task)]
    after = lease(world, task)
    assert after is not None
    assert (after - before).total_seconds() == LEASE / 10
    assert written(world).commits == 1


@pytest.mark.parametrize(("tool", "given"), WRITES)
def test_the_token_of_a_claim_shows_its_holder_as_well(
    world: World, tool: str, given: dict[str, Any]
) -> None:
    task = claimed(world)
    before = lease(world, task)

    world.call(tool, Caller(), task_id=task, token=1, **given)

    after = lease(world, task)
    assert before is not None
    assert after is not None
    assert after > before
    assert written(world).commits == 1


def test_a_question_soon_after_another_writes_nothing(world: World) -> None:
    task = claimed(world)
    world.call("task_status", WORKER, task_id=task)
    world.clock.tick(LEASE / 10 - 1)

    world.call("task_status", WORKER, task_id=task)

    assert written(world).commits == 1


@pytest.mark.parametrize("caller", [OTHER, PERSON, Caller()])
def test_a_question_of_anybody_else_renews_nothing(
    world: World, caller: Caller
) -> None:
    task = claimed(world)

    world.call("task_status", caller, task_id=task)

    assert written(world).commits == 0


def test_a_call_on_a_wait_renews_the_lease_of_its_task(world: World) -> None:
    task = claimed(world)
    wait = world.open_wait(task)
    before = lease(world, task)

    world.call("wait_cancel", WORKER, wait_id=wait.wait_id)

    after = lease(world, task)
    assert before is not None
    assert after is not None
    assert after > before


def test_a_call_that_is_refused_renews_the_lease(world: World) -> None:
    task = claimed(world, plan=["Write out/report.md"])
    before = lease(world, task)

    with pytest.raises(EvidenceMissing):
        world.call("task_update", WORKER, task_id=task, status="completed")
    with pytest.raises(TaskmemError, match="no wait"):
        world.call("wait_cancel", WORKER, wait_id="wait_none")

    after = lease(world, task)
    assert before is not None
    assert after is not None
    assert after > before


def test_a_question_is_answered_though_the_lease_cannot_be_renewed(
    world: World,
) -> None:
    task = claimed(world)
    written(world).busy = True

    assert world.call("task_status", WORKER, task_id=task)["task_id"] == task
