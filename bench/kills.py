"""A relay and a daemon are killed: how soon their work goes on."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from figures import Figure, amount
from homes import COMMAND, PLAN, build_environment, make_home, serve_home
from host import Host

from openclaw_taskmem.daemon.lock import find_holder
from openclaw_taskmem.home import Home

ROUNDS = int(os.environ.get("TASKMEM_BENCH_ROUNDS", "20"))
PATIENCE = 60.0
ROLE = {"role": "builder"}


def kill_role() -> Iterator[Figure | str]:
    """A role's relay is killed: how soon it comes back and has its work again."""
    load = os.getloadavg()
    claimed: list[float] = []
    queued: list[float] = []
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        stack.enter_context(serve_home(home))
        asks = stack.enter_context(start_host(home))
        for number in range(ROUNDS):
            task = call_tool(asks, "task_register", name=f"Task {number}", plan=PLAN)
            killed = kill_holder(home, str(task["task_id"]))
            with start_host(home) as again:
                wait_until(lambda again=again: claim_next(again), "the role has its work again")
                claimed.append(time.monotonic() - killed)
                call_tool(again, "task_update", task_id=task["task_id"], status="completed")
            task = call_tool(asks, "task_register", name="Nobody comes", plan=PLAN)
            killed = kill_holder(home, str(task["task_id"]))
            is_queued = "SELECT 1 FROM runs WHERE task_id = ? AND state = 'queued'"
            wait_until(lambda sql=is_queued, t=task: fetch_row(home, sql, t["task_id"]), "queued")
            queued.append(time.monotonic() - killed)
            call_tool(asks, "task_update", task_id=task["task_id"], status="completed")
    yield amount("kill of a role's relay to its work claimed again", claimed, "s", 2)
    yield amount("kill of a role's relay to its work queued", queued, "s")
    yield describe_load(load)


def kill_daemon() -> Iterator[Figure | str]:
    """A daemon is killed: how soon the wake comes of what was due meanwhile."""
    load = os.getloadavg()
    told = {alone: [kill_one_daemon(alone=alone) for _ in range(ROUNDS)] for alone in (1, 0)}
    for alone, what in ((1, "a relay alone"), (0, "a relay, and `taskmem wait`")):
        answers = [answer for answer, _ in told[alone]]
        wakes = [wake for _, wake in told[alone]]
        yield amount(f"kill of the daemon until the next one has the home: {what}", answers, "s")
        yield amount(f"kill of the daemon to the wake: {what}", wakes, "s", 5)
    yield describe_load(load)


def kill_one_daemon(*, alone: bool) -> tuple[float, float]:
    """Kill a daemon, and return the seconds until the next has the home, and the wake.

    What is waited for comes while there is none. `alone`: no command waits besides.
    """
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        stack.callback(end_daemon, home)
        host = stack.enter_context(start_host(home))
        log = home.folder / "work.log"
        log.write_text("begun\n")
        task = call_tool(host, "task_register", name="Deploy", plan=PLAN)
        wait = call_tool(
            host,
            "smart_wait",
            target=f"pty:file:{log}",
            wake_when='"DONE" appears',
            task_id=task["task_id"],
        )
        command: subprocess.Popen[bytes] | None = None
        if not alone:
            before = count_connections(home)
            command = subprocess.Popen(
                [COMMAND, "wait", wait["wait_id"]],
                stdout=subprocess.DEVNULL,
                env=build_environment(home),
            )
            stack.callback(command.kill)
            wait_until(lambda: count_connections(home) > before, "the command connects")
        pid = find_home_holder(home)
        assert pid is not None  # noqa: S101 - it has just answered
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        with log.open("a") as more:
            more.write("DONE\n")
        wait_until(lambda: find_home_holder(home) not in (None, pid), "another daemon is there")
        answered = time.monotonic() - killed
        if command is None:
            sql = "SELECT 1 FROM wakes WHERE wait_id = ?"
            wait_until(lambda: fetch_row(home, sql, wait["wait_id"]), "the wake is there")
        else:
            command.wait(PATIENCE)
        return answered, time.monotonic() - killed


# --- what each round is made of -----------------------------------------------


def start_host(home: Home) -> Host:
    """Return a plain MCP host's session with a relay of its own, which said hello."""
    host = Host((COMMAND, "mcp"), build_environment(home))
    host.shake_hands()
    return host


def find_home_holder(home: Home) -> int | None:
    """Return the process that holds a home; None: nobody does, or none is named."""
    held = find_holder(home.lock)
    return held.pid if held else None


def kill_holder(home: Home, task_id: str) -> float:
    """Let a role claim a task and note something, kill it, and return when."""
    host = start_host(home)
    call_tool(host, "task_claim", task_id=task_id, **ROLE)
    call_tool(host, "task_update", task_id=task_id, message="Built, not pushed.")
    host.process.kill()
    killed = time.monotonic()
    host.process.communicate()
    return killed


def claim_next(host: Host) -> bool:
    """Whether the role has the next of its queue now."""
    asked = {"name": "task_claim", "arguments": ROLE}
    return not host.ask("tools/call", asked).get("isError")


def call_tool(host: Host, tool: str, **arguments: object) -> dict[str, Any]:
    """Call a tool, and return what it answers."""
    result = host.ask("tools/call", {"name": tool, "arguments": arguments})
    answer = json.loads(result["content"][0]["text"])
    if result.get("isError"):
        raise SystemExit(f"{tool} refused: {answer}")
    return dict(answer)


def fetch_row(home: Home, sql: str, *values: object) -> object:
    """Return the first row that a home's database has; None: none, or it is locked."""
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{home.database}?mode=ro", uri=True)) as database,
    ):
        return database.execute(sql, values).fetchone()
    return None


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Look again and again, every few milliseconds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"waited in vain: {what}")
        time.sleep(0.005)


def count_connections(home: Home) -> int:
    """Count the connections that a home's daemon has taken; on Linux alone."""
    taken = " 03 "  # the kernel's number of a socket that is connected
    rows = Path("/proc/net/unix").read_text().splitlines()
    return sum(row.endswith(f" {home.socket}") and taken in row for row in rows)


def end_daemon(home: Home) -> None:
    """End the daemon that a relay has started."""
    if (pid := find_home_holder(home)) is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: find_home_holder(home) is None, "the daemon ends")


def describe_load(before: tuple[float, float, float]) -> str:
    """Return the load of the machine before and after, in a sentence."""
    one, other = before[0], os.getloadavg()[0]
    return f"Load average of the minute before: {one:.1f}; of the last: {other:.1f}."
