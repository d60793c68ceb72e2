"""Starting: the relay, the command line, the daemon.

Cold means a new process: its files are in the system's cache, unless the run is
told to drop that first.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from figures import Figure, amount, millis, sample_in_turns
from homes import COMMAND, build_environment, fill_home, make_home, run_taskmem, serve_home
from host import Host
from machine import drop_caches, measure_children_cpu, measure_memory

from openclaw_taskmem.home import Home

SAMPLES = 60
RELAYS = 10
DAEMONS = 12
UNCACHED = 7


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
