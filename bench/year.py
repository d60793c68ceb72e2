"""A home as after a year of ten busy agents, and what that costs against a fresh one.

`TASKMEM_BENCH_YEAR=0.1` makes a tenth of the year.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import Any

from daemon_costs import make_pass_timer
from figures import Figure, amount, millis, ratio, sample_in_turns
from homes import (
    COMMAND,
    Host,
    build_environment,
    fill_home,
    make_home,
    open_store,
    run_taskmem,
    serve_home,
)
from updates import make_update_timer

from openclaw_taskmem.clock import SystemClock
from openclaw_taskmem.engine import notifications, retention
from openclaw_taskmem.engine.context import Context, ScopedStore
from openclaw_taskmem.home import Home
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import Bookmark, Change, TaskStatus, WaitStatus, WakeState
from taskmem_hookspecs.model import RunState
from taskmem_hookspecs.testing import a_message, a_run, a_task, a_wait, a_wake, an_event

SHARE = float(os.environ.get("TASKMEM_BENCH_YEAR", "1"))
TASKS, AGENTS, DAYS = int(20_000 * SHARE), 10, 365
MESSAGES, EVENTS, WAITS = 50, 250, 10
"""Of each task: a million messages, five million events, 200,000 waits, and as many wakes."""
SAMPLES, STARTS, UPDATES = 30, 10, 1_000
MIB = 1024 * 1024
SAID = (
    "Read through the build log of try {}: the linker flag was wrong, so I changed "
    "it in the Makefile and started the build again."
)
KINDS = (
    "task_updated",
    "task_updated",
    "run_changed",
    "wait_opened",
    "wait_ended",
    "wake_sent",
    "wake_acknowledged",
    "milestone",
    "notice",
    "evidence_checked",
)
LIMIT = 1.25


def year_home() -> Iterator[Figure | str]:
    """Measure a home after a year against a fresh one: size, start, status, list, update, pass."""
    with ExitStack() as stack:
        fresh, old = stack.enter_context(make_home()), stack.enter_context(make_home())
        ids = {"fresh": fill_home(fresh, AGENTS), "old": fill_home(old, AGENTS)}
        _add_history(old, TASKS)
        before = _measure_file(old)
        passes = _drop_ended(old)
        yield f"The year, before anything was dropped: {before / MIB:,.0f} MiB."
        yield amount("the database after retention", [_measure_file(old) / MIB], "MiB", 2048)
        yield millis("a pass of retention", passes)
        yield amount("the whole home", [_measure_home(old) / MIB], "MiB", 2048)
        starts = sample_in_turns(
            STARTS, fresh=lambda _: _time_start(fresh), old=lambda _: _time_start(old)
        )
        yield from _compare("start of the daemon to its first answer", starts)
        for home in (fresh, old):
            stack.enter_context(serve_home(home))
        for words in (("status",), ("list",)):
            times = sample_in_turns(
                SAMPLES,
                fresh=lambda _, words=words: run_taskmem(fresh, words),
                old=lambda _, words=words: run_taskmem(old, words),
            )
            yield from _compare(f"taskmem {words[0]}", times)
        updates = {
            name: make_update_timer(
                stack.enter_context(_connect_host(home)), "task_update", ids[name]
            )
            for name, home in (("fresh", fresh), ("old", old))
        }
        yield from _compare("task_update over MCP", sample_in_turns(UPDATES, **updates))
        yield _time_back_up(old, updates["old"])
        timers = {
            name: make_pass_timer(stack, home) for name, home in (("fresh", fresh), ("old", old))
        }
        yield from _compare("a stuck pass", sample_in_turns(UPDATES, **timers))


def _compare(what: str, times: dict[str, list[float]]) -> Iterator[Figure]:
    yield millis(f"{what}, fresh", times["fresh"])
    yield millis(f"{what}, after the year", times["old"])
    yield ratio(f"{what}: after the year : fresh", times["old"], times["fresh"], LIMIT)


def _time_back_up(home: Home, update: Callable[[int], float]) -> Figure:
    """Measure `taskmem backup` while an agent reports without a pause."""
    file = home.folder.parent / f"{home.folder.name}-back-up"
    updates = 0
    with ThreadPoolExecutor(1) as executor:
        backing_up = executor.submit(run_taskmem, home, ("backup", str(file)))
        while not backing_up.done():
            update(updates)
            updates += 1
    file.unlink()
    return amount(f"taskmem backup, and {updates:,} updates meanwhile", [backing_up.result()], "s")


def _connect_host(home: Home) -> Host:
    host = Host((COMMAND, "mcp"), build_environment(home))
    host.shake_hands()
    return host


def _time_start(home: Home) -> float:
    start = time.perf_counter()
    with serve_home(home):
        return time.perf_counter() - start


def _measure_file(home: Home) -> int:
    return home.database.stat().st_size


def _measure_home(home: Home) -> int:
    return sum(path.stat().st_size for path in home.folder.rglob("*") if path.is_file())


def _drop_ended(home: Home) -> list[float]:
    """Drop what is too old, as the daemon does; return the seconds of each pass."""
    store = open_store(home)
    context = Context(
        store=ScopedStore(store, sole=True),
        plugin_host=PluginHost(),
        clock=SystemClock(),
    )
    passes: list[float] = []
    more = True
    while more:
        start = time.perf_counter()
        more = retention.drop_ended(context)
        passes.append(time.perf_counter() - start)
    store.close()
    return passes


# --- the year -----------------------------------------------------------------


def _add_history(home: Home, tasks: int) -> None:
    """Add tasks that have ended, spread over a year, with all that belongs to them.

    The store writes one row of each kind, and the others are copies of it with their own ids and
    times.
    """
    store = open_store(home)
    old = datetime.now(UTC) - timedelta(days=DAYS)
    store.commit(
        Change(
            tasks=(a_task(status=TaskStatus.COMPLETED, done=(0, 1, 2), created_at=old),),
            messages=(a_message(content=SAID.format(1)),),
            runs=(a_run(state=RunState.COMPLETED),),
            waits=(a_wait(task_id="task_1", status=WaitStatus.RESOLVED, ended_at=old),),
            wakes=(
                a_wake(
                    task_id="task_1",
                    wait_id="wait_1",
                    state=WakeState.ACKNOWLEDGED,
                    due_at=None,
                    sent_at=old,
                    acknowledged_at=old,
                    text=f"[system] smart_wait resolved (wait_1): {SAID.format(1)}",
                ),
            ),
            events=(an_event(task_id="task_1", data={"note": "Step 3 of 5 done", "by": "agent"}),),
        )
    )
    with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        writer = _CopyWriter(database, old)
        for first in range(0, tasks, 100):
            database.execute("BEGIN")
            writer.write_tasks(range(first, min(first + 100, tasks)), tasks)
            database.execute("COMMIT")
        (newest,) = database.execute("SELECT max(id) FROM events").fetchone()
    store.commit(
        Change(bookmarks=(Bookmark(name=notifications.HOOKS_BOOKMARK, value=str(newest)),))
    )
    store.close()


class _CopyWriter:
    """Writes copies of the only row of each table."""

    def __init__(self, database: sqlite3.Connection, start: datetime) -> None:
        self._database = database
        self._start = start
        self._rows: dict[str, dict[str, Any]] = {}
        for table in ("tasks", "runs", "waits", "wakes", "task_messages", "events"):
            found = database.execute(f"SELECT * FROM {table} WHERE task_id = 'task_1'")  # noqa: S608
            names = [each[0] for each in found.description]
            self._rows[table] = dict(zip(names, found.fetchone(), strict=True))

    def write_tasks(self, numbers: Sequence[int], tasks: int) -> None:
        """Write tasks, each a day long, and all that belongs to them."""
        for number in numbers:
            began = self._start + timedelta(days=(DAYS - 1.5) * number / tasks)
            task = {"task_id": f"task_y{number:07}"}
            self._copy("tasks", [{**task, **_date(began), "message_count": MESSAGES}])
            self._copy("runs", [{**task, "run_id": f"run_y{number:07}", **_date(began)}])
            self._copy("task_messages", ({**task, **_date(at)} for at in _spread(began, MESSAGES)))
            waits = [f"wait_y{number:07}_{n}" for n in range(WAITS)]
            times = [*zip(waits, _spread(began, WAITS), strict=True)]
            self._copy("waits", ({**task, "wait_id": w, **_date(at)} for w, at in times))
            self._copy(
                "wakes",
                (
                    {**task, "wait_id": w, "wake_id": f"wake_{w}", "key": w, **_date(at)}
                    for w, at in times
                ),
            )
            self._copy("events", _make_events(task, waits, began))

    def _copy(self, table: str, changes: Iterable[dict[str, Any]]) -> None:
        template = self._rows[table]
        names = [name for name in template if name != "id"]
        marks = ", ".join(f":{name}" for name in names)
        dated = {name for name in template if name.endswith("_at") or name == "at"}
        rows = (
            {
                name: row.get(name, row["at"] if name in dated and value else value)
                for name, value in template.items()
            }
            for row in changes
        )
        quoted = ", ".join(f'"{name}"' for name in names)
        self._database.executemany(f"INSERT INTO {table} ({quoted}) VALUES ({marks})", rows)  # noqa: S608


def _make_events(
    task: dict[str, str], waits: Sequence[str], began: datetime
) -> Iterator[dict[str, Any]]:
    for number, at in enumerate(_spread(began, EVENTS)):
        kind = KINDS[number % len(KINDS)]
        wait = waits[number * WAITS // EVENTS] if kind.startswith(("wait", "wake")) else None
        note = json.dumps({"note": f"Step {number} of the day", "by": "agent"})
        yield {**task, "kind": kind, "wait_id": wait, "data": note, **_date(at)}


def _spread(began: datetime, count: int) -> Iterator[datetime]:
    return (began + timedelta(days=number / count) for number in range(count))


def _date(at: datetime) -> dict[str, str]:
    return {"at": f"{at.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"}
