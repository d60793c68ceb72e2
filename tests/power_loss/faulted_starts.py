"""A daemon starts in a fresh home while one operation after the other fails.

Each start is a fork of a process that has everything loaded: run it as a process of its own.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from openclaw_taskmem.daemon.startup import main as start_daemon
from openclaw_taskmem.home import Home, find_home
from taskmem_sqlmodel import hooks as _loaded_too  # noqa: F401
from tests.power_loss.faults import EVER, FAULTS, ONCE
from tests.power_loss.operations import Control
from tests.power_loss.recorder import Recorder
from tests.support.daemons import environment
from tests.support.waiting import until

SERVES = " serves "


class Ending(NamedTuple):
    """How a daemon ended."""

    status: int
    said: str
    failed: int
    """Operations that failed."""


def main(every: int) -> int:
    """Let each n-th operation of a start fail; print what was said how often."""
    for outcome, count in fail_starts(every).most_common():
        print(count, outcome)  # noqa: T201 - its caller reads it
    return 0


def fail_starts(every: int) -> Counter[str]:
    """Let each n-th operation of a start fail; return what was said how often."""
    outcomes: Counter[str] = Counter()
    for fault in FAULTS:
        for times in (ONCE, EVER):
            skipped = 0
            while (outcome := check_start(fault, skipped, times)) is not None:
                outcomes[outcome] += 1
                skipped += every
    return outcomes


def check_start(fault: int, skipped: int, times: int) -> str | None:
    """Start with a fault, then without; return what the first said; None: nothing failed."""
    with tempfile.TemporaryDirectory(prefix="tm") as folder:
        home = find_home({"TASKMEM_HOME": f"{folder}/h"})
        first = run_daemon(home, fault, skipped, times)
        if not first.failed:
            return None
        what = f"errno {fault} at operation {skipped}: {first}"
        if SERVES not in first.said:
            assert first.status == 1, what
            assert "Traceback" not in first.said, what
            assert first.said.endswith("."), what
        second = run_daemon(home)
        assert (SERVES in second.said, second.status) == (True, 0), (what, second)
        with closing(sqlite3.connect(home.database)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], what
        last = first.said.splitlines()[-1].replace(str(home.folder), "HOME")
        return "serves" if SERVES in first.said else last


def run_daemon(home: Home, fault: int = 0, skipped: int = 0, times: int = 0) -> Ending:
    """Run a daemon until it serves or ends."""
    beside = home.folder.parent
    said = beside / "said"
    said.unlink(missing_ok=True)
    (beside / "control").unlink(missing_ok=True)
    control = Control(beside / "control")
    control.skipped, control.times, control.fault = skipped, times, fault
    pid = os.fork()
    if not pid:
        become_daemon(home, control, said)
    ended: list[int] = []

    def is_over() -> bool:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            ended.append(os.waitstatus_to_exitcode(status))
        return bool(found) or (said.exists() and SERVES in said.read_text())

    until(is_over, "it serves or ends")
    if not ended:
        control.fault = 0
        os.kill(pid, signal.SIGTERM)
        ended.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return Ending(ended[0], said.read_text().strip(), control.failed)


def become_daemon(home: Home, control: Control, said: Path) -> None:
    """Be a daemon, in a fork, and end with it."""
    status = 2
    try:
        number = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(number, 1)
        os.dup2(number, 2)
        environ = environment(home)
        os.environ.clear()
        os.environ.update(environ)
        Recorder(home.folder, home.folder.parent / "journal", control).install()
        status = start_daemon(os.environ)
    finally:
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
