"""Something to wait for that happens again and again."""

from __future__ import annotations

import asyncio
import contextlib


class News:
    """Counts what happened, and lets anyone wait for more of it."""

    def __init__(self) -> None:
        self.told = 0
        """How often something happened so far."""
        self._more = asyncio.Event()

    def tell(self) -> None:
        """Say that something happened."""
        self.told += 1
        self._more.set()
        self._more = asyncio.Event()

    async def beyond(self, seen: int, seconds: float) -> int:
        """Return the count once it is another than `seen`, or after so long anyway."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.told == seen:
                    await self._more.wait()
        return self.told
