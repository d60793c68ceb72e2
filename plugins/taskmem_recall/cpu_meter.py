"""Count the time on a processor of some work, in a process that does other work beside it."""

from __future__ import annotations

import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class CpuMeter:
    """Counts what is called and awaited through it; may be used from several threads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Time on a processor so far."""
        self._lock = threading.Lock()

    def call(self, function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Call a function in this thread."""
        before = time.thread_time()
        try:
            return function(*given, **named)
        finally:
            spent = time.thread_time() - before
            with self._lock:
                self.seconds += spent

    @types.coroutine
    def run(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Await a coroutine, and count its own steps: not what else runs while it waits."""
        step = partial(work.send, None)
        while True:
            try:
                awaited = self.call(step)
            except StopIteration as ended:
                found: T = ended.value
                return found
            try:
                step = partial(work.send, (yield awaited))
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's
                step = partial(work.throw, error)
