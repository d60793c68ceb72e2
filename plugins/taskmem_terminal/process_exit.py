"""Notice the end of a process that is not our child, and describe how one ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterable


class ProcessExitWatcher:
    """Calls back after a process has ended, where the system supports it."""

    def __init__(self, call: Callable[[], None], after: Iterable[float] = (0,)) -> None:
        """Set the callback, and the delays after the end at which it is called. Seconds."""
        self._call = call
        self._after = after
        self._pid = 0
        self._handle = -1
        self._timers: list[asyncio.TimerHandle] = []

    def watch_process(self, pid: int) -> None:
        """Watch a process instead of the previous one; the same one changes nothing."""
        if pid == self._pid or not pid or not hasattr(os, "pidfd_open"):
            return
        self._release_handle()
        with contextlib.suppress(OSError):
            self._handle = os.pidfd_open(pid)
            self._pid = pid
            asyncio.get_running_loop().add_reader(self._handle, self._on_death)

    def close(self) -> None:
        """Stop calling back."""
        self._release_handle()
        for timer in self._timers:
            timer.cancel()

    def _on_death(self) -> None:
        pid = self._pid
        self._release_handle()
        self._pid = pid
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(each, self._call) for each in self._after]

    def _release_handle(self) -> None:
        if self._handle >= 0:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
        self._pid, self._handle = 0, -1


def describe_end(what: str, status: int | None) -> str:
    """Return a sentence on how something ended.

    Args:
        what: The subject of the sentence.
        status: The exit status; the negative number of the signal that ended it; None: unknown.
    """
    if status is None:
        return f"{what} ended."
    if status >= 0:
        return f"{what} ended with status {status}."
    with contextlib.suppress(ValueError):
        return f"{what} was ended by {signal.Signals(-status).name}."
    return f"{what} was ended by signal {-status}."
