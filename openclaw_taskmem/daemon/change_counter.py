"""Something to wait for that happens again and again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator, Iterable


class ChangeCounter:
    """Counts what happened, and lets anyone wait for more of it."""

    def __init__(self) -> None:
        self.told = 0
        """How often something happened so far."""
        self._more = asyncio.Event()
        self._of_each: dict[str, set[asyncio.Event]] = {}

    def notify(self, changed: Iterable[str] = ()) -> None:
        """Say that something happened, and the ids of what has changed by it."""
        self.told += 1
        self._more.set()
        self._more = asyncio.Event()
        for each in changed:
            for event in self._of_each.get(each, ()):
                event.set()

    def notify_all(self) -> None:
        """Say it to everyone, whatever they wait for."""
        self.notify(self._of_each)

    async def wait_beyond(self, seen: int, seconds: float) -> int:
        """Return the count once it is another than `seen`, or after so long anyway."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.told == seen:
                    await self._more.wait()
        return self.told

    @contextlib.contextmanager
    def watch_changes(self, one: str) -> Generator[asyncio.Event]:
        """Give an event that is set each time one id has changed; clear it yourself."""
        event = asyncio.Event()
        self._of_each.setdefault(one, set()).add(event)
        try:
            yield event
        finally:
            self._of_each[one].discard(event)
            if not self._of_each[one]:
                del self._of_each[one]
