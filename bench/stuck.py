"""Finding the stuck among many, none of which is."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta

from figures import Figure, millis, ratio, sample_in_turns
from homes import POLICY, fill_home, make_home, open_store
from sqlalchemy.dialects import sqlite

from openclaw_taskmem.clock import SystemClock
from openclaw_taskmem.engine.context import Context, Policies
from openclaw_taskmem.engine.scoped_store import ScopedStore
from openclaw_taskmem.engine.stuck import find_next_due, sweep_due_tasks
from openclaw_taskmem.home import Home
from openclaw_taskmem.plugin_host.facade import PluginHost
from taskmem_hookspecs import FOREVER, TaskQuery
from taskmem_sqlmodel import reading

MANY, FEW = 100_000, 10
SAMPLES = 2000
INDEX = "tasks_stuck_due"


def find_stuck() -> Iterator[Figure | str]:
    """Measure one pass, as the daemon's loop does it, over 100,000 and 10 tasks."""
    with ExitStack() as stack:
        few, many = stack.enter_context(make_home()), stack.enter_context(make_home())
        fill_home(few, FEW, "agent:main:main")
        fill_home(many, MANY, "agent:main:main")
        plans = _list_query_plans(many)
        small, large = make_pass_timer(stack, few), make_pass_timer(stack, many)
        first = large(0)
        times = sample_in_turns(SAMPLES, few=small, many=large)
    yield millis("a stuck pass, 100,000 active tasks, a daemon's first", [first])
    yield millis("a stuck pass, 100,000 active tasks", times["many"], 5)
    yield millis("a stuck pass, 10 active tasks", times["few"])
    yield ratio("100,000 : 10 active tasks", times["many"], times["few"], 1.25)
    yield from plans


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
