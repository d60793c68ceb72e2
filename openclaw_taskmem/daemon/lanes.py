"""Event loops apart, one to a plug-in, so that what blocks there blocks nothing else.

A lane's thread is a daemon thread: a call that never returns does not hold up the
end of the process.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, cast

T = TypeVar("T")
CLOSE_SECONDS: Final = 0.5
"""How long a lane may take to end."""


class TriedToEnd(Exception):
    """A plug-in tried to end the process."""


class Lane:
    """One event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        """Start it; `name` names the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def close(self) -> None:
        """Cancel what runs there and end it; what blocks is left behind."""

        def end() -> None:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            # The cancelled have one turn to clean up.
            self._loop.call_soon(self._loop.call_soon, self._loop.stop)

        self._loop.call_soon_threadsafe(end)
        self._thread.join(CLOSE_SECONDS)

    async def call(self, begin: Callable[[], Awaitable[T]]) -> T:
        """Return what the awaitable that is begun there returns, or raise likewise.

        Cancelling this cancels it there, and does not wait for it to notice.
        """
        future = asyncio.run_coroutine_threadsafe(_guarded(begin), self._loop)
        return await asyncio.wrap_future(future)


async def _guarded(begin: Callable[[], Awaitable[T]]) -> T:
    try:
        answer: object = begin()
        # What is no promise was done already; to await it would only say it failed.
        return await answer if inspect.isawaitable(answer) else cast("T", answer)
    except (SystemExit, KeyboardInterrupt) as error:
        raise TriedToEnd(f"it tried to end the process: {error!r}") from error


class Lanes:
    """The lanes of the plug-ins; each is made when it is first used."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}

    def of(self, part: object) -> Lane:
        """Return the lane of the plug-in that a part belongs to, by its package."""
        package = type(part).__module__.partition(".")[0]
        if package not in self._lanes:
            self._lanes[package] = Lane(package)
        return self._lanes[package]

    def close(self) -> None:
        """End every lane."""
        for lane in self._lanes.values():
            lane.close()
