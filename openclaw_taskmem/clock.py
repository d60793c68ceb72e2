"""The system's clock: the only place in this project that reads the time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime


class SystemClock:
    """Plays `taskmem_hookspecs.Clock` with the machine's own clocks."""

    def now(self) -> datetime:
        """Return the instant, aware and in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that only ever grow; a suspended machine stands still."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return when that many seconds have passed."""
        await asyncio.sleep(seconds)
