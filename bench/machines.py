"""Two machines on one PostgreSQL whose clocks differ: is a task worked on twice?

Each machine is a home with a daemon of its own; the second one's clock is ahead or behind. Workers
of both take tasks from one queue and report while they work, and the second daemon is started anew
every few seconds meanwhile. A claim is a line of the worker's; what a worker lost is told by a
refusal.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from claims import run_server
from figures import Figure, count_of
from homes import COMMAND, make_home, start_home_daemon

from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.home import Home

AHEAD = (700, -700, 7200, -7200)
TASKS, WORKERS = 100, 8
LEASE = "30"
REPORTS, PAUSE = 4, 0.5
"""A worker reports so often while it works on a task, after so many seconds each."""
RESTART = 4.0
"""Seconds from one start of the second daemon to the next."""
SHIFTED = """
from datetime import timedelta
from openclaw_taskmem.clock import SystemClock
real = SystemClock.now
SystemClock.now = lambda clock: real(clock) + timedelta(seconds=%d)
from openclaw_taskmem.cli.main import main
main()
"""


class Machine:
    """A home on the database, with a daemon whose clock is so many seconds ahead."""

    def __init__(self, home: Home, url: str, ahead: int) -> None:
        """Start its daemon."""
        self._home = home
        self._program = (sys.executable, "-c", SHIFTED % ahead) if ahead else (COMMAND,)
        self._settings = {"TASKMEM_DATABASE_URL": url, "TASKMEM_LEASE_SECONDS": LEASE}
        self._process: subprocess.Popen[bytes] | None = None
        self.restart()

    def restart(self) -> None:
        """Start its daemon anew."""
        self.stop()
        self._process = start_home_daemon(self._home, self._program, **self._settings)

    def stop(self) -> None:
        """Stop its daemon."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def call(self, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - JSON
        """Call a tool as a person does; a daemon that starts anew is waited for.

        Raises:
            LinkError: The daemon refuses.
        """
        while True:
            try:
                with connect(self._home) as link:
                    return link.call("call", {"tool": tool, "arguments": arguments})
            except LinkError as error:
                if error.name != "daemon_unavailable":
                    raise
            time.sleep(0.05)


class Crowd:
    """The workers of both machines, and what they noted."""

    def __init__(self, machines: tuple[Machine, Machine]) -> None:
        self._machines = machines
        self._notes = threading.Lock()
        self.claimed: Counter[str] = Counter()
        """How often each task was claimed."""
        self.lost = 0
        """Reports that were refused, because another has the task."""

    def work(self, number: int) -> None:
        """Take tasks until none is queued."""
        machine = self._machines[number % 2]
        while True:
            try:
                run = machine.call("task_claim", role="builder")
            except LinkError:
                return
            task = run["task_id"]
            with self._notes:
                self.claimed[task] += 1
            given = {"task_id": task, "token": run["token"]}
            try:
                for report in range(REPORTS):
                    time.sleep(PAUSE)
                    machine.call("task_update", **given, message=f"Still at it, {report}.")
                machine.call("task_update", **given, completed_steps=[1], status="completed")
            except LinkError:
                with self._notes:
                    self.lost += 1


def claim_across_clocks() -> Iterator[Figure | str]:
    """Count the tasks that workers of two machines claimed twice, by how their clocks differ."""
    for ahead in AHEAD:
        with ExitStack() as stack:
            url = stack.enter_context(run_server())
            homes = [stack.enter_context(make_home()) for _ in range(2)]
            first, second = (
                Machine(home, url, at) for home, at in zip(homes, (0, ahead), strict=True)
            )
            stack.callback(first.stop)
            stack.callback(second.stop)
            for number in range(TASKS):
                first.call("task_register", name=f"Build {number}", plan=["Make"], role="builder")
            crowd = Crowd((first, second))
            workers = [threading.Thread(target=crowd.work, args=(n,)) for n in range(WORKERS)]
            for worker in workers:
                worker.start()
            while any(worker.is_alive() for worker in workers):
                time.sleep(RESTART)
                second.restart()
        twice = sum(times > 1 for times in crowd.claimed.values())
        yield count_of(f"clocks {ahead:+} s apart: tasks claimed twice", twice, TASKS)
        yield count_of(f"clocks {ahead:+} s apart: claims lost", crowd.lost, TASKS)
        yield count_of(f"clocks {ahead:+} s apart: not claimed", TASKS - len(crowd.claimed), TASKS)
