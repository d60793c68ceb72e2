"""Waiting for something that another process does; bounded, and never by the clock."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from typing import IO, TypeVar

T = TypeVar("T")

PATIENCE = 60.0
"""Bounds every wait of a test in seconds; none takes it unless something broke."""
LOOK = 0.02
"""Seconds between two looks at what cannot tell by itself that it changed."""


def until(condition: Callable[[], T], what: str) -> T:
    """Look again and again until a condition holds, and return what it gave."""
    never = threading.Event()
    for _ in range(int(PATIENCE / LOOK)):
        if found := condition():
            return found
        never.wait(LOOK)
    raise AssertionError(f"waited in vain: {what}")


class ProcessOutput:
    """The lines that a process writes, kept as they come."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._news = threading.Condition()
        self._lines: list[str] = []
        self._ended = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def lines(self) -> list[str]:
        """What was written so far."""
        with self._news:
            return [*self._lines]

    @property
    def text(self) -> str:
        """What was written so far, as one text."""
        return "\n".join(self.lines)

    def wait_for(self, part: str, times: int = 1) -> str | None:
        """Return the line in which a text stands so often; None: it never will."""
        found: list[str] = []

        def there() -> bool:
            found[:] = [line for line in self._lines if part in line]
            return len(found) >= times or self._ended

        with self._news:
            assert self._news.wait_for(there, PATIENCE), f"waited in vain: {part}"
        return found[times - 1] if len(found) >= times else None

    def join(self) -> list[str]:
        """Wait for the end, and return all that was written."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the pipe is still open"
        return self.lines

    def _read(self) -> None:
        with self._pipe as pipe:
            for line in pipe:
                with self._news:
                    self._lines.append(line.decode(errors="replace").rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


def status_of(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process to end, and return its status."""
    return process.wait(PATIENCE)
