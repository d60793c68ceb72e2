"""Threads on which the event loop has calls made that would block it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Apart(Protocol):
    """Makes a call off the event loop."""

    def __call__(self, call: Callable[..., T], *values: Any) -> Awaitable[T]:  # noqa: ANN401
        """Return what the call returns."""
        ...


class Threads:
    """A pool of them; plays `Apart`."""

    def __init__(self, number: int, name: str) -> None:
        """Take how many calls are made at once, and what the threads are called."""
        self._pool = ThreadPoolExecutor(number, thread_name_prefix=name)

    def __call__(self, call: Callable[..., T], *values: Any) -> Awaitable[T]:  # noqa: ANN401
        """Return what the call returns."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._pool, call, *values)

    async def close(self) -> None:
        """Let the calls that run end, and begin no others."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
