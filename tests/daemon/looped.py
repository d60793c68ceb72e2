"""The loops in the test's own process: a clock to turn, a transport to steer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from openclaw_taskmem.daemon.loops import Loops
from openclaw_taskmem.daemon.threads import Apart
from openclaw_taskmem.domain.gateway import Presence
from openclaw_taskmem.engine import wakes
from openclaw_taskmem.engine.shell import Due
from taskmem_hookspecs import AgentHost, Wake, WakeReceipt, WakeTransport
from taskmem_hookspecs.testing import FakeClock
from tests.support.world import World


class Gateway:
    """A transport that does as it is told."""

    name = "test"

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.received: list[Wake] = []
        self.fails: Callable[[Wake], Exception | None] = lambda _: None
        self.hangs: set[str | None] = set()

    async def deliver(self, wake: Wake) -> WakeReceipt:
        if wake.session_key in self.hangs:
            await asyncio.Event().wait()
        error = self.fails(wake)
        if error is not None:
            raise error
        self.received.append(wake)
        return WakeReceipt(delivered_at=self._clock.now())


async def inline(call: Callable[..., Any], *values: Any) -> Any:
    return call(*values)


@asynccontextmanager
async def running(
    world: World,
    transport: WakeTransport,
    longest: float = 60,
    holds: Callable[[], wakes.Holds] = lambda: wakes.never,
    *,
    gateways: Callable[[], Sequence[Presence]] = tuple,
    apart: Apart = inline,
    host: AgentHost | None = None,
) -> AsyncIterator[Loops]:
    """Run the loops, told of the world's commits as the daemon's are."""
    loops: list[Loops] = []

    def nudge(due: Due) -> None:
        for one in loops:
            one.nudge(due)

    object.__setattr__(world.shell, "nudge", nudge)
    loops.append(
        Loops(
            world.shell,
            transport,
            apart,
            longest=longest,
            holds=holds,
            gateways=gateways,
            host=host,
        )
    )
    task = asyncio.create_task(loops[0].run())
    await world.clock.advance(0)
    yield loops[0]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
