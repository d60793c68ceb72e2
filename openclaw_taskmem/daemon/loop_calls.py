"""Calls that one event loop has made on that of another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence


class LoopCallQueue:
    """Carries calls from loop to loop: all that come in one turn go together.

    To wake a loop costs more than most of those calls, and where many waits share a
    target all of them look at once.
    """

    def __init__(
        self, sender: asyncio.AbstractEventLoop, receiver: asyncio.AbstractEventLoop
    ) -> None:
        """Take the loop on which calls are posted, and the one that makes them."""
        self.sender = sender
        self._receiver = receiver
        self._calls: list[Callable[[], object]] = []

    def post(self, call: Callable[[], object]) -> None:
        """Have a call made soon, in order; once the receiver is closed, never."""
        if not self._calls:
            self.sender.call_soon(self._send_calls)
        self._calls.append(call)

    def _send_calls(self) -> None:
        calls, self._calls = self._calls, []
        if not self._receiver.is_closed():
            self._receiver.call_soon_threadsafe(self._schedule_calls, calls)

    def _schedule_calls(self, calls: Sequence[Callable[[], object]]) -> None:
        for call in calls:
            # One by one, so that none that fails takes the next with it.
            self._receiver.call_soon(call)
