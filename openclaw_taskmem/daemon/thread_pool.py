"""Run blocking calls on threads, off the event loop."""

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
    """Runs a call off the event loop."""

    def __call__(self, call: Callable[..., T], *values: Any) -> Awaitable[T]:  # noqa: ANN401
        """Run the call on a thread and return its result."""
        ...


class ThreadPool:
    """Implements `OffLoopCaller` by a fixed number of threads."""

    def __init__(self, number: int, name: str, share: int | None = None) -> None:
        """Create the pool; threads start when needed.

        `number`: maximum number of calls at once; `share`: of one caller's, None for no limit.
        """
        self._pool = ThreadPoolExecutor(number, thread_name_prefix=name)
        self._share = share or number
        self._semaphores: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()
        """Semaphores of the callers that have calls in progress."""

    def __call__(self, call: Callable[..., T], *values: Any) -> Awaitable[T]:  # noqa: ANN401
        """Run the call on a thread and return its result."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._pool, call, *values)

    async def call_for(
        self,
        caller: Hashable,
        call: Callable[..., T],
        *values: Any,  # noqa: ANN401
    ) -> T:
        """Run the call once its caller has less than its share of calls running."""
        semaphore = self._semaphores.get(caller)
        if semaphore is None:
            semaphore = self._semaphores[caller] = asyncio.Semaphore(self._share)
        async with semaphore:
            return await self(call, *values)

    async def close(self) -> None:
        """Let running calls end; start no others."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)


class DeferredExecutor:
    """Runs work in the background, one piece at a time, at once or after a delay."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="later")
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def __call__(self, seconds: float, work: Callable[[], None]) -> None:
        """Run the work after that many seconds; for any thread."""
        if seconds > 0:
            self._loop.call_soon_threadsafe(self._loop.call_later, seconds, self._submit_work, work)
        else:
            self._submit_work(work)

    def _submit_work(self, work: Callable[[], None]) -> None:
        if not self._closed:
            self._pool.submit(_log_failure, work)

    async def close(self) -> None:
        """Let the running work end; start no other."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)


def _log_failure(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        log.exception("work in the background failed")
