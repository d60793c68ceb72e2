"""Kill a process with what it started, and tell what it said."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import Final

_LONGEST: Final = 300


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill everything in the group that a process leads by SIGKILL; one that is gone is fine."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def find_last_line(text: str) -> str:
    """Return the last line of what a process said, shortened; empty: it said nothing."""
    lines = text.strip().splitlines()
    return lines[-1].strip()[:_LONGEST] if lines else ""
