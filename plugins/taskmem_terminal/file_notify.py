"""Notify about changed files, with one system watch on all their folders."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from watchfiles import Change

_STEP_MS: Final = 20
"""How often events are fetched: half of the latency, and all of the idle cost. Milliseconds."""
_GATHER_MS: Final = 40
"""How long consecutive changes are merged. Milliseconds."""
_NUDGE_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 1.0


class _StopEvent:
    """Ends a watch. It is polled fifty times a second, so polling must be cheap."""

    def __init__(self) -> None:
        self._set = asyncio.Event()
        changes: list[bool] = []
        # A built-in's bound method is faster than a Python function.
        self.is_set: Callable[[], int] = changes.__len__
        self._say = changes.append

    def set(self) -> None:
        self._say(True)  # noqa: FBT003
        self._set.set()

    async def wait(self) -> None:
        await self._set.wait()


class FileChangeNotifier:
    """Calls back when one of the registered files changes."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._again: _StopEvent | None = None

    def listen(self, path: str, listener: Callable[[], None]) -> None:
        """Call `listener` when the file at an absolute path changes, appears or disappears."""
        fresh = path not in self._listeners
        self._listeners.setdefault(path, []).append(listener)
        if fresh:
            self._start()

    async def forget(self, path: str, listener: Callable[[], None]) -> None:
        """Stop calling `listener` for this path."""
        self._listeners[path].remove(listener)
        if self._listeners[path]:
            return
        del self._listeners[path]
        if self._listeners:
            self._start()
        elif self._task is not None:
            self._stop()
            task, self._task = self._task, None
            await task

    def _start(self) -> None:
        """Restart the watch with the current folders."""
        self._stop()
        if self._task is None:
            self._task = asyncio.create_task(self._watch())

    def _stop(self) -> None:
        if self._again is not None:
            self._again.set()

    async def _watch(self) -> None:
        from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]

        loop = asyncio.get_running_loop()
        while self._listeners:
            self._again = _StopEvent()
            folders = _list_parent_folders(self._listeners)
            # Changes between two watches are missed, so have the listeners look once.
            nudge = loop.call_later(_NUDGE_SECONDS, self._notify_listeners, *self._listeners)
            try:
                if folders:
                    async for changes in awatch(
                        *folders,
                        watch_filter=self._is_watched_path,
                        step=_STEP_MS,
                        debounce=_GATHER_MS,
                        rust_timeout=60_000,
                        stop_event=cast("Any", self._again),
                        recursive=False,
                    ):
                        self._notify_listeners(*{path for _, path in changes})
            except (OSError, RuntimeError):
                pass  # a folder that went away; looked for again
            finally:
                nudge.cancel()
            if not self._again.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_SECONDS):
                        await self._again.wait()

    def _is_watched_path(self, _change: Change, path: str) -> bool:
        return path in self._listeners

    def _notify_listeners(self, *paths: str) -> None:
        for path in paths:
            for listener in tuple(self._listeners.get(path, ())):
                listener()


def _list_parent_folders(paths: Iterable[str]) -> list[Path]:
    return sorted({Path(path).parent for path in paths if Path(path).parent.is_dir()})
