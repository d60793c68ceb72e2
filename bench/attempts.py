"""What a checkpoint adds to a tool call, with few tasks in the store and with many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from figures import Figure, in_turns, millis, ratio
from homes import PLAN, a_home, daemon, fill
from reporter import MAIN, Reporter

MANY, FEW = 20_000, 10
SAMPLES = 1500
WARM = 100
HOUR = 3600.0


def run_checkpoints() -> Iterator[Figure | str]:
    """The two checkpoints of a tool call, against two reports that write nothing."""
    with ExitStack() as stack:
        many, few = (_working(stack, tasks) for tasks in (MANY, FEW))
        ways = {
            "many": _timed(lambda: many.tool_call(MAIN)),
            "few": _timed(lambda: few.tool_call(MAIN)),
            "noted_many": _timed(lambda: _noted(many)),
            "noted_few": _timed(lambda: _noted(few)),
        }
        in_turns(WARM, **ways)
        took = in_turns(SAMPLES, **ways)
    yield millis("two reports that write nothing", took["noted_many"])
    yield millis("the two reports of a tool call", took["many"])
    for name, tasks in (("few", FEW), ("many", MANY)):
        pairs = zip(took[name], took[f"noted_{name}"], strict=True)
        added = [ours - theirs for ours, theirs in pairs]
        what = f"checkpoint write added to a tool call, {tasks:,} tasks"
        yield millis(what, added, 5)
    yield ratio(f"{MANY:,} : {FEW} tasks", took["many"], took["few"], 1.25)


def _working(stack: ExitStack, tasks: int) -> Reporter:
    """Give a gateway in whose main session a turn works on one task more."""
    home = stack.enter_context(a_home())
    fill(home, tasks)
    stack.enter_context(daemon(home))
    reporter = stack.enter_context(Reporter(home, HOUR))
    reporter.work("turn_started", MAIN, running=[MAIN], origin="user")
    reporter.call(MAIN, "task_register", name="Build the parts", plan=[*PLAN])
    return reporter


def _noted(reporter: Reporter) -> None:
    for _ in range(2):
        reporter.tell(kind="compacted", session_key=MAIN)


def _timed(call: Callable[[], None]) -> Callable[[int], float]:
    def sample(_: int) -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return sample
