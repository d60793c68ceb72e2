"""What a checkpoint adds to a tool call, with few tasks in the store and with many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from figures import Figure, millis, ratio, sample_in_turns
from homes import PLAN, fill_home, make_home, serve_home
from machine import measure_cpu_seconds

from tests.support.reporter import MAIN, Reporter

MANY, FEW = 20_000, 10
SAMPLES = 1500
WARM = 100
CALLS = 500
HOUR = 3600.0


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
        sample_in_turns(WARM, **ways)
        beginnings.clear()
        took = sample_in_turns(SAMPLES, **ways)
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
