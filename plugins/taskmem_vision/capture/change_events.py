"""When to look again: not before something happened, and not all the time then."""

from __future__ import annotations

import asyncio
from typing import Final

GAP: Final = 0.2
"""Seconds between two looks at what keeps changing."""
POLL: Final = 2.0
"""Seconds between two looks where nobody says that something was painted."""
LIVELY: Final = 10.0
"""How long after a change those looks are as close as they may be."""
PLACE: Final = "now"
"""Where everybody looks from: a picture has no past."""


class LookThrottle:
    """What a watch was told of since its last look."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stirred = asyncio.Event()
        self._looked_at = float("-inf")
        self._moved_at = float("-inf")
        self._stale = True

    def note_event(self) -> None:
        """Something happened."""
        self._stale = True
        self._stirred.set()

    def is_due(self) -> bool:
        """Whether to look anew; what is put off is still news."""
        return self._stale and self._loop.time() >= self._looked_at + GAP

    def record_look(self) -> float:
        """Take note of a look, and return its time: seconds that only grow."""
        self._stale = False
        self._looked_at = self._loop.time()
        return self._looked_at

    def record_motion(self) -> None:
        """The last look showed something new."""
        self._moved_at = self._looked_at

    async def wait_for_event(self) -> None:
        """Return when something happened, and the last look is `GAP` ago."""
        await self._stirred.wait()
        await self._wait_since_look(GAP)
        self._stirred.clear()

    async def wait_for_poll(self) -> None:
        """Return when to look where nobody says what happens; one look shows it."""
        lively = self._loop.time() < self._moved_at + LIVELY
        await self._wait_since_look(GAP if lively else POLL)
        self._stale = True

    async def _wait_since_look(self, seconds: float) -> None:
        # Others may have looked meanwhile: too early, nothing new would be shown.
        while (left := self._looked_at + seconds - self._loop.time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
