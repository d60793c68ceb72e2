"""Turns the clock that taskmem asks: by the seconds in the file `turned` of its home.

Python imports it at its start where this folder is one of its packages, by `turned.pth`. Whatever
else asks for the time, and all that sleeps, goes by the real one.
"""

import os
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

with suppress(ImportError):
    from openclaw_taskmem.clock import SystemClock

    real = SystemClock.now

    def read_turned_clock(clock: SystemClock) -> datetime:
        """Return the instant that the file makes of the real one."""
        seconds = 0.0
        with suppress(OSError, ValueError):
            seconds = float(Path(os.environ["TASKMEM_HOME"], "turned").read_text())
        return real(clock) + timedelta(seconds=seconds)

    SystemClock.now = read_turned_clock
