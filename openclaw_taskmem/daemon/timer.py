"""Sleep until something is due, and wake early when something is due sooner."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from openclaw_taskmem.domain.clock_skew import compute_grace, measure_oversleep
from taskmem_hookspecs import Clock


class WakeableTimer:
    """Lets one loop sleep until an instant, and others wake it earlier.

    The loop calls `reset` before it looks for work and `wait` after; a `wake` between the two is
    not lost.
    """

    def __init__(self, clock: Clock, longest: float) -> None:
        """Create a timer that sleeps at most `longest` seconds."""
        self._clock = clock
        self._longest = longest
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._until: datetime | None = None
        self._earliest: datetime | None = None

    def reset(self) -> None:
        """Discard earlier wake-ups, because the loop is about to look for work."""
        self._earliest = None
        self._until = None
        self._rung.clear()

    def wake(self, at: datetime) -> None:
        """Report that something is due at an instant; for any thread."""
        self._loop.call_soon_threadsafe(self._wake, at)

    def _wake(self, at: datetime) -> None:
        if self._earliest is None or at < self._earliest:
            self._earliest = at
        if self._until is not None and (at < self._until or self._until <= self._clock.now()):
            # Sooner than that; or the clock was set, so that the sleep ends too late.
            self._rung.set()

    async def wait(self, due: datetime | None) -> float:
        """Return at `due` or at an earlier instant that `wake` reported.

        Returns after the longest sleep in any case. None: nothing is known to be due.

        Returns:
            By how many seconds it overslept, as `measure_oversleep` computes.
        """
        while True:
            dues = [at for at in (due, self._earliest) if at is not None]
            now = self._clock.now()
            wait = (min(dues) - now).total_seconds() if dues else self._longest
            if wait <= 0:
                return 0.0
            seconds = min(wait, self._longest)
            self._until = min(dues, default=datetime.max.replace(tzinfo=now.tzinfo))
            self._rung.clear()
            began = self._clock.monotonic()
            if not await self._sleep_or_wake(seconds):
                return measure_oversleep(seconds, self._clock.monotonic() - began)

    async def _sleep_or_wake(self, seconds: float) -> bool:
        """Return True if `wake` came before the time was over."""
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        rung = asyncio.ensure_future(self._rung.wait())
        try:
            await asyncio.wait((sleep, rung), return_when=asyncio.FIRST_COMPLETED)
            return not sleep.done()
        finally:
            sleep.cancel()
            rung.cancel()


class GracePeriod:
    """Suspends judgements on silence after a time in which nothing could be heard.

    Between two judgements it lasts at most one threshold, so that a machine that is always late
    still judges.
    """

    def __init__(self, clock: Clock, threshold: float) -> None:
        """Start without a grace period; `threshold` is the silence that is judged, in seconds."""
        self._clock = clock
        self._threshold = threshold
        self._lost = 0.0
        self._until = float("-inf")

    def extend(self, lost: float) -> bool:
        """Suspend judgements for as many seconds as were lost.

        Returns:
            True if nothing was suspended before.
        """
        begins = not self._lost
        held = compute_grace(lost, max(0.0, self._threshold - self._lost))
        self._lost += max(0.0, lost)
        self._until = max(self._until, self._clock.monotonic() + held)
        return begins

    def read_remaining(self) -> timedelta:
        """Return the remaining time; once it is zero, the next period may begin."""
        left = self._until - self._clock.monotonic()
        if left > 0:
            return timedelta(seconds=left)
        self._lost = 0.0
        return timedelta()
