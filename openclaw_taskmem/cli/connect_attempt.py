"""Connect to a daemon in the background."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from openclaw_taskmem.cli.client import Link, LinkError


class Attempt:
    """Connects to a daemon in its own thread; `over` becomes readable when it has ended."""

    def __init__(self, reach: Callable[[], Link]) -> None:
        """Begin; `reach` returns a link or raises `LinkError`."""
        self.over, self._end = socket.socketpair()
        self._found: Link | LinkError | None = None
        threading.Thread(target=self._run, args=(reach,), name="attempt", daemon=True).start()

    def take_result(self) -> Link | LinkError | None:
        """Return the link or the error, after the end; None: an unforeseen error."""
        self.over.close()
        return self._found

    def give_up(self) -> None:
        """Close the link when it comes, or now."""
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
            # The attempt was given up.
            if isinstance(self._found, Link):
                self._found.close()
