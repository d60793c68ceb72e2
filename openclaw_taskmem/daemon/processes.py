"""Which process is which: a number alone is given to another one soon."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_STARTED: Final = 19
"""The place of the start among what follows the name in `/proc/<pid>/stat`."""
_PS_SECONDS: Final = 5.0


def identity(pid: int) -> str | None:
    """Return `<pid>:<start time>` of a process; None: there is none, or no telling."""
    started = _started(pid)
    return None if started is None else f"{pid}:{started}"


def lives(process: str) -> bool | None:
    """Whether the process of an identity lives; None: it was written by nobody here."""
    number, _, started = process.partition(":")
    if not number.isdigit() or not started:
        return None
    return _started(int(number)) == started


def _started(pid: int) -> str | None:
    if _PROC.joinpath("self", "stat").exists():
        return _started_linux(pid)
    return _started_ps(pid)


def _started_linux(pid: int) -> str | None:
    try:
        text = _PROC.joinpath(str(pid), "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name before it is in brackets, and may hold any of its own.
    fields = text.rpartition(")")[2].split()
    if len(fields) <= _STARTED or fields[0] in ("Z", "X"):
        return None
    return fields[_STARTED]


def _started_ps(pid: int) -> str | None:
    try:
        said = subprocess.run(  # noqa: S603 - a number, and no shell
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)],
            capture_output=True,
            check=False,
            text=True,
            timeout=_PS_SECONDS,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    return "-".join(said.split()) or None
