"""Deliveries on a lane of their own, so that a transport blocks nothing else."""

from __future__ import annotations

from openclaw_taskmem.daemon.lanes import Lane
from taskmem_hookspecs import Wake, WakeReceipt, WakeTransport


class Courier:
    """Plays a transport, by asking another one in a thread apart."""

    def __init__(self, transport: WakeTransport) -> None:
        """Take the transport that delivers."""
        self.name = transport.name
        self._transport = transport
        self._lane = Lane("deliveries")

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Return what the transport returns, or raise what it raises."""
        return await self._lane.call(lambda: self._transport.deliver(wake))
