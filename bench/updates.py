"""`task_update(message)` over MCP: against an echo, a small store, in a crowd."""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Self

from figures import Figure, amount, millis, rate, ratio, sample_in_turns
from homes import COMMAND, build_environment, fill_home, make_home, serve_home
from host import Host
from machine import measure_cpu_seconds

MANY, FEW = 20_000, 10
SAMPLES = 3000
WARM = 300
CLIENTS = 16
ROUNDS, ROUND_SECONDS = 7, 2.0
ECHO = (sys.executable, str(Path(__file__).with_name("echo_server.py")))
SAID = (
    "Read through the build log of try {}: the linker flag was wrong, so I changed "
    "it in the Makefile and started the build again."
)


def update_over_mcp() -> Iterator[Figure]:
    """Measure one agent: an echo, 10 tasks and 20,000 tasks in turns."""
    with ExitStack() as stack:
        few, many = stack.enter_context(make_home()), stack.enter_context(make_home())
        few_ids, many_ids = fill_home(few, FEW), fill_home(many, MANY)
        stack.enter_context(serve_home(few))
        pid = stack.enter_context(serve_home(many))
        hosts = {
            "echo": Host(ECHO, build_environment(few)),
            "few": Host((COMMAND, "mcp"), build_environment(few)),
            "many": Host((COMMAND, "mcp"), build_environment(many)),
        }
        for host in hosts.values():
            stack.enter_context(host).shake_hands()
        ways = {
            "echo": make_update_timer(hosts["echo"], "echo", many_ids),
            "few": make_update_timer(hosts["few"], "task_update", few_ids),
            "many": make_update_timer(hosts["many"], "task_update", many_ids),
            "sqlite": stack.enter_context(_Sqlite(many.folder / "floor.db")).insert,
        }
        sample_in_turns(WARM, **ways)
        pids = {"echo": (hosts["echo"].process.pid,), "ours": (hosts["many"].process.pid, pid)}
        before = {name: sum(map(measure_cpu_seconds, some)) for name, some in pids.items()}
        times = sample_in_turns(SAMPLES, **ways)
        cpu = {
            name: 1000 * (sum(map(measure_cpu_seconds, some)) - before[name]) / SAMPLES
            for name, some in pids.items()
        }
    echo, small, large = times["echo"], times["few"], times["many"]
    yield millis("echo tool, the SDK's own stdio server", echo)
    yield millis("one durable SQLite transaction, nothing around it", times["sqlite"])
    yield millis("task_update over MCP, 10 tasks", small)
    yield millis("task_update over MCP, 20,000 tasks", large)
    yield amount("CPU of an echo", [cpu["echo"]], "ms")
    yield amount("CPU of a task_update, relay and daemon", [cpu["ours"]], "ms")
    yield ratio("task_update with 20,000 tasks : echo", large, echo, 2.0)
    yield ratio("task_update with 20,000 tasks : with 10", large, small, 1.25)


def make_update_timer(host: Host, tool: str, ids: Sequence[str]) -> Callable[[int], float]:
    """Return what times one update of the next of some tasks."""
    numbers = count()

    def one(_: int) -> float:
        number = next(numbers)
        task_id = ids[number * 7919 % len(ids)]
        return host.call(tool, {"task_id": task_id, "message": SAID.format(number)})

    return one


class _Sqlite:
    """The floor: what the disk and SQLite ask for one durable row."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("CREATE TABLE said (id INTEGER PRIMARY KEY, text TEXT)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def insert(self, number: int) -> float:
        """Insert one row, and return the seconds until it was durable."""
        start = time.perf_counter()
        self._database.execute("INSERT INTO said (text) VALUES (?)", (SAID.format(number),))
        return time.perf_counter() - start


def update_crowd() -> Iterator[Figure]:
    """Measure 16 agents at once, each with its own relay and its own task."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        ids = fill_home(home, MANY)
        stack.enter_context(serve_home(home))
        env = build_environment(home)
        hosts = [stack.enter_context(Host((COMMAND, "mcp"), env)) for _ in range(CLIENTS)]
        for host in hosts:
            host.shake_hands()
        _run_round(hosts, ids, 0.5)
        rounds = [_run_round(hosts, ids, ROUND_SECONDS) for _ in range(ROUNDS)]
    rates = [len(times) / ROUND_SECONDS for times in rounds]
    times = [one for some in rounds for one in some]
    yield rate(f"task_update, {CLIENTS} agents at once", rates, "updates/s")
    yield millis(f"one of them, {CLIENTS} agents at once", times)


def _run_round(hosts: Sequence[Host], ids: Sequence[str], seconds: float) -> list[float]:
    end = time.perf_counter() + seconds
    took: list[list[float]] = [[] for _ in hosts]

    def work(place: int) -> None:
        one = make_update_timer(hosts[place], "task_update", [ids[place * 31]])
        while time.perf_counter() < end:
            took[place].append(one(0))

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(hosts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [one for some in took for one in some]
