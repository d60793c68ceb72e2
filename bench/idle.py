"""What a daemon costs that has nothing to do, with an MCP host connected and without."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

from figures import Figure, amount
from homes import COMMAND, build_environment, fill_home, make_home, run_taskmem, serve_home
from host import Host
from machine import count_wakeups, measure_cpu_seconds, measure_memory

SECONDS = 60
SETTLED = 5
"""Seconds after which a daemon is done with starting."""
HOMES = {
    "a fresh home": (0, True),
    "20,000 active tasks": (20_000, True),
    "a fresh home, no MCP host": (0, False),
}
"""How many tasks each home has, and whether an MCP host is connected."""


def idle_daemon() -> Iterator[Figure]:
    """Measure three daemons side by side over the same minute."""
    with ExitStack() as stack:
        pids = {
            what: _start_idle_daemon(stack, tasks, mcp=mcp) for what, (tasks, mcp) in HOMES.items()
        }
        time.sleep(SETTLED)
        before = {
            what: (measure_cpu_seconds(pid), count_wakeups(pid)) for what, pid in pids.items()
        }
        start = time.monotonic()
        time.sleep(SECONDS)
        passed = time.monotonic() - start
        for what, pid in pids.items():
            used = measure_cpu_seconds(pid) - before[what][0]
            woken = count_wakeups(pid) - before[what][1]
            rss, pss = measure_memory(pid)
            yield amount(f"idle, {what}: CPU", [100 * used / passed], "%", 0.2)
            yield amount(f"idle, {what}: wake-ups", [woken], "a minute")
            yield amount(f"idle, {what}: RSS", [rss], "MB", 100)
            yield amount(f"idle, {what}: PSS", [pss], "MB")


def _start_idle_daemon(stack: ExitStack, tasks: int, *, mcp: bool) -> int:
    home = stack.enter_context(make_home())
    if tasks:
        fill_home(home, tasks)
    pid = stack.enter_context(serve_home(home))
    given = {"name": "Idle", "plan": ["Look", "Do", "Check"]}
    if mcp:
        host = stack.enter_context(Host((COMMAND, "mcp"), build_environment(home)))
        host.shake_hands()
        host.ask("tools/list", {})
        host.call("task_register", given)
    else:
        run_taskmem(home, ("call", "task_register", json.dumps(given)))
    return pid
