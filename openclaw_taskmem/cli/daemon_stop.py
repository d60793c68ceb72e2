"""Stop the daemon of a home, and wait until it has ended."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final

from openclaw_taskmem.daemon.lock import Lock, LockHeld, find_holder
from openclaw_taskmem.daemon.processes import is_alive
from openclaw_taskmem.home import Home

STEP_SECONDS: Final = 0.05
MOST_CHECKS: Final = 400
"""Checks before giving up: 20 seconds in all."""


def stop_daemon(home: Home) -> tuple[str, int]:
    """Stop the daemon; return a sentence and an exit status.

    If none runs, that is a success. Source: docs/origins.md, "Commands".
    """
    for _ in range(MOST_CHECKS):
        held = find_holder(home.lock)
        if held is None:
            _remove_socket(home)
            return f"No daemon runs for {home.folder}.", 0
        pid, process = held.pid, held.process
        if pid is not None and process is not None and is_alive(process):
            break
        # Another process has just taken the lock, and not written its id yet.
        time.sleep(STEP_SECONDS)
    else:
        nameless = (
            f"{home.lock} names no process that runs here, and one holds it. If taskmem restore "
            f"runs, wait for it; else find the process with `fuser {home.lock}`, and end it."
        )
        return nameless, 1
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return f"The daemon of {home.folder} has just ended.", 0
    except PermissionError:
        foreign = (
            f"Process {pid} is another user's, so it was not stopped; run taskmem "
            "daemon stop as the user who started it."
        )
        return foreign, 1
    for _ in range(MOST_CHECKS):
        if is_alive(process) is False:
            if find_holder(home.lock) is None:
                _remove_socket(home)
            return f"Process {pid} has stopped.", 0
        time.sleep(STEP_SECONDS)
    late = (
        f"Process {pid} has not stopped yet; look at {home.log}, or end it with "
        f"kill -9 {pid}: nothing that was answered is lost."
    )
    return late, 1


def _remove_socket(home: Home) -> None:
    """Remove the socket that a killed daemon left; relays would start a daemon because of it.

    A daemon that has started meanwhile holds the lock; its socket stays.
    """
    if not home.socket.exists():
        return
    with suppress(LockHeld, OSError):
        lock = Lock(home.lock, named=False)
        home.socket.unlink(missing_ok=True)
        lock.release()
