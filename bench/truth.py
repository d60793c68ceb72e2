"""What is true of a home's daemon, looked up by the system all the time.

Nothing of the product is asked: the lock's holder, the socket that listens and the
processes are what the kernel says (Linux).
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Literal, Self

from openclaw_taskmem.home import Home

EVERY = 0.002
"""Seconds between two looks."""
SLACK = 0.02
"""Seconds around a sentence in which what was true counts: where the machine is busy,
looks are that far apart."""
_ACCEPTS = "00010000"
"""The flag of a socket that listens, in `/proc/net/unix`."""

State = Literal["absent", "starting", "serving", "ending"]


@dataclass(frozen=True)
class Moment:
    """What is so from an instant on."""

    at: float
    state: State
    pid: int | None = None
    """Who holds the home."""
    born: float = 0.0
    """When that process began."""


class Truth:
    """Keeps what is true, and since when; a context manager that looks meanwhile."""

    def __init__(self, home: Home) -> None:
        """Take the home; it must be there."""
        self._home = home
        self._over = Event()
        self._thread = Thread(target=self._keep_looking, daemon=True)
        self._served: set[int] = set()
        self._born: dict[int, float] = {}
        self.moments = [Moment(time.monotonic(), "absent")]

    def __enter__(self) -> Self:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    @property
    def now(self) -> Moment:
        """What is so now."""
        return self.moments[-1]

    def list_moments(self, begin: float, end: float) -> list[Moment]:
        """Return all that was so in a time, and what was so when it began."""
        known = list(self.moments)
        first = max(n for n, each in enumerate(known) if n == 0 or each.at <= begin)
        return [each for each in known[first:] if each.at <= end]

    def _keep_looking(self) -> None:
        while not self._over.wait(EVERY):
            holder = self._find_holder()
            state: State = "absent"
            if holder is not None:
                if self._is_listening():
                    self._served.add(holder)
                    state = "serving"
                else:
                    state = "ending" if holder in self._served else "starting"
            if (state, holder) != (self.now.state, self.now.pid):
                at = time.monotonic()
                born = 0.0 if holder is None else self._find_birth(holder)
                self.moments.append(Moment(at, state, holder, born))

    def _find_holder(self) -> int | None:
        try:
            number = self._home.lock.stat().st_ino
        except FileNotFoundError:
            return None
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            held = (fields[1], fields[3]) == ("FLOCK", "WRITE")
            if held and fields[5].endswith(f":{number}"):
                return int(fields[4])
        return None

    def _is_listening(self) -> bool:
        path = str(self._home.socket)
        for line in Path("/proc/net/unix").read_text().splitlines():
            if line.endswith(path) and line.split()[3] == _ACCEPTS:
                return True
        return False

    def _find_birth(self, pid: int) -> float:
        if pid not in self._born:
            self._born[pid] = time.monotonic() - (measure_age(pid) or 0.0)
        return self._born[pid]


def measure_age(pid: int) -> float | None:
    """Return the seconds that a process has lived; None: it does not."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        if fields[0] not in "ZX":
            return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / 100
    return None
