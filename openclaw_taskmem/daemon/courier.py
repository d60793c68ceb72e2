"""An event loop for deliveries alone, so that a transport blocks nothing else."""

from __future__ import annotations

import asyncio
import threading

from taskmem_hookspecs import Wake, WakeReceipt, WakeTransport


class TriedToEnd(Exception):
    """A transport tried to end the process."""


class Courier:
    """Plays a transport, by asking another one in a thread apart.

    The thread is a daemon thread: a transport that never returns does not hold up
    the end of the process.
    """

    def __init__(self, transport: WakeTransport) -> None:
        """Take the transport that delivers."""
        self.name = transport.name
        self._transport = transport
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="deliveries", daemon=True).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Return what the transport returns, or raise what it raises."""
        future = asyncio.run_coroutine_threadsafe(self._guarded(wake), self._loop)
        return await asyncio.wrap_future(future)

    async def _guarded(self, wake: Wake) -> WakeReceipt:
        try:
            return await self._transport.deliver(wake)
        except (SystemExit, KeyboardInterrupt) as error:
            raise TriedToEnd(f"it tried to end the process: {error!r}") from error
