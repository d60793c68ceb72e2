"""Read the system's clock and a database server's; no other file may read the time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from taskmem_hookspecs import Clock

_DRIFT_SECONDS: Final = 0.1
"""Seconds by which the server's clock may seem to differ from what was counted on."""


class SystemClock:
    """The `taskmem_hookspecs.Clock` of the machine."""

    def now(self) -> datetime:
        """Return the current time, aware and in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that only grow; the clock stops while the machine is suspended."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep for that many seconds."""
        await asyncio.sleep(seconds)


def read_uptime() -> float:
    """Return seconds that only grow, also while the machine is suspended, and that nobody sets."""
    name = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
    return time.clock_gettime(name)


class ServerClock:
    """The clock of a database server, as all daemons of the database have it.

    It is read now and then (`synchronize`), and goes on by this machine's uptime in between. So
    it does not matter what the wall clock of this machine says, or whether it is set.
    """

    def __init__(
        self,
        machine: Clock,
        read_server: Callable[[], datetime],
        uptime: Callable[[], float] = read_uptime,
    ) -> None:
        """Read the server's clock for the first time, with `read_server`.

        Raises:
            StoreUnavailable: The server cannot be reached.
        """
        self._machine = machine
        self._read_server = read_server
        self._uptime = uptime
        self._reading = self._ask_server()[:2]
        self.monotonic = machine.monotonic
        self.sleep = machine.sleep

    def now(self) -> datetime:
        """Return the server's current time, in UTC."""
        at, uptime = self._reading
        return at + timedelta(seconds=self._uptime() - uptime)

    def measure_lead(self) -> timedelta:
        """Return how far the machine's clock is ahead of the server's."""
        return self._machine.now() - self.now()

    def synchronize(self) -> None:
        """Read the server's clock, and go by it if it is not where it was counted to be.

        Raises:
            StoreUnavailable: The server cannot be reached.
        """
        at, uptime, tolerance = self._ask_server()
        counted = self._reading[0] + timedelta(seconds=uptime - self._reading[1])
        if abs((at - counted).total_seconds()) > tolerance + _DRIFT_SECONDS:
            self._reading = at, uptime

    def _ask_server(self) -> tuple[datetime, float, float]:
        """Return the server's time, the uptime then, and by how many seconds it may be wrong."""
        before = self._uptime()
        at = self._read_server()
        uptime = self._uptime()
        tolerance = (uptime - before) / 2
        return at + timedelta(seconds=tolerance), uptime, tolerance
