"""Kill a process with what it started (a file of its own: memories and gateways do it)."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill everything in the group that a process leads by SIGKILL; one that is gone is fine."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
