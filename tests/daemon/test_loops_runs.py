"""The loop that minds leases, beside the one that sends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from openclaw_taskmem.daemon.background_loops import SWEEP_SECONDS
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.policies import StuckPolicy
from openclaw_taskmem.engine import run_recovery
from taskmem_hookspecs import Run, RunQuery, RunState
from taskmem_hookspecs.testing import FakeClock
from tests.daemon.looped import Gateway, inline, run_loops
from tests.support.memory_store import MemoryStore
from tests.support.sessions import Session
from tests.support.world import World, worker


class OneByOne(MemoryStore):
    """Shows one run at a time, so that a sweep can be cut in two."""

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        found = super().find_runs(query)
        return found[:1] if query.lapsed_by else found


async def sweep_in_two(call: Callable[..., Any], *values: Any) -> Any:
    """Do a sweep in two, and let all others go on between: a thread may be so slow."""
    if call is not run_recovery.sweep_lapsed_runs:
        return await inline(call, *values)
    first = call(*values)
    for _ in range(100):
        await asyncio.sleep(0)
    return first + call(*values)


async def test_interrupted_tasks_of_one_session_go_on_by_one_message() -> None:
    world = World(OneByOne(), FakeClock())
    session = Session(world)
    for name in ("Build", "Deploy"):
        session.begins()
        session.register(name=name)
        session.does("echo one")
        world.clock.tick(1)
    presence = session.restarts("boot_2")
    gateway = Gateway(world.clock)
    async with run_loops(world, gateway, gateways=lambda: (presence,), run_in_thread=sweep_in_two):
        for _ in range(20):
            await world.clock.advance(1)

    assert len(gateway.received) == 1
    told = [wake.run_id for wake in world.wakes() if wake.sent_at]
    assert len(set(told)) == 2


WORKER = Caller(session_key="cli:one")


@pytest.mark.parametrize("seconds", [100, 299], ids=["renewed", "about-to-lapse"])
async def test_a_machine_that_slept_takes_no_run_from_its_owner(seconds: float) -> None:
    world = World()
    async with run_loops(world, Gateway(world.clock)):
        task = world.register()
        world.call("task_claim", WORKER, task_id=task)
        await world.clock.advance(seconds)
        world.clock.jump(8 * 3600)
        await world.clock.advance(world.context.policies.runs.lease_seconds - 10)
        assert state(world, task) is RunState.RUNNING

        await world.clock.advance(SWEEP_SECONDS + 10)
        assert state(world, task) is RunState.QUEUED


async def test_a_lease_outlives_a_sleep_however_soon_a_task_is_stuck() -> None:
    world = World(stuck=StuckPolicy(threshold_seconds=5))
    async with run_loops(world, Gateway(world.clock)):
        task = world.register()
        world.call("task_claim", WORKER, task_id=task)
        await world.clock.advance(100)
        world.clock.jump(8 * 3600)
        await world.clock.advance(200)

        assert state(world, task) is RunState.RUNNING


async def test_a_clock_that_goes_back_makes_no_lease_longer() -> None:
    world = World()
    async with run_loops(world, Gateway(world.clock)):
        task = world.register()
        world.call("task_claim", WORKER, task_id=task)
        await world.clock.advance(30)
        world.clock.jump(-86_400)
        await world.clock.advance(60 + world.context.policies.runs.lease_seconds + SWEEP_SECONDS)

        assert state(world, task) is RunState.QUEUED


async def test_lease_given_by_a_fast_clock_is_cut_at_daemon_start() -> None:
    world = World()
    task = world.register()
    world.call("task_claim", WORKER, task_id=task)
    world.clock.jump(-86_400)
    async with run_loops(world, Gateway(world.clock)):
        await world.clock.advance(world.context.policies.runs.lease_seconds + SWEEP_SECONDS)

    run = world.store.find_runs(RunQuery(task_id=task, limit=1))[0]
    assert run.state is RunState.QUEUED
    assert run.seen_at <= world.clock.now()


def state(world: World, task: str) -> RunState:
    return world.store.find_runs(RunQuery(task_id=task, limit=1))[0].state


async def test_at_the_start_what_ended_processes_held_is_queued() -> None:
    world = World(is_alive=lambda _: False)
    task = world.register()
    world.call("task_claim", worker("1"), task_id=task)
    async with run_loops(world, Gateway(world.clock)):
        await world.clock.advance(0)

    [run] = world.store.find_runs(RunQuery(task_id=task, limit=1))
    assert (run.state, run.why) == (RunState.QUEUED, "owner_gone")
