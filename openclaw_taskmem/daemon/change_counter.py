"""Count changes, and let callers wait for the next one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator, Iterable


class ChangeCounter:
    """Counts changes; callers wait for any further one, or for a change of one id."""

    def __init__(self) -> None:
        self.count = 0
        """Number of changes so far."""
        self._more = asyncio.Event()
        self._of_each: dict[str, set[asyncio.Event]] = {}

    def notify(self, changed: Iterable[str] = ()) -> None:
        """Count a change; wake those who wait for any change or watch one of the changed ids."""
        self.count += 1
        self.wake()
        for each in changed:
            for event in self._of_each.get(each, ()):
                event.set()

    def wake(self) -> None:
        """Wake those who wait for any change, after one was counted."""
        self._more.set()
        self._more = asyncio.Event()

    def notify_all(self) -> None:
        """Count a change, and wake everyone."""
        self.notify(self._of_each)

    async def wait_beyond(self, seen: int, seconds: float) -> int:
        """Return the count once it differs from `seen`, or after that many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.count == seen:
                    await self._more.wait()
        return self.count

    @contextlib.contextmanager
    def watch_changes(self, one: str) -> Generator[asyncio.Event]:
        """Yield an event that is set whenever the id changes; the caller clears it."""
        event = asyncio.Event()
        self._of_each.setdefault(one, set()).add(event)
        try:
            yield event
        finally:
            self._of_each[one].discard(event)
            if not self._of_each[one]:
                del self._of_each[one]
