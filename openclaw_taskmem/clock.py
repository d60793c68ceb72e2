"""Read the system's clock; no other file may read the time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime


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
