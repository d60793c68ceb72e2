"""RelayExits that have hung up: whether they have ended, and what is queued then."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from openclaw_taskmem.daemon.server import RESTS, RelayExits
from taskmem_hookspecs import RunQuery, RunState
from tests.daemon.looped import inline
from tests.support.memory_store import MemoryStore
from tests.support.world import World, worker


class Processes:
    """Those that live, and how often they were looked at."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.looks = 0

    def lives(self, process: str) -> bool:
        self.looks += 1
        return process not in self.ended


class Busy(MemoryStore):
    """Cannot be written, until it can."""

    busy = False

    def commit(self, change):
        if self.busy:
            self.busy = False
            raise RuntimeError("The disk is away.")
        super().commit(change)


def make_held(store=None):
    """Return a world with a run that worker 1 holds, and its relays."""
    processes = Processes()
    world = World(store)
    world.context = replace(world.context, is_alive=processes.lives)
    task = world.register()
    world.call("task_claim", worker("1"), task_id=task)
    processes.looks = 0
    return world, processes, RelayExits(world.context, inline)


def state(world):
    [run] = world.store.find_runs(RunQuery(limit=2))
    return run.state


async def test_one_that_ends_after_its_socket_is_looked_at_again():
    world, processes, relays = make_held()
    relays.watch_process("1:1")
    await world.clock.advance(0)
    assert (state(world), processes.looks) == (RunState.RUNNING, 1)

    processes.ended = {"1:1"}
    await world.clock.advance(RESTS[1])

    assert state(world) is RunState.QUEUED
    await relays.close()


async def test_one_that_lives_on_is_looked_at_for_some_seconds():
    world, processes, relays = make_held()
    relays.watch_process("1:1")
    for rest in RESTS:
        await world.clock.advance(rest)
    await world.clock.advance(sum(RESTS))

    assert (state(world), processes.looks) == (RunState.RUNNING, len(RESTS))


async def test_what_another_process_holds_stays():
    world, processes, relays = make_held()
    processes.ended = {"1:1", "2:1"}
    relays.watch_process("2:1")
    await world.clock.advance(sum(RESTS))

    assert state(world) is RunState.RUNNING


async def test_what_cannot_be_written_is_tried_again(caplog):
    store = Busy()
    world, processes, relays = make_held(store)
    processes.ended, store.busy = {"1:1"}, True
    relays.watch_process("1:1")
    await world.clock.advance(0)
    assert "could not requeue the runs of process 1:1" in caplog.text

    await world.clock.advance(RESTS[1])

    assert state(world) is RunState.QUEUED


async def test_nobody_is_looked_after_by_a_daemon_that_stops():
    world, processes, relays = make_held()
    relays.watch_process("1:1")
    await relays.close()
    world.context.stopping.set()
    relays.watch_process("1:1")
    relays.watch_process(None)
    await world.clock.advance(sum(RESTS))

    assert (processes.looks, len(asyncio.all_tasks())) == (0, 1)
