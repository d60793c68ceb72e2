"""Define `FakeClock`, whose time tests advance by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

DAWN = datetime(2026, 2, 16, 6, 0, tzinfo=UTC)
"""Default start of a `FakeClock`."""


class FakeClock:
    """Implements `Clock`; time passes only in `advance` and `tick`."""

    def __init__(self, start: datetime = DAWN) -> None:
        self._now = start
        self._monotonic = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        """Return the current fake instant."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds that have passed, without jumps of the wall clock."""
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was advanced by that many seconds."""
        future = asyncio.get_running_loop().create_future()
        due = self._monotonic + max(0.0, seconds)
        heapq.heappush(self._sleepers, (due, next(self._order), future))
        await future

    @property
    def sleepers(self) -> int:
        """Number of pending calls of `sleep`."""
        return sum(not future.done() for _, _, future in self._sleepers)

    def tick(self, seconds: float = 0.0, **parts: float) -> datetime:
        """Let time pass without waking sleepers; return the new instant."""
        step = timedelta(seconds=seconds, **parts)
        self._now += step
        self._monotonic += step.total_seconds()
        return self._now

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back; no time passes, and no sleeper wakes."""
        self._now += timedelta(seconds=seconds)

    async def advance(self, seconds: float = 0.0, **parts: float) -> None:
        """Let time pass, and wake each sleeper at its time."""
        end = self._monotonic + timedelta(seconds=seconds, **parts).total_seconds()
        while True:
            await self._settle()
            while self._sleepers and self._sleepers[0][2].done():
                heapq.heappop(self._sleepers)
            if not self._sleepers or self._sleepers[0][0] > end:
                break
            due, _, future = heapq.heappop(self._sleepers)
            self.tick(max(0.0, due - self._monotonic))
            future.set_result(None)
        self.tick(end - self._monotonic)

    async def _settle(self) -> None:
        for _ in range(25):
            await asyncio.sleep(0)
