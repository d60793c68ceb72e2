"""Threads on which the event loop has calls made that would block it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")
log = logging.getLogger(__name__)


class OffLoopCaller(Protocol):
    """Makes a call off the event loop."""

    def __call__(self, call: Callable[..., T], *values: Any) -> Awaitable[T]:  # noqa: ANN401
        """Return what the call returns."""
        ...


class ThreadPool:
    """A pool of them; plays `Apart`."""

    def __init__(self, number: int, name: str, share: int | None = None) -> None:
        """Start none yet.

        Args:
            number: How many calls are made at once.
            name: What the threads are called.
            share: How many of one caller's calls are made at once; None: any number.
        """
        self._pool = ThreadPoolExecutor(number, thread_name_prefix=name)
        self._share = share or number
        self._rooms: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()
        """What each caller that has calls here takes a place of."""

    def __call__(self, call: Callable[..., T], *values: Any) -> Awaitable[T]:  # noqa: ANN401
        """Return what the call returns."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._pool, call, *values)

    async def call_for(
        self,
        caller: Hashable,
        call: Callable[..., T],
        *values: Any,  # noqa: ANN401
    ) -> T:
        """Return what the call returns, made once the caller's share has room."""
        room = self._rooms.get(caller)
        if room is None:
            room = self._rooms[caller] = asyncio.Semaphore(self._share)
        async with room:
            return await self(call, *values)

    async def close(self) -> None:
        """Let the calls that run end, and begin no others."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)


class DeferredExecutor:
    """Has work done off the path of a call, one after the other, or after a while."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="later")
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def __call__(self, seconds: float, work: Callable[[], None]) -> None:
        """Have work done after so many seconds; from any thread."""
        if seconds > 0:
            self._loop.call_soon_threadsafe(self._loop.call_later, seconds, self._submit_work, work)
        else:
            self._submit_work(work)

    def _submit_work(self, work: Callable[[], None]) -> None:
        if not self._closed:
            self._pool.submit(_log_failure, work)

    async def close(self) -> None:
        """Let the work that runs end, and begin no other."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)


def _log_failure(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        log.exception("work in the background failed")
