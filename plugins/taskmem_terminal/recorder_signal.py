"""How a recorder tells the daemon at once that there is something new.

A FIFO: writing a name costs microseconds, nobody has to be there to hear it, and who
listens sleeps until then.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

BELL: Final = ".doorbell"
"""The FIFO's name, in the folder of the recordings."""


def notify_daemon(root: Path, name: str) -> None:
    """Say that a recording has something new; never waits, never fails."""
    with contextlib.suppress(OSError):
        bell = os.open(root / BELL, os.O_WRONLY | os.O_NONBLOCK)
        try:
            if stat.S_ISFIFO(os.fstat(bell).st_mode):
                os.write(bell, f"{name}\n".encode())
        finally:
            os.close(bell)
