"""The loop that minds leases, beside the one that sends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from openclaw_taskmem.engine import recovery
from taskmem_hookspecs.testing import FakeClock, MemoryStore
from tests.daemon.looped import Gateway, inline, running
from tests.support.sessions import Session
from tests.support.world import World


class OneByOne(MemoryStore):
    """Shows one run at a time, so that a sweep can be cut in two."""

    def lapsed_runs(self, now: Any, limit: int, home: str | None = None) -> Any:
        del limit
        return super().lapsed_runs(now, 1, home)


async def in_two(call: Callable[..., Any], *values: Any) -> Any:
    """Do a sweep in two, and let all others go on between: a thread may be so slow."""
    if call is not recovery.sweep:
        return await inline(call, *values)
    first = call(*values)
    for _ in range(100):
        await asyncio.sleep(0)
    return first + call(*values)


async def test_tasks_of_a_session_that_were_interrupted_go_on_by_one_message() -> None:
    world = World(OneByOne(), FakeClock())
    session = Session(world)
    for _ in range(2):
        session.begins()
        session.register()
        session.does("echo one")
        world.clock.tick(1)
    presence = session.restarts("boot_2")
    gateway = Gateway(world.clock)
    async with running(world, gateway, gateways=lambda: (presence,), apart=in_two):
        for _ in range(20):
            await world.clock.advance(1)

    assert len(gateway.received) == 1
    told = [wake.run_id for wake in world.wakes() if wake.sent_at]
    assert len(set(told)) == 2
