"""What others keep tasks with, beside us: the same operations, in one run and in turns.

Five peers are installed from their registries, into a folder that is removed unless
`TASKMEM_BENCH_PEERS` names one. What cannot be installed is said, and left out.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from figures import Figure, amount, millis, ratio, sample_in_turns
from homes import COMMAND, build_environment, fill_home, find_disk, make_home, serve_home
from machine import measure_cpu_seconds
from peers.in_process import PLAN
from peers.installing import BEADS, InProcess, install_modules, install_servers
from peers.servers import PeerHost, Server

TASKS = 20_000
SAMPLES = 20
WARM = 3
CPU_SECONDS = 0.5
"""Processor time of updates that is waited for, so that the system's ticks do not count."""
OPERATIONS = ("update", "list", "get")
OURS = "taskmem"
GOALS = {"server-memory": 30, "task-master": 80, "shrimp": 180}
"""How many times as long as ours an update of theirs is to take."""


class Timed(Protocol):
    """A store of tasks whose operations are timed."""

    name: str
    pids: tuple[int, ...]
    """The processes that do the work."""

    def time(self, operation: str, number: int) -> float:
        """Do an operation, and return the seconds it took."""
        ...


def compare_peers() -> Iterator[Figure | str]:
    """Compare a durable update, a list and a look at one of 20,000 tasks with peers."""
    with ExitStack() as stack:
        stores: list[Timed] = [_open_ours(stack)]
        for found in _open_peers(stack):
            if isinstance(found, str):
                yield found
            else:
                stores.append(found)
        ways = {
            f"{operation}, {store.name}": _make_timer(store, operation)
            for operation in OPERATIONS
            for store in stores
        }
        sample_in_turns(WARM, **ways)
        times = sample_in_turns(SAMPLES, **ways)
        cpu = {store.name: _measure_cpu(store) for store in stores}
        sizes = {each.name: each.sizes for each in stores if isinstance(each, PeerHost)}
    for name, taken in times.items():
        yield millis(name, taken)
    for operation in OPERATIONS:
        ours = times[f"{operation}, {OURS}"]
        for store in stores[1:]:
            theirs = times[f"{operation}, {store.name}"]
            goal = GOALS.get(store.name) if operation == "update" else None
            what = f"{operation}: {OURS} : {store.name}"
            yield ratio(what, ours, theirs, None if goal is None else 1 / goal)
    for name, spent in cpu.items():
        yield amount(f"CPU of an update, {name}", [spent], "ms")
    for name, size in sizes.items():
        yield amount(f"answer to a list, {name}", [size["list"] / 1000], "KB")


def _make_timer(store: Timed, operation: str) -> Callable[[int], float]:
    return lambda number: store.time(operation, number)


def _measure_cpu(store: Timed) -> float:
    """Return the milliseconds of processor that an update takes, however long it waits for one."""

    def sum_up() -> float:
        return sum(map(measure_cpu_seconds, store.pids))

    begun, number = sum_up(), 0
    while number < WARM or sum_up() - begun < CPU_SECONDS:
        store.time("update", number)
        number += 1
    return 1000 * (sum_up() - begun) / number


def _open_ours(stack: ExitStack) -> PeerHost:
    home = stack.enter_context(make_home())
    ids = fill_home(home, TASKS)
    pid = stack.enter_context(serve_home(home))

    def build(operation: str, number: int) -> tuple[str, Mapping[str, object]]:
        task = {"task_id": ids[number * 7919 % TASKS]}
        if operation == "update":
            return "task_update", {**task, "message": PLAN.format(number)}
        return ("task_list", {}) if operation == "list" else ("task_status", task)

    env = {**build_environment(home), "TASKMEM_TOOLS": "all"}
    ours = stack.enter_context(PeerHost(Server(OURS, (COMMAND, "mcp"), env, build)))
    ours.pids += (pid,)
    return ours


def _open_peers(stack: ExitStack) -> Iterator[Timed | str]:
    """Open each peer with its tasks in it; a sentence for one that cannot be had."""
    kept = os.environ.get("TASKMEM_BENCH_PEERS")
    made = kept or stack.enter_context(tempfile.TemporaryDirectory(dir=find_disk()))
    stored = stack.enter_context(tempfile.TemporaryDirectory(prefix="tmb", dir=find_disk()))
    for found in install_servers(Path(made), Path(stored), TASKS):
        yield found if isinstance(found, str) else stack.enter_context(PeerHost(found))
    for module in install_modules(Path(made), Path(stored), TASKS):
        yield stack.enter_context(module) if isinstance(module, InProcess) else module
    yield BEADS
