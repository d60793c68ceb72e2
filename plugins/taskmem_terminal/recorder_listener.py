"""The daemon's end of the FIFO through which recorders announce news."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from taskmem_terminal.recorder import BELL

_GULP_BYTES: Final = 65_536


class FifoListener:
    """Receives recorders' signals on the event loop where it was made."""

    def __init__(self, root: Path) -> None:
        """Create the FIFO in the folder of recordings, and listen.

        Anything else at its path, such as a regular file from a backup without FIFOs, is removed.

        Raises:
            OSError: The FIFO cannot be created.
        """
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = root / BELL
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISFIFO(path.lstat().st_mode):
                path.unlink()
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        # Opened for writing too: without a writer, reads would return end of file.
        self._bell = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
        self._cut = b""
        self._listeners: dict[str, list[Callable[[], None]]] = defaultdict(list)
        asyncio.get_running_loop().add_reader(self._bell, self._read_fifo)

    def listen(self, name: str, listener: Callable[[], None]) -> None:
        """Call `listener` for each signal of this recording."""
        self._listeners[name].append(listener)

    @property
    def watched_names(self) -> frozenset[str]:
        """Names of the recordings that have listeners."""
        return frozenset(self._listeners)

    def forget(self, name: str, listener: Callable[[], None]) -> None:
        """Stop calling `listener`."""
        self._listeners[name].remove(listener)
        if not self._listeners[name]:
            del self._listeners[name]

    def notify_listeners(self, name: str) -> None:
        """Signal from within this process."""
        for listener in tuple(self._listeners.get(name, ())):
            listener()

    def _read_fifo(self) -> None:
        try:
            fresh = os.read(self._bell, _GULP_BYTES)
        except OSError:
            return
        *names, self._cut = (self._cut + fresh).split(b"\n")
        self._cut = self._cut[-_GULP_BYTES:]
        for name in dict.fromkeys(names):
            self.notify_listeners(name.decode(errors="replace"))
