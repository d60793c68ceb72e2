"""What a checkpoint adds to a tool call, with few tasks in the store and with many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from figures import Figure, in_turns, millis, ratio
from homes import PLAN, a_home, daemon, fill
from machine import cpu_seconds
from reporter import MAIN, Reporter

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
        (many, pid), (few, _) = (_working(stack, tasks) for tasks in (MANY, FEW))
        beginnings: list[float] = []
        ways = {
            "many": lambda _: _called(many, beginnings),
            "few": lambda _: _called(few),
            "noted_many": lambda _: _noted(many),
            "noted_few": lambda _: _noted(few),
        }
        in_turns(WARM, **ways)
        beginnings.clear()
        took = in_turns(SAMPLES, **ways)
        cpu = [_cpu(pid, lambda: _called(many)) - _cpu(pid, lambda: _noted(many))]
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


def _working(stack: ExitStack, tasks: int) -> tuple[Reporter, int]:
    """Give a gateway in whose main session a turn works on one task more.

    With it comes the process of its daemon.
    """
    home = stack.enter_context(a_home())
    fill(home, tasks, "agent:main:main")
    pid = stack.enter_context(daemon(home))
    reporter = stack.enter_context(Reporter(home, HOUR))
    reporter.work("turn_started", MAIN, running=[MAIN], origin="user")
    reporter.call(MAIN, "task_register", name="Build the parts", plan=[*PLAN])
    return reporter, pid


def _called(reporter: Reporter, beginnings: list[float] | None = None) -> float:
    """Return the seconds that the reports of a tool call take."""
    start = time.perf_counter()
    reporter.call_began(MAIN)
    began = time.perf_counter()
    reporter.call_ended(MAIN)
    if beginnings is not None:
        beginnings.append(began - start)
    return time.perf_counter() - start


def _noted(reporter: Reporter) -> float:
    """Return the seconds that two reports take which are only counted."""
    start = time.perf_counter()
    for _ in range(2):
        reporter.tell(kind="compacted", session_key=MAIN)
    return time.perf_counter() - start


def _cpu(pid: int, call: Callable[[], float]) -> float:
    """Return the CPU time of a process for one call, in seconds, on the mean."""
    before = cpu_seconds(pid)
    for _ in range(CALLS):
        call()
    return (cpu_seconds(pid) - before) / CALLS
