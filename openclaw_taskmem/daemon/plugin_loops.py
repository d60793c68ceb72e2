"""Event loops apart, one to a plug-in, so that what blocks there blocks nothing else.

A lane's thread is a daemon thread: a call that never returns does not hold up the
end of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

from openclaw_taskmem.plugin_host.isolation import TriedToEnd
from openclaw_taskmem.plugin_host.manager import format_error

log = logging.getLogger(__name__)
T = TypeVar("T")
CLEAN_UP_SECONDS: Final = 2.0
"""How long what is cancelled may take to clean up; a program that it runs is killed."""
CLOSE_SECONDS: Final = CLEAN_UP_SECONDS + 0.5
"""How long a lane may take to end."""


class PluginCallCancelled(Exception):
    """A plug-in ended its own call with what no caller can take for a failure."""


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


class PluginLoop:
    """One event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        """Start it; `name` names the thread."""
        self._loop = asyncio.new_event_loop()
        self._mail: dict[asyncio.AbstractEventLoop, tuple[LoopCallQueue, LoopCallQueue]] = {}
        """There and back, for each loop that calls: the daemon's and other lanes'."""
        self._open: set[asyncio.Future[Any]] = set()
        """The answers that are still to come."""
        self._end: asyncio.Task[None] | None = None
        """What ends all others; None: it was not told to."""
        self._closed = False
        self._closing = threading.Lock()
        """Held so that no call comes between the end and those that it cancels."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def close(self) -> None:
        """Cancel every call, and end what runs there; what blocks is left behind.

        A second time does nothing but wait for that.
        """
        self.begin_close()
        self._thread.join(CLOSE_SECONDS)

    def begin_close(self) -> None:
        """Begin to close, and do not wait until it has ended."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            left = [*self._open]
        for answer in left:
            # Nobody waits any more on a loop that is closed itself.
            with contextlib.suppress(RuntimeError):
                answer.get_loop().call_soon_threadsafe(answer.cancel)
        # A plug-in may have stopped it.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._start_shutdown)

    def _start_shutdown(self) -> None:
        self._end = self._loop.create_task(self._cancel_all())

    async def _cancel_all(self) -> None:
        """Cancel all that runs here, and stop once it has cleaned up."""
        running = asyncio.all_tasks() - {self._end}
        for task in running:
            task.cancel()
        if running:
            _, left = await asyncio.wait(running, timeout=CLEAN_UP_SECONDS)
            if left:
                log.warning("%s does not end, and is left", self._thread.name)
        # What has ended has a turn to say so, and its word one to be sent.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # Of what is left, Python would complain at length.
        self._loop.set_exception_handler(lambda _loop, _told: None)
        self._loop.stop()

    async def call(self, begin: Callable[[], Awaitable[T]]) -> T:
        """Return what the awaitable that is begun there returns, or raise likewise.

        Cancelling this cancels it there, and does not wait for it to notice.

        Raises:
            RuntimeError: The lane is closed.
        """
        here = asyncio.get_running_loop()
        answer: asyncio.Future[T] = here.create_future()
        with self._closing:
            if self._closed or self._loop.is_closed():
                raise RuntimeError("The lane is closed.")
            self._open.add(answer)
            if here not in self._mail:
                self._mail = {k: v for k, v in self._mail.items() if not k.is_closed()}
                self._mail[here] = (
                    LoopCallQueue(here, self._loop),
                    LoopCallQueue(self._loop, here),
                )
            there, back = self._mail[here]
        visit = _LoopCall(begin, answer, back)
        there.post(visit.begin)
        try:
            return await answer
        except asyncio.CancelledError:
            # The end of the lane cancels it once: what cleans up is not cut short.
            if not self._closed:
                there.post(visit.cancel)
            raise
        finally:
            self._open.discard(answer)


class _LoopCall(Generic[T]):
    """One call of a lane: begun and ended there, answered here."""

    def __init__(
        self, begin: Callable[[], Awaitable[T]], answer: asyncio.Future[T], back: LoopCallQueue
    ) -> None:
        self._answer = answer
        self._begin = begin
        self._back = back
        self._task: asyncio.Task[T] | None = None

    # --- there --------------------------------------------------------------

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(_run_guarded(self._begin))
        self._task.add_done_callback(self._handle_done)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _handle_done(self, task: asyncio.Task[T]) -> None:
        settle: Callable[[], object]
        if (error := _find_error(task)) is not None:
            settle = partial(self._answer.set_exception, error)
        else:
            settle = partial(self._answer.set_result, task.result())
        self._back.post(partial(self._settle, settle))

    # --- here ---------------------------------------------------------------

    def _settle(self, settle: Callable[[], object]) -> None:
        if not self._answer.done():
            settle()


def _find_error(task: asyncio.Task[Any]) -> Exception | None:
    """Return what a call failed with; None: it did not.

    A caller that cancelled it hears nothing of this any more. To any other one it
    would seem to be cancelled itself, and it would end by that.
    """
    if task.cancelled():
        return PluginCallCancelled("it gave up its own call")
    error = task.exception()
    if error is None or isinstance(error, Exception):
        return error
    return PluginCallCancelled(f"it gave up its own call: {format_error(error)}")


async def _run_guarded(begin: Callable[[], Awaitable[T]]) -> T:
    try:
        answer: object = begin()
        # What is no promise was done already; to await it would only say it failed.
        return await answer if inspect.isawaitable(answer) else cast("T", answer)
    except (SystemExit, KeyboardInterrupt) as error:
        raise TriedToEnd(f"it tried to end the process: {error!r}") from error


class PluginLoops:
    """The lanes of the plug-ins; each is made when it is first used."""

    def __init__(self) -> None:
        self._lanes: dict[str, PluginLoop] = {}
        self._making = threading.Lock()

    def get_loop(self, part: object) -> PluginLoop:
        """Return the lane of the plug-in that a part belongs to, by its package."""
        package = type(part).__module__.partition(".")[0]
        with self._making:
            if package not in self._lanes:
                self._lanes[package] = PluginLoop(package)
            return self._lanes[package]

    def close(self) -> None:
        """End every lane."""
        for lane in self._lanes.values():
            lane.begin_close()
        for lane in self._lanes.values():
            lane.close()
