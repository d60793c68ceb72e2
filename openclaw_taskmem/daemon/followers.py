"""Answer calls that wait for a change: of any wait, of one wait, or of anything on a page."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Generator, Iterable, Mapping
from functools import partial
from typing import Final, cast

from pydantic import JsonValue

from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.errors import DaemonUnavailable
from openclaw_taskmem.engine import lookup, waits
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.waits import PolledWait
from openclaw_taskmem.tools import views
from taskmem_hookspecs import WaitStatus

_LONG_POLL_SECONDS: Final = 25.0
"""Maximum time before a call that waits is answered."""
_POLL_SECONDS: Final = 5.0
"""The same for a host that asks for a wait: it shows its user what was seen last."""


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


class Followers:
    """Answers calls that wait, on the event loop.

    A caller that gets no news calls again. Once the daemon is stopping, calls are answered at once
    instead of being cut off.
    """

    def __init__(
        self, context: Context, changes: ChangeCounter, run_in_thread: OffLoopCaller
    ) -> None:
        self._context = context
        self._changes = changes
        self._run_in_thread = run_in_thread
        self._commits = ChangeCounter()
        self._counting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watching = 0
        """Number of callers that wait for any change."""

    async def follow(self, params: Mapping[str, object]) -> JsonValue:
        """Return all waits once any of them has changed, or after `_LONG_POLL_SECONDS`.

        `seen` is the count in the caller's last answer; without it, they are returned at once.

        Raises:
            DaemonUnavailable: The daemon is stopping.
        """
        seen = params.get("seen")
        if isinstance(seen, int) and not self._context.stopping.is_set():
            await self._changes.wait_beyond(seen, _LONG_POLL_SECONDS)
        if self._context.stopping.is_set():
            raise DaemonUnavailable("The daemon is stopping; try again in a moment.")
        count = self._changes.count
        found = await self._run_in_thread(views.list_waits, self._context, {**params, "all": True})
        return {"seen": count, "waits": found}

    def note_commit(self) -> None:
        """Count a commit, in the thread that committed; wake the loop only if somebody waits."""
        with self._counting:
            self._commits.count += 1
        if self._watching and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._commits.wake)

    async def watch_changes(self, params: Mapping[str, object]) -> JsonValue:
        """Return once anything was written or observed, or after `_LONG_POLL_SECONDS`.

        `seen` is the list in the caller's last answer; without it, the answer comes at once.

        Raises:
            DaemonUnavailable: The daemon is stopping.
        """
        counters, given = (self._changes, self._commits), params.get("seen")
        process, *seen = cast("list[object]", given) if isinstance(given, list) and given else [0]
        # Another daemon has counted something else.
        same = process == os.getpid() and len(seen) == len(counters)
        if same and all(isinstance(count, int) for count in seen):
            self._loop = asyncio.get_running_loop()
            self._watching += 1
            waiting = [
                asyncio.create_task(counter.wait_beyond(cast("int", count), _LONG_POLL_SECONDS))
                for counter, count in zip(counters, seen, strict=True)
            ]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._watching -= 1
                for each in waiting:
                    each.cancel()
        if self._context.stopping.is_set():
            raise DaemonUnavailable("The daemon is stopping; try again in a moment.")
        return {"seen": self._list_counts()}

    def format_counts(self) -> str:
        """Return what was counted so far, as a page tells it; for any thread."""
        return ".".join(map(str, self._list_counts()))

    def _list_counts(self) -> list[JsonValue]:
        """Return the process that counts, and its counts."""
        return [os.getpid(), self._changes.count, self._commits.count]

    async def poll_wait(self, wait_id: str, caller: Caller) -> PolledWait:
        """Answer a host that asks for a wait: once it has ended, or after `_POLL_SECONDS`.

        Raises:
            WaitNotFound: No wait has that id.
            NotAllowed: It is another's.
        """
        poll = partial(waits.poll_wait, self._context, wait_id, caller)
        until = asyncio.get_running_loop().time() + _POLL_SECONDS
        with self._changes.watch_changes(wait_id) as changed, contextlib.suppress(TimeoutError):
            while True:
                changed.clear()
                polled = await self._run_in_thread(poll)
                if polled.wait.status is not WaitStatus.WATCHING or self._context.stopping.is_set():
                    return polled
                async with asyncio.timeout_at(until):
                    await changed.wait()
        return await self._run_in_thread(poll)

    async def wait(self, params: Mapping[str, object]) -> JsonValue:
        """Return how a wait ended, or after `_LONG_POLL_SECONDS` that it has not.

        The store is read only when that wait has changed. The end of an id will do.

        Raises:
            WaitNotFound: No wait has that id.
            InvalidArguments: Several have it.
        """
        wait_id = str(params.get("id", ""))
        if not wait_id.startswith("wait_"):
            wait_id = await self._run_in_thread(lookup.find_named, self._context, "wait", wait_id)
        until = asyncio.get_running_loop().time() + _LONG_POLL_SECONDS
        with self._changes.watch_changes(wait_id) as changed:
            while True:
                # A change from here on causes another read.
                changed.clear()
                ended = await self._run_in_thread(waits.fetch_end, self._context, wait_id)
                if ended is not None:
                    break
                if self._context.stopping.is_set():
                    return {"ended": False, "stopping": True}
                try:
                    async with asyncio.timeout_at(until):
                        await changed.wait()
                except TimeoutError:
                    return {"ended": False, "stopping": False}
        status = ended.wait.status
        return {
            "ended": True,
            "status": status,
            "text": ended.text,
            "exit": callers.EXITS[status],
        }
