"""One `task_update`: over MCP, through the SDK's client, by a crowd, and with checkpoints."""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from itertools import count
from pathlib import Path
from typing import Self

import anyio
from figures import Figure, amount, millis, rate, ratio, sample_in_turns
from homes import COMMAND, PLAN, Host, build_environment, fill_home, make_home, serve_home
from machine import measure_cpu_seconds
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.support.reporter import MAIN, Reporter

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
MANY, FEW = 20_000, 10
FEWER_SAMPLES = 1500
FEWER_WARM_UPS = 100
CALLS = 500
HOUR = 3600.0


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


def run_checkpoints() -> Iterator[Figure | str]:
    """The two checkpoints of a tool call, against two reports that write nothing.

    The plug-in waits for no answer while a tool runs: the next call waits, 150 ms at
    most, until what was reported before it is kept.
    """
    with ExitStack() as stack:
        (many, pid), (few, _) = (_begin_working_turn(stack, tasks) for tasks in (MANY, FEW))
        beginnings: list[float] = []
        ways = {
            "many": lambda _: _time_tool_call(many, beginnings),
            "few": lambda _: _time_tool_call(few),
            "noted_many": lambda _: _time_counted_reports(many),
            "noted_few": lambda _: _time_counted_reports(few),
        }
        sample_in_turns(FEWER_WARM_UPS, **ways)
        beginnings.clear()
        took = sample_in_turns(FEWER_SAMPLES, **ways)
        cpu = [
            _measure_cpu(pid, lambda: _time_tool_call(many))
            - _measure_cpu(pid, lambda: _time_counted_reports(many))
        ]
    yield millis("two reports that write nothing", took["noted_many"])
    yield millis("the two reports of a tool call", took["many"])
    yield millis("that of its beginning alone", beginnings)
    for name, tasks in (("few", FEW), ("many", MANY)):
        pairs = zip(took[name], took[f"noted_{name}"], strict=True)
        added = [ours - theirs for ours, theirs in pairs]
        what = f"both checkpoints of a call until durable, {tasks:,} tasks"
        yield millis(what, added, 5)
    yield millis("likewise: CPU of the daemon", cpu)
    yield ratio(f"{MANY:,} : {FEW} tasks", took["many"], took["few"], 1.25)


def _begin_working_turn(stack: ExitStack, tasks: int) -> tuple[Reporter, int]:
    """Give a gateway in whose main session a turn works on one task more.

    With it comes the process of its daemon.
    """
    home = stack.enter_context(make_home())
    fill_home(home, tasks, "agent:main:main")
    pid = stack.enter_context(serve_home(home))
    reporter = stack.enter_context(Reporter(home, HOUR))
    reporter.report_work("turn_started", MAIN, running=[MAIN], origin="user")
    reporter.call(MAIN, "task_register", name="Build the parts", plan=[*PLAN])
    return reporter, pid


def _time_tool_call(reporter: Reporter, beginnings: list[float] | None = None) -> float:
    """Return the seconds that the reports of a tool call take."""
    start = time.perf_counter()
    reporter.report_call_start(MAIN)
    began = time.perf_counter()
    reporter.report_call_end(MAIN)
    if beginnings is not None:
        beginnings.append(began - start)
    return time.perf_counter() - start


def _time_counted_reports(reporter: Reporter) -> float:
    """Return the seconds that two reports take which are only counted."""
    start = time.perf_counter()
    for _ in range(2):
        reporter.report(kind="compacted", session_key=MAIN)
    return time.perf_counter() - start


def _measure_cpu(pid: int, call: Callable[[], float]) -> float:
    """Return the CPU time of a process for one call, in seconds, on the mean."""
    before = measure_cpu_seconds(pid)
    for _ in range(CALLS):
        call()
    return (measure_cpu_seconds(pid) - before) / CALLS


def update_by_sdk_client() -> Iterator[Figure]:
    """Measure one agent behind the SDK's client, in turns with the echo."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        ids = fill_home(home, MANY)
        stack.enter_context(serve_home(home))
        echo, ours = anyio.run(_measure, build_environment(home), ids)
    yield millis("echo tool, through the SDK's client", echo)
    yield millis("task_update, 20,000 tasks, through the SDK's client", ours)
    yield ratio("the two through the SDK's client", ours, echo, 2.0)


async def _measure(env: Mapping[str, str], ids: Sequence[str]) -> tuple[list[float], list[float]]:
    async with AsyncExitStack() as stack:
        echo = await _open_session(stack, ECHO, env)
        ours = await _open_session(stack, (COMMAND, "mcp"), env)
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(FEWER_WARM_UPS + FEWER_SAMPLES):
            given = {"task_id": ids[number * 7919 % len(ids)], "message": SAID.format(number)}
            turn = [(echo, "echo", times[0]), (ours, "task_update", times[1])]
            for session, tool, took in turn if number % 2 else reversed(turn):
                start = time.perf_counter()
                await session.call_tool(tool, given)
                took.append(time.perf_counter() - start)
    return times[0][FEWER_WARM_UPS:], times[1][FEWER_WARM_UPS:]


async def _open_session(
    stack: AsyncExitStack, command: Sequence[str], env: Mapping[str, str]
) -> ClientSession:
    server = StdioServerParameters(command=command[0], args=[*command[1:]], env=dict(env))
    streams = await stack.enter_async_context(stdio_client(server))
    session = await stack.enter_async_context(ClientSession(*streams))
    await session.initialize()
    return session
