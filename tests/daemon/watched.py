"""A watchroom at work in the test's own process: real engine, clock to turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from openclaw_taskmem.daemon.role_queues import Queues
from openclaw_taskmem.daemon.session_watches import LimitSensor, SessionSensor
from openclaw_taskmem.daemon.snapshots import SnapshotStore
from openclaw_taskmem.daemon.task_watches import TaskSensor
from openclaw_taskmem.daemon.wait_supervisor import WaitSupervisor
from openclaw_taskmem.engine.context import DueWork
from taskmem_hookspecs import TaskStore, Wait, WaitStatus
from taskmem_hookspecs.testing import FakeClock
from tests.support.world import AGENT, World


class WatchedWorld:
    """A world whose waits are watched."""

    def __init__(self, world: World, room: WaitSupervisor) -> None:
        self.world = world
        self.room = room
        self.clock = world.clock

    async def call(self, tool: str, **given: object) -> dict[str, Any]:
        """Call a tool as the daemon does: on another thread."""
        return await asyncio.to_thread(self.world.call, tool, AGENT, **given)

    async def wait(self, target: str = "pty:build", **given: Any) -> str:
        """Start a wait and return its id, once somebody looks."""
        given = {"wake_when": "READY", **given}
        wait_id = str((await self.call("smart_wait", target=target, **given))["wait_id"])
        await self.until(lambda: self.room.read_observation(wait_id) is not None)
        return wait_id

    def row(self, wait_id: str) -> Wait:
        return self.world.store.read_wait(wait_id)

    async def wait_for_end(self, wait_id: str) -> Wait:
        """Return a wait's row once it has ended."""
        await self.until(lambda: self.row(wait_id).status is not WaitStatus.WATCHING)
        return self.row(wait_id)

    async def until(self, condition: Callable[[], object]) -> None:
        """Let everything run until a condition holds; the clock stands still."""
        async with asyncio.timeout(20):
            while not condition():
                await self.clock.advance(0)
                await asyncio.sleep(0.002)

    async def settle(self) -> None:
        """Let everything run that does not wait for the clock."""
        for _ in range(20):
            await self.clock.advance(0)
            await asyncio.sleep(0.002)

    async def pass_time(self, seconds: float, step: float = 0.5) -> None:
        """Let time pass, in steps in which everybody may act."""
        left = seconds
        while left > 0:
            await self.clock.advance(min(step, left))
            left -= step
            await asyncio.sleep(0.002)


@asynccontextmanager
async def watch_world(
    *plugins: tuple[str, Any],
    store: TaskStore | None = None,
    clock: FakeClock | None = None,
    judge_seconds: float = 20.0,
    worlds: Sequence[World] = (),
    sole: bool = False,
    snapshot_store: SnapshotStore | None = None,
) -> AsyncIterator[WatchedWorld]:
    """Watch the waits of a world; what a test leaves behind is ended."""
    world = World(store, clock, plugins=plugins, sole=sole)
    if worlds:
        world._numbers = worlds[0]._numbers
    room = WaitSupervisor(
        world.context.plugin_host,
        world.clock,
        judge_seconds=judge_seconds,
        snapshot_store=snapshot_store,
        queues=Queues(world.clock, lambda: world.context),
        tasks=TaskSensor(world.clock, lambda: world.context),
        sessions=SessionSensor(world.clock, lambda: world.context),
        limits=LimitSensor(world.clock, lambda: world.context),
    )

    def nudge(due: DueWork) -> None:
        room.follow(due)

    world.context = replace(world.context, wait_watcher=room, nudge=nudge)
    running = asyncio.create_task(room.run(world.context))
    try:
        yield WatchedWorld(world, room)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await room.close()
