"""Costs of a daemon: starts of its clients, idling, and a pass that finds stuck tasks."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta

from figures import Figure, amount, millis, ratio, sample_in_turns
from homes import (
    COMMAND,
    POLICY,
    Host,
    build_environment,
    fill_home,
    make_home,
    open_store,
    run_taskmem,
    serve_home,
)
from machine import (
    count_wakeups,
    drop_caches,
    measure_children_cpu,
    measure_cpu_seconds,
    measure_memory,
)
from sqlalchemy.dialects import sqlite

from openclaw_taskmem.clock import SystemClock
from openclaw_taskmem.engine.context import Context, Policies, ScopedStore
from openclaw_taskmem.engine.stuck import find_next_due, sweep_due_tasks
from openclaw_taskmem.home import Home
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import TaskQuery
from taskmem_hookspecs.roles import FOREVER
from taskmem_sqlmodel import reading

SAMPLES = 60
RELAYS = 10
DAEMONS = 12
UNCACHED = 7
SECONDS = 60
SETTLED = 5
"""Seconds after which a daemon is done with starting."""
HOMES = {
    "a fresh home": (0, True),
    "20,000 active tasks": (20_000, True),
    "a fresh home, no MCP host": (0, False),
}
"""How many tasks each home has, and whether an MCP host is connected."""
MANY, FEW = 100_000, 10
STUCK_SAMPLES = 2000
SILENT_SECONDS = 150
"""Longer than the first look at all of them takes."""
INDEX = "tasks_stuck_due"


def start_mcp() -> Iterator[Figure]:
    """Measure `taskmem mcp` from its start to its first answer, and its memory."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        ids = fill_home(home, 20_000)
        stack.enter_context(serve_home(home))
        _make_answer_timer(home)(0)
        times = sample_in_turns(SAMPLES, ours=_make_answer_timer(home), bare=_time_bare_python)
        cpu = measure_children_cpu(lambda: _make_answer_timer(home)(0), SAMPLES)
        sizes = [_measure_relay_memory(home, ids[number]) for number in range(RELAYS)]
    yield millis("taskmem mcp: start to first answer", times["ours"], 150)
    yield millis("taskmem mcp: CPU from its start to its end", cpu)
    yield millis("Python alone: start to end", times["bare"])
    yield amount("taskmem mcp: RSS", [rss for rss, _ in sizes], "MB", 20)
    yield amount("taskmem mcp: PSS", [pss for _, pss in sizes], "MB", 20)


def start_commands() -> Iterator[Figure]:
    """Measure `taskmem --help` and `taskmem status`, each in a new process."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        fill_home(home, 20_000)
        stack.enter_context(serve_home(home))
        times = sample_in_turns(
            SAMPLES,
            help=lambda _: run_taskmem(home, ("--help",)),
            status=lambda _: run_taskmem(home, ("status",)),
        )
        cpu = {
            word: measure_children_cpu(lambda word=word: run_taskmem(home, (word,)), SAMPLES)
            for word in ("--help", "status")
        }
    yield millis("taskmem --help", times["help"], 200)
    yield millis("taskmem --help: CPU", cpu["--help"])
    yield millis("taskmem status, 20,000 tasks", times["status"], 200)
    yield millis("taskmem status: CPU", cpu["status"])


def start_uncached() -> Iterator[Figure]:
    """Measure the same with the system's file cache dropped before each.

    Not among those that run unasked: it slows down everyone on the machine.
    """
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        stack.enter_context(serve_home(home))
        if not drop_caches():
            raise SystemExit("Only root on Linux may drop the system's file cache.")
        times = sample_in_turns(
            UNCACHED,
            bare=_drop_caches_before(_time_bare_python),
            help=_drop_caches_before(lambda _: run_taskmem(home, ("--help",))),
            status=_drop_caches_before(lambda _: run_taskmem(home, ("status",))),
            relay=_drop_caches_before(_make_answer_timer(home)),
        )
    yield millis("Python alone, uncached", times["bare"])
    yield millis("taskmem --help, uncached", times["help"])
    yield millis("taskmem status, uncached", times["status"])
    yield millis("taskmem mcp: start to first answer, uncached", times["relay"])


def start_daemon() -> Iterator[Figure]:
    """Measure how long the first of all waits: no daemon runs, and it starts one."""
    with make_home() as home:
        fill_home(home, 20_000)
        relay = _make_answer_timer(home)

        def time_relay(_: int) -> float:
            took = relay(0)
            run_taskmem(home, ("daemon", "stop"))
            return took

        def time_command(_: int) -> float:
            took = run_taskmem(home, ("call", "task_list", "{}"))
            run_taskmem(home, ("daemon", "stop"))
            return took

        times = sample_in_turns(DAEMONS, relay=time_relay, call=time_command)
    yield millis("taskmem mcp: first answer, the daemon started by it", times["relay"])
    yield millis("taskmem call task_list, likewise", times["call"])


def _make_answer_timer(home: Home) -> Callable[[int], float]:
    def one(_: int) -> float:
        start = time.perf_counter()
        with Host((COMMAND, "mcp"), build_environment(home)) as host:
            host.shake_hands()
            return time.perf_counter() - start

    return one


def _drop_caches_before(one: Callable[[int], float]) -> Callable[[int], float]:
    def after_dropping(number: int) -> float:
        drop_caches()
        return one(number)

    return after_dropping


def _time_bare_python(_: int) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - start


def _measure_relay_memory(home: Home, task_id: str) -> tuple[float, float]:
    """Return RSS and PSS of a relay that has done what a session does."""
    with Host((COMMAND, "mcp"), build_environment(home)) as host:
        host.shake_hands()
        host.ask("tools/list", {})
        for number in range(20):
            said = f"Note {number} of this session."
            host.call("task_update", {"task_id": task_id, "message": said})
        return measure_memory(host.process.pid)


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


def find_stuck() -> Iterator[Figure | str]:
    """Measure one pass, as the daemon's loop does it, over 100,000 and 10 tasks."""
    with ExitStack() as stack:
        few, many = stack.enter_context(make_home()), stack.enter_context(make_home())
        fill_home(few, FEW, "agent:main:main")
        fill_home(many, MANY, "agent:main:main")
        plans = _list_query_plans(many)
        small, large = make_pass_timer(stack, few), make_pass_timer(stack, many)
        first = large(0)
        times = sample_in_turns(STUCK_SAMPLES, few=small, many=large)
    yield millis("a stuck pass, 100,000 active tasks, a daemon's first", [first])
    yield millis("a stuck pass, 100,000 active tasks", times["many"], 5)
    yield millis("a stuck pass, 10 active tasks", times["few"])
    yield ratio("100,000 : 10 active tasks", times["many"], times["few"], 1.25)
    yield from plans


def silence_at_once() -> Iterator[Figure | str]:
    """Measure what a daemon does about 20,000 tasks that have been silent for too long."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        fill_home(home, 20_000)
        before = home.database.stat().st_size
        pid = stack.enter_context(serve_home(home, TASKMEM_STUCK_THRESHOLD_SECONDS="1"))
        started = measure_cpu_seconds(pid)
        time.sleep(SILENT_SECONDS)
        cpu = measure_cpu_seconds(pid) - started
        grown = home.database.stat().st_size - before
    yield amount("20,000 tasks silent at once: CPU", [cpu], "s", 10)
    yield amount("20,000 tasks silent at once: growth of the file", [grown / 1e6], "MB", 5)


def make_pass_timer(stack: ExitStack, home: Home) -> Callable[[int], float]:
    """Return what times one pass over a home, in this process."""
    store = open_store(home)
    stack.callback(store.close)
    context = Context(
        store=ScopedStore(store),
        plugin_host=PluginHost(),
        clock=SystemClock(),
        policies=Policies(stuck=POLICY),
    )

    def one(_: int) -> float:
        start = time.perf_counter()
        looked = sweep_due_tasks(context)
        due = find_next_due(context)
        took = time.perf_counter() - start
        if looked or due is None:
            raise SystemExit("None of the tasks should be stuck, and all active.")
        return took

    return one


def _list_query_plans(home: Home) -> list[str]:
    """Return how SQLite finds what is due: from the partial index alone.

    Raises:
        SystemExit: It does not.
    """
    now = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    with closing(sqlite3.connect(f"file:{home.database}?mode=ro", uri=True)) as found:
        text = str(
            reading.select_tasks(TaskQuery(due_by=FOREVER, limit=200)).compile(
                dialect=sqlite.dialect(paramstyle="named"),
                compile_kwargs={"render_postcompile": True},
            )
        )
        named = {"due_by": now, "limit": 200, "param_1": 1, "param_2": 0}
        plan = found.execute(f"EXPLAIN QUERY PLAN {text}", named).fetchall()
        steps = "; ".join(step[3] for step in plan)
        if INDEX not in steps or "SCAN" in steps or "TEMP B-TREE" in steps:
            raise SystemExit(f"The stuck pass is not answered by {INDEX}: {steps}")
    return [f"Query plan of the stuck pass: {steps}"]
