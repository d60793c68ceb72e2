"""One event loop with its threads, in virtual time; a seed chooses what runs next.

Threads are greenlets: one runs until it pauses, waits or ends. They pause where another thread
could matter, which is before each access to the store, and before they take a lock.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from greenlet import GreenletExit, getcurrent, greenlet

DAWN: Final = datetime(2026, 2, 16, 6, 0, tzinfo=UTC)
TICKS: Final = 64
"""Instants of a second, each a whole number of microseconds: sums of times are exact."""
MOST_LOOP_STEPS: Final = 200_000
"""Steps without any time passing after which the loop is said to spin."""
THREADS: Final = 32
"""Threads of the loop's default pool."""


class LoopSpins(Exception):
    """The loop never comes to rest."""


class SimulatedThread:
    """A call in a thread of its own."""

    def __init__(self, loop: SimulatedLoop, call: Callable[[], object]) -> None:
        self.answer: asyncio.Future[Any] = loop.create_future()
        self.pool: object = None
        self.loop = loop
        self._call = call
        self._greenlet = greenlet(self._run, parent=loop.hub)

    def step(self) -> None:
        """Run it until it pauses, waits or ends; called by the loop."""
        self._greenlet.switch()

    def leave(self) -> None:
        """Go back to the loop; called in the thread."""
        self.loop.hub.switch()

    def kill(self) -> None:
        """End it wherever it is."""
        while not self._greenlet.dead:
            self._greenlet.throw(GreenletExit)

    def _run(self) -> None:
        try:
            result = self._call()
        except GreenletExit:
            return
        except BaseException as error:
            self.loop.call_soon(self._settle, None, error)
        else:
            self.loop.call_soon(self._settle, result, None)
        self.loop.end_thread(self)

    def _settle(self, result: object, error: BaseException | None) -> None:
        if self.answer.done():
            return
        if error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(result)


class SimulatedLock:
    """A lock of threads."""

    def __init__(self, loop: SimulatedLoop, preempts: float) -> None:
        """`preempts`: the chance that a thread pauses before it takes the lock."""
        self._loop = loop
        self._preempts = preempts
        self._holder: object = None
        self._waiting: deque[SimulatedThread] = deque()

    def __enter__(self) -> None:
        thread = self._loop.thread
        self._loop.pause(self._preempts)
        while self._holder is not None:
            if thread is None:
                raise LoopSpins("the event loop waits for a lock that a thread holds")
            self._waiting.append(thread)
            thread.leave()
        self._holder = thread or self

    def __exit__(self, *_: object) -> None:
        self._holder = None
        if self._waiting:
            self._loop.resume(self._waiting.popleft())


class _Call:
    """A call that the loop will make: what asyncio's handles do, without their checks."""

    __slots__ = ("_args", "_call", "_context", "_loop", "ended")

    def __init__(
        self,
        loop: SimulatedLoop,
        call: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> None:
        self._loop = loop
        self._call = call
        self._args = args
        self._context = context or copy_context()
        self.ended = False
        """True once it was cancelled."""

    def cancel(self) -> None:
        self.ended = True

    def cancelled(self) -> bool:
        return self.ended

    def run(self) -> None:
        try:
            self._context.run(self._call, *self._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            said = f"Exception in callback {self._call!r}"
            self._loop.call_exception_handler({"message": said, "exception": error})


class SimulatedLoop(asyncio.AbstractEventLoop):
    """An event loop whose threads and timers belong to it."""

    def __init__(self, start: float = 0.0, *, in_order: bool = True) -> None:
        """`in_order`: callbacks run first come, first served, as in asyncio."""
        self.hub: Final = getcurrent()
        self.choose = Random(0)
        self.thread: SimulatedThread | None = None
        """The thread that runs."""
        self.halted = False
        """True if the process has died: nothing runs any more."""
        self.faults: list[str] = []
        """What asyncio reported."""
        self._in_order = in_order
        self._now = start
        self._order = itertools.count()
        self._ready: deque[_Call] = deque()
        self._timers: list[tuple[float, int, _Call]] = []
        self._runnable: list[SimulatedThread] = []
        self._behind: deque[SimulatedThread] = deque()
        """Threads that go on once nothing else can."""
        self._threads: dict[SimulatedThread, None] = {}
        self._queued: defaultdict[object, deque[SimulatedThread]] = defaultdict(deque)
        self._busy: defaultdict[object, int] = defaultdict(int)

    # --- what asyncio calls ---------------------------------------------------

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self.halted

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, **options)

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        handle = _Call(self, callback, args, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> Any:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> Any:
        handle = _Call(self, callback, args, context)
        heapq.heappush(self._timers, (_ceil_to_tick(when), next(self._order), handle))
        return handle

    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        thread = SimulatedThread(self, lambda: func(*args))
        thread.pool = executor
        self._threads[thread] = None
        if self._busy[executor] < getattr(executor, "_max_workers", THREADS):
            self._busy[executor] += 1
            self._runnable.append(thread)
        else:
            self._queued[executor].append(thread)
        return thread.answer

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.halted:
            error = context.get("exception")
            self.faults.append(f"{context.get('message')}: {error!r}")

    # --- what threads call ----------------------------------------------------

    def pause(self, chance: float) -> None:
        """Perhaps let others run before the thread goes on, sometimes all that can."""
        thread = self.thread
        if thread is not None and (drawn := self.choose.random()) < chance:
            (self._behind if drawn < chance / 2 else self._runnable).append(thread)
            thread.leave()

    def join(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop, and wait in the thread until it has ended."""
        thread = self.thread
        assert thread is not None
        task = self.create_task(coroutine)
        task.add_done_callback(lambda _: self.resume(thread))
        thread.leave()
        return task.result()

    def resume(self, thread: SimulatedThread) -> None:
        """Let a waiting thread go on."""
        self._runnable.append(thread)

    def end_thread(self, thread: SimulatedThread) -> None:
        """Give its place in the pool to the next."""
        del self._threads[thread]
        if queued := self._queued[thread.pool]:
            self._runnable.append(queued.popleft())
        else:
            self._busy[thread.pool] -= 1

    # --- what the simulation calls --------------------------------------------

    @contextmanager
    def enter_loop(self) -> Generator[None]:
        """Be the running loop."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    def run_some(self, steps: int) -> None:
        """Run that many steps, or fewer if there are no more."""
        with self.enter_loop():
            self._run_up_to(steps)

    def run_ready(self) -> None:
        """Run until everything waits for time to pass."""
        with self.enter_loop():
            if self._run_up_to(MOST_LOOP_STEPS):
                raise LoopSpins(f"it does not rest within {MOST_LOOP_STEPS} steps")

    def advance(self, seconds: float, more: float = 0.0) -> None:
        """Let time pass, and run what it makes due; then some more that runs nothing yet."""
        end = max(self._now, _ceil_to_tick(self._now + seconds))
        self.run_ready()
        while not self.halted and self._timers and self._timers[0][0] <= end:
            self._now = max(self._now, self._timers[0][0])
            self.run_ready()
        if not self.halted:
            self._now = end + more

    def die(self) -> None:
        """Stop as a killed process does; called anywhere, does not return in a thread."""
        self.halted = True
        if self.thread is not None:
            self.thread.leave()

    def bury(self) -> None:
        """Drop all tasks and threads of a loop that has halted."""
        self.halted = True
        with self.enter_loop(), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # some have not begun
            for thread in [*self._threads]:
                thread.kill()
            for task in asyncio.all_tasks(self):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro())
            self._ready.clear()
            self._timers.clear()

    def _run_up_to(self, steps: int) -> bool:
        """Run up to so many steps; return whether all were needed."""
        ready, runnable, timers = self._ready, self._runnable, self._timers
        draw, pick = self.choose.random, self.choose.randrange
        for _ in range(steps):
            if self.halted:
                return False
            while timers and timers[0][0] <= self._now:
                handle = heapq.heappop(timers)[2]
                if not handle.ended:
                    ready.append(handle)
            if runnable and (not ready or draw() < 0.5):
                self.thread = runnable.pop(pick(len(runnable)) if len(runnable) > 1 else 0)
                self.thread.step()
                self.thread = None
                continue
            if not ready and self._behind:
                runnable.append(self._behind.popleft())
                continue
            if not ready:
                return False
            if not self._in_order and len(ready) > 1:
                ready.rotate(-pick(len(ready)))
            handle = ready.popleft()
            if not handle.ended:
                handle.run()
        return True


def _ceil_to_tick(seconds: float) -> float:
    return math.ceil(seconds * TICKS) / TICKS


class SimulatedClock:
    """The `Clock` of a loop, whose wall clock jumps when told."""

    def __init__(self) -> None:
        self.loop: SimulatedLoop | None = None
        self.began = DAWN
        self.jumped = 0.0
        """Seconds by which the wall clock was set, in all."""
        self.advanced = 0.0
        """Seconds by which it was set forward, in all."""
        self.jumps = 0
        """How often it was set."""
        self.set_to = DAWN
        """The instant that it was set to last."""
        self.read_before: datetime | None = None
        """The latest instant that work under way may have read before the clock was set."""

    def now(self) -> datetime:
        return DAWN + timedelta(seconds=self.monotonic() + self.jumped)

    def jump(self, seconds: float) -> None:
        """Set the wall clock; what is under way may have read it before."""
        self.read_before = max(self.now(), self.read_before or DAWN)
        self.jumped += seconds
        self.advanced += max(0.0, seconds)
        self.jumps += 1
        self.set_to = self.now()

    def monotonic(self) -> float:
        return self.loop.time() if self.loop is not None else 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _close(coroutine: Any) -> None:
    """Close a coroutine, also one that wants to await something first."""
    for _ in range(100):
        with suppress(BaseException):
            coroutine.close()
            return
