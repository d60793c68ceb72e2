"""One attempt to reach a daemon, which keeps nobody waiting meanwhile."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from openclaw_taskmem.cli.client import Link, LinkError


class Attempt:
    """Reaches a daemon on a thread of its own; `over` can be read once it has ended."""

    def __init__(self, reach: Callable[[], Link]) -> None:
        """Begin; `reach` returns a link, or raises why there is none."""
        self.over, self._end = socket.socketpair()
        self._found: Link | LinkError | None = None
        threading.Thread(target=self._run, args=(reach,), name="attempt", daemon=True).start()

    def take_result(self) -> Link | LinkError | None:
        """Return what came of it, once it has ended; None: what nobody foresaw."""
        self.over.close()
        return self._found

    def give_up(self) -> None:
        """Let a link that comes of it be closed."""
        self.over.close()
        if isinstance(self._found, Link):
            self._found.close()

    def _run(self, reach: Callable[[], Link]) -> None:
        try:
            self._found = reach()
        except LinkError as error:
            self._found = error
        finally:
            with self._end:
                self._signal_end()

    def _signal_end(self) -> None:
        try:
            self._end.send(b".")
        except OSError:
            # It was given up.
            if isinstance(self._found, Link):
                self._found.close()
