"""Stopping the daemon of a home, and waiting until it is gone."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

from openclaw_taskmem.daemon.lock import holder
from openclaw_taskmem.home import Home

STEP_SECONDS: Final = 0.05
STEPS: Final = 400
"""Looks before giving up: 20 seconds in all."""


def stop(home: Home) -> tuple[str, int]:
    """Stop the daemon, and return a sentence with an exit status.

    None running is as good as stopped. Source: rulings, "exit status".
    """
    pid = holder(home.lock)
    if pid is None:
        return f"No daemon runs for {home.folder}.", 0
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return f"The daemon of {home.folder} has just ended.", 0
    for _ in range(STEPS):
        if holder(home.lock) != pid:
            return f"Process {pid} has stopped.", 0
        time.sleep(STEP_SECONDS)
    late = (
        f"Process {pid} has not stopped yet; look at {home.log}, or end it with "
        f"kill -9 {pid}: nothing that was answered is lost."
    )
    return late, 1
