"""Decide when to look again: after an event, and not too often."""

from __future__ import annotations

import asyncio
from typing import Final

GAP: Final = 0.2
"""Minimum time between two looks. Seconds."""
POLL: Final = 2.0
"""Time between two looks where no paint events are available. Seconds."""
LIVELY: Final = 10.0
"""How long after a change polling uses `GAP` instead. Seconds."""
PLACE: Final = "now"
"""The only place of a picture, which has no past."""


class LookThrottle:
    """Tells one watch when to look again: after an event, at most once in `GAP` seconds."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stirred = asyncio.Event()
        self._looked_at = float("-inf")
        self._moved_at = float("-inf")
        self._stale = True

    def note_event(self) -> None:
        """Note that something happened."""
        self._stale = True
        self._stirred.set()

    def is_due(self) -> bool:
        """Return whether to look again; an event within `GAP` stays pending."""
        return self._stale and self._loop.time() >= self._looked_at + GAP

    def record_look(self) -> float:
        """Record a look, and return its time in monotonic seconds."""
        self._stale = False
        self._looked_at = self._loop.time()
        return self._looked_at

    def record_motion(self) -> None:
        """Record that the last look showed something new."""
        self._moved_at = self._looked_at

    async def wait_for_event(self) -> None:
        """Wait for an event, and until the last look is `GAP` ago."""
        await self._stirred.wait()
        await self._wait_since_look(GAP)
        self._stirred.clear()

    async def wait_for_poll(self) -> None:
        """Wait until the next look is due where no events are available."""
        lively = self._loop.time() < self._moved_at + LIVELY
        await self._wait_since_look(GAP if lively else POLL)
        self._stale = True

    async def _wait_since_look(self, seconds: float) -> None:
        # Another wait may have looked meanwhile, which postpones the next look.
        while (left := self._looked_at + seconds - self._loop.time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
