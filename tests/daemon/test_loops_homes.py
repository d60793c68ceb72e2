"""The loops of a daemon that shares its database with that of another home."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from openclaw_taskmem.domain.callers import Caller
from taskmem_hookspecs import Owner, Run, RunQuery, Task, TaskQuery
from taskmem_hookspecs.roles import FOREVER
from taskmem_hookspecs.testing import FakeClock
from tests.daemon.looped import Gateway, run_loops
from tests.support.memory_store import MemoryStore
from tests.support.rows import find_next_lapse, find_next_stuck_due, find_next_wake_due
from tests.support.world import World

THRESHOLD = 300


class CountingStore(MemoryStore):
    """A store that counts how often it is asked what has come."""

    asked = 0

    def find_tasks(self, query: TaskQuery) -> Sequence[Task]:
        self.asked += query.due_by not in (None, FOREVER)
        return super().find_tasks(query)

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        self.asked += query.lapsed_by not in (None, FOREVER)
        return super().find_runs(query)


@pytest.fixture
def here() -> World:
    return World(CountingStore(), FakeClock(), home="here")


@pytest.fixture
def there(here: World) -> World:
    return World(here.store, here.clock, home="there")


async def test_what_is_due_elsewhere_wakes_nobody_here(here: World, there: World) -> None:
    there.register()
    owner = Owner(role="builder", process="1:1", home="there")
    worker = Caller(process="1:1", owner=owner)
    there.call("task_claim", worker, task_id="task_0001", role="builder")
    gateway = Gateway(here.clock)
    async with run_loops(here, gateway, longest=86_400) as loops:
        await here.clock.advance(THRESHOLD)
        assert isinstance(here.store, CountingStore)
        before = here.store.asked
        await here.clock.advance(100)

        assert here.store.asked - before <= 2
        assert await loops.is_idle()
    assert gateway.received == []
    assert find_next_stuck_due(here.store) is not None
    assert find_next_lapse(here.store) is not None


async def test_what_is_owed_elsewhere_keeps_nobody_here(here: World, there: World) -> None:
    there.register()
    here.clock.tick(THRESHOLD)
    there.sweep()
    assert find_next_wake_due(here.store) is not None
    gateway = Gateway(here.clock)
    async with run_loops(here, gateway) as loops:
        await here.clock.advance(THRESHOLD)

        assert await loops.is_idle()
    assert gateway.received == []


async def test_a_wait_that_is_watched_elsewhere_keeps_nobody_here(
    here: World, there: World
) -> None:
    there.open_wait(None, timeout=86_400)
    async with run_loops(here, Gateway(here.clock)) as loops:
        assert await loops.is_idle()
    async with run_loops(there, Gateway(here.clock)) as loops:
        assert not await loops.is_idle()


async def test_a_daemon_that_owes_something_here_is_not_idle(here: World, there: World) -> None:
    here.register()
    async with run_loops(here, Gateway(here.clock)) as loops:
        assert not await loops.is_idle()
    async with run_loops(there, Gateway(here.clock)) as loops:
        assert await loops.is_idle()


async def test_joining_home_keeps_its_tasks_from_the_running_daemon(
    here: World, there: World
) -> None:
    here.context.store.sole = True
    first, second = Gateway(here.clock), Gateway(here.clock)
    async with run_loops(here, first):
        there.context.store.join_database()
        there.register()
        async with run_loops(there, second):
            await here.clock.advance(THRESHOLD)

    assert first.received == []
    assert len(second.received) == 1
