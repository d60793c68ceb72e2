"""Signal the daemon through a FIFO that a recording has something new.

Writing a name costs microseconds and needs no reader; the reader sleeps until then.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

BELL: Final = ".doorbell"
"""Name of the FIFO, in the folder of recordings."""


def notify_daemon(root: Path, name: str) -> None:
    """Announce news of a recording; never blocks, never fails."""
    with contextlib.suppress(OSError):
        bell = os.open(root / BELL, os.O_WRONLY | os.O_NONBLOCK)
        try:
            if stat.S_ISFIFO(os.fstat(bell).st_mode):
                os.write(bell, f"{name}\n".encode())
        finally:
            os.close(bell)
