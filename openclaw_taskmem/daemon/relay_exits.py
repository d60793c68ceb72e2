"""Requeue the runs of a relay's process as soon as it has ended."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.engine import run_recovery
from openclaw_taskmem.engine.context import Context

log = logging.getLogger(__name__)

RESTS: Final = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Delays before each check, in seconds; a process may end shortly after its socket."""


class RelayExits:
    """Checks whether disconnected relays have ended."""

    def __init__(self, context: Context, apart: OffLoopCaller) -> None:
        self._context = context
        self._apart = apart
        self._looks: set[asyncio.Task[None]] = set()

    def watch_process(self, process: str | None) -> None:
        """Check for some seconds whether a disconnected process has ended; None: it is unknown."""
        if process is None or self._context.stopping.is_set():
            return
        look = asyncio.create_task(self._requeue_when_ended(process))
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)

    async def close(self) -> None:
        """Stop all checks; leases then decide about the runs."""
        for look in self._looks:
            look.cancel()
        await asyncio.gather(*self._looks, return_exceptions=True)

    async def _requeue_when_ended(self, process: str) -> None:
        requeue = partial(run_recovery.requeue_abandoned, self._context, process=process)
        for rest in RESTS:
            await self._context.clock.sleep(rest)
            try:
                if await self._apart(self._context.is_alive, process) is False:
                    await self._apart(requeue)
                    return
            except Exception:
                log.exception("what %s held could not be queued", process)
