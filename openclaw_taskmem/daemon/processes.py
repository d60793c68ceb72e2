"""Identify processes, and tell whether one is alive.

Pids are reused, so a process is identified by its start time, too. psutil is imported where a
process is asked for: loading it takes as long as a whole command may.
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Final

_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def identify_process(pid: int) -> str | None:
    """Return `<pid>:<start>` of a process; None if it does not exist or cannot be read.

    The start is in clock ticks since the machine's on Linux, elsewhere in microseconds since 1970.
    """
    try:
        start = _read_start(pid)
    except OSError:
        return None
    return None if start is None else f"{pid}:{_format_start(start)}"


def is_alive(process: str) -> bool | None:
    """Return True if the identified process is alive.

    None: the identity is not in this form, or the process cannot be read.
    """
    pid, _, started = process.partition(":")
    if not _NUMBER.fullmatch(pid) or not _NUMBER.fullmatch(started):
        return None
    try:
        start = _read_start(int(pid))
    except OSError:
        return None
    return start is not None and _format_start(start) == started


def read_process_age(pid: int) -> float | None:
    """Return the age of a process in seconds; None if it does not exist or cannot be read.

    Counts the time that the machine slept, as start times do.
    """
    try:
        start = _read_start(pid)
    except OSError:
        return None
    if start is None:
        return None
    clock = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_REALTIME
    return time.clock_gettime(clock) - start


def read_host_age(process: str) -> float | None:
    """Return the age of an identified process's parent, in seconds; None: it has none, or unknown.

    It is the host of a relay, or the shell in which that has started it.
    """
    import psutil

    try:
        parent = psutil.Process(int(process.partition(":")[0])).ppid()
    except (psutil.Error, ValueError):
        return None
    return read_process_age(parent) if parent > 1 else None


def _read_start(pid: int) -> float | None:
    """Return when a process started, in seconds; no later change of the clock moves that.

    They count from the machine's start on Linux, elsewhere from 1970. None: no such process is
    alive.

    Raises:
        OSError: It could not look, which does not prove that the process has ended.
    """
    import psutil

    try:
        while True:
            # psutil adds the time of the machine's start, which moves when the clock is set.
            boot_time = psutil.boot_time()
            process = psutil.Process(pid)
            if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                return None
            created = process.create_time()
            if psutil.boot_time() == boot_time:
                return created - boot_time if sys.platform == "linux" else created
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied as error:
        raise PermissionError(str(error)) from error


def _format_start(start: float) -> str:
    ticks = os.sysconf("SC_CLK_TCK") if sys.platform == "linux" else 1_000_000
    return str(round(start * ticks))
