"""Run each plug-in's coroutines on an event loop of its own, so that it blocks only itself.

The threads are daemon threads: a call that never returns does not delay the process's end. The
sources of `memory_recall` do their background work there, too.
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
from openclaw_taskmem.plugin_host.plugin_host import PluginHost, format_error
from taskmem_hookspecs import BackgroundSource, Clock, RecallSource

log = logging.getLogger(__name__)
T = TypeVar("T")
CLEAN_UP_SECONDS: Final = 2.0
"""How long cancelled calls may clean up, for example kill programs that they run."""
CLOSE_SECONDS: Final = CLEAN_UP_SECONDS + 0.5
"""How long a loop may take to end."""


class PluginCallCancelled(Exception):
    """The plug-in's coroutine raised CancelledError or another BaseException."""


class LoopCallQueue:
    """Posts calls from one loop to another; all calls of one loop iteration go together.

    Waking a loop costs more than most calls, and waits that share a target all look at once.
    """

    def __init__(
        self, sender: asyncio.AbstractEventLoop, receiver: asyncio.AbstractEventLoop
    ) -> None:
        """Create a queue from the loop that posts calls to the loop that runs them."""
        self.sender = sender
        self._receiver = receiver
        self._calls: list[Callable[[], object]] = []

    def post(self, call: Callable[[], object]) -> None:
        """Have a call run soon and in order; never if the receiving loop is closed."""
        if not self._calls:
            self.sender.call_soon(self._send_calls)
        self._calls.append(call)

    def _send_calls(self) -> None:
        calls, self._calls = self._calls, []
        if not self._receiver.is_closed():
            self._receiver.call_soon_threadsafe(self._schedule_calls, calls)

    def _schedule_calls(self, calls: Sequence[Callable[[], object]]) -> None:
        for call in calls:
            # Each on its own, so that one that fails does not stop the next.
            self._receiver.call_soon(call)


class PluginLoop:
    """One event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        """Start the loop; `name` names the thread."""
        self._loop = asyncio.new_event_loop()
        self._mail: dict[asyncio.AbstractEventLoop, tuple[LoopCallQueue, LoopCallQueue]] = {}
        """Queues to and from this loop, for each calling loop: the daemon's and other plug-ins'."""
        self._open: set[asyncio.Future[Any]] = set()
        """Futures of calls without an answer yet."""
        self._end: asyncio.Task[None] | None = None
        """Task that cancels all others; None: the loop was not told to end."""
        self._closed = False
        self._closing = threading.Lock()
        """Held so that no call is added after `close` has listed the calls to cancel."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def close(self) -> None:
        """Cancel every call and end the loop; leave a blocked one behind.

        A second call only waits for the end.
        """
        self.begin_close()
        self._thread.join(CLOSE_SECONDS)

    def begin_close(self) -> None:
        """Begin to close, without waiting for the end."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            loops = [*self._open]
        for answer in loops:
            # The caller's loop may be closed.
            with contextlib.suppress(RuntimeError):
                answer.get_loop().call_soon_threadsafe(answer.cancel)
        # A plug-in may have stopped this loop.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._start_shutdown)

    def _start_shutdown(self) -> None:
        self._end = self._loop.create_task(self._cancel_all())

    async def _cancel_all(self) -> None:
        """Cancel all tasks on this loop, and stop it once they have cleaned up."""
        running = asyncio.all_tasks() - {self._end}
        for task in running:
            task.cancel()
        if running:
            _, pending = await asyncio.wait(running, timeout=CLEAN_UP_SECONDS)
            if pending:
                log.warning("%s does not end; going on without", self._thread.name)
        # One iteration for done callbacks, and one to post their results.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # Silence asyncio's reports on the tasks that are left.
        self._loop.set_exception_handler(lambda _loop, _details: None)
        self._loop.stop()

    async def call(self, begin: Callable[[], Awaitable[T]]) -> T:
        """Run an awaitable on this loop, and return or raise its result.

        Cancelling the call cancels the awaitable without waiting for it.

        Raises:
            RuntimeError: The loop is closed.
        """
        here = asyncio.get_running_loop()
        answer: asyncio.Future[T] = here.create_future()
        with self._closing:
            if self._closed or self._loop.is_closed():
                raise RuntimeError("The loop is closed.")
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
            # `close` cancels it once; a second time would interrupt its cleanup.
            if not self._closed:
                there.post(visit.cancel)
            raise
        finally:
            self._open.discard(answer)


class _LoopCall(Generic[T]):
    """One call: runs on the plug-in's loop, answers on the caller's."""

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
    """Return the error of a call; None if it succeeded.

    A cancelled or ended coroutine becomes `PluginCallCancelled`: CancelledError would make the
    caller look cancelled itself.
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
        # A plain value is already the result; awaiting it would raise.
        return await answer if inspect.isawaitable(answer) else cast("T", answer)
    except (SystemExit, KeyboardInterrupt) as error:
        raise TriedToEnd(f"it tried to end the process: {error!r}") from error


class PluginLoops:
    """The event loops of the plug-ins, each created on first use."""

    def __init__(self) -> None:
        self._plugin_loops: dict[str, PluginLoop] = {}
        self._making = threading.Lock()

    def get_loop(self, part: object) -> PluginLoop:
        """Return the loop of the plug-in that defines an object's class."""
        package = type(part).__module__.partition(".")[0]
        with self._making:
            if package not in self._plugin_loops:
                self._plugin_loops[package] = PluginLoop(package)
            return self._plugin_loops[package]

    def close(self) -> None:
        """Close every loop."""
        for plugin_loop in self._plugin_loops.values():
            plugin_loop.begin_close()
        for plugin_loop in self._plugin_loops.values():
            plugin_loop.close()


# --- background work of sources ------------------------------------------------------------


FIRST_PAUSE: Final = 1.0
"""Seconds before work that failed is started again; doubled after each further failure."""
_LONGEST_PAUSE: Final = 300.0


async def run_sources(
    sources: Sequence[RecallSource],
    plugin_host: PluginHost,
    plugin_loops: PluginLoops,
    clock: Clock,
) -> None:
    """Run the work of all sources until it returns or this is cancelled."""
    async with asyncio.TaskGroup() as group:
        for source in sources:
            if isinstance(source, BackgroundSource):
                group.create_task(_keep_running(source, plugin_host, plugin_loops, clock))


async def _keep_running(
    source: BackgroundSource, plugin_host: PluginHost, plugin_loops: PluginLoops, clock: Clock
) -> None:
    """Run a source's work until it returns; record its failures, and pause after each."""
    pause = FIRST_PAUSE
    while True:
        began = clock.monotonic()
        try:
            return await plugin_loops.get_loop(source).call(source.run)
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            plugin_host.record_failure(source, f"{type(source).__name__}.run", error)
        if clock.monotonic() - began > _LONGEST_PAUSE:
            pause = FIRST_PAUSE
        await clock.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
