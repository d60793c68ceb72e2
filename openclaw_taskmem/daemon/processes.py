"""Identify processes by pid and start time, since pids are reused."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_STARTED: Final = 19
"""Index of the start time among the fields after the name in `/proc/<pid>/stat`."""
_PS_SECONDS: Final = 5.0
_TICKS: Final = "SC_CLK_TCK"
_ELAPSED: Final = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")
"""Days, hours, minutes and seconds, as `ps` writes them."""
_LONGEST_DAYS: Final = 36_500
"""Maximum age of a process: a hundred years."""
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def identify_process(pid: int) -> str | None:
    """Return `<pid>:<start time>` of a process; None if it does not exist or cannot be read."""
    try:
        started = _read_start_time(pid)
    except OSError:
        return None
    return None if started is None else f"{pid}:{started}"


def is_alive(process: str) -> bool | None:
    """Return True if the identified process is alive.

    None: the identity is not in this form, or the process cannot be read.
    """
    number, _, started = process.partition(":")
    if not _NUMBER.fullmatch(number) or not started:
        return None
    try:
        return _read_start_time(int(number)) == started
    except OSError:
        return None


def read_process_age(pid: int) -> float | None:
    """Return the age of a process in seconds; None if it does not exist or cannot be read.

    Counts the time that the machine slept, as start times do.
    """
    try:
        if not _PROC.joinpath("self", "stat").exists():
            return _parse_elapsed(_query_ps(pid, "etime="))
        started = _read_start_time_linux(pid)
    except OSError:
        return None
    if started is None:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(started) / os.sysconf(_TICKS)


def _parse_elapsed(elapsed: str) -> float | None:
    found = _ELAPSED.fullmatch(elapsed)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    if days > _LONGEST_DAYS:
        # ps rounds: a process that has just started gets a negative age, which ps prints
        # as an unsigned number.
        return 0.0
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _read_start_time(pid: int) -> str | None:
    """Return the start time of a process; None if no such process is alive.

    Raises:
        OSError: It could not look, which does not prove that the process has ended.
        SubprocessError: Likewise.
    """
    if _PROC.joinpath("self", "stat").exists():
        return _read_start_time_linux(pid)
    return _query_ps(pid, "lstart=").replace(" ", "-") or None


def _read_start_time_linux(pid: int) -> str | None:
    try:
        text = _PROC.joinpath(str(pid), "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name before the fields is in parentheses, and may contain some itself.
    fields = text.rpartition(")")[2].split()
    if len(fields) <= _STARTED or fields[0] in ("Z", "X"):
        return None
    return fields[_STARTED]


def _query_ps(pid: int, column: str) -> str:
    import subprocess

    try:
        said = subprocess.run(  # noqa: S603 - a number, and no shell
            ["/bin/ps", "-o", column, "-p", str(pid)],
            capture_output=True,
            check=False,
            text=True,
            timeout=_PS_SECONDS,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout
    except subprocess.SubprocessError as error:
        raise OSError(str(error)) from error
    return " ".join(said.split())
