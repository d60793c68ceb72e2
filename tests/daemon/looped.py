"""The loops in the test's own process: a clock to turn, a transport to steer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from openclaw_taskmem.daemon.background_loops import BackgroundLoops
from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.domain.callers import GatewayPresence
from openclaw_taskmem.engine import wakes
from openclaw_taskmem.engine.context import DueWork
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
async def run_loops(
    world: World,
    transport: WakeTransport,
    longest: float = 60,
    holds: Callable[[], wakes.Holds] = lambda: wakes.hold_nothing,
    *,
    gateways: Callable[[], Sequence[GatewayPresence]] = tuple,
    run_in_thread: OffLoopCaller = inline,
    host: AgentHost | None = None,
) -> AsyncIterator[BackgroundLoops]:
    """Run the loops, told of the world's commits as the daemon's are."""
    loops: list[BackgroundLoops] = []

    def nudge(due: DueWork) -> None:
        for one in loops:
            one.wake_loops(due)

    object.__setattr__(world.context, "nudge", nudge)
    loops.append(
        BackgroundLoops(
            world.context,
            transport,
            run_in_thread,
            longest=longest,
            holds=holds,
            gateways=gateways,
            agent_hosts=() if host is None else (host,),
        )
    )
    task = asyncio.create_task(loops[0].run())
    await world.clock.advance(0)
    yield loops[0]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
