"""Test a `TaskStore` that several homes share."""
# ruff: noqa: S101, D102, PLR2004 - pytest explains; names and numbers speak

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.model import Maker, Task, TaskStatus, Wait, WaitStatus, WakeState
from taskmem_hookspecs.queries import RunQuery, TaskQuery, WaitQuery, WakeQuery
from taskmem_hookspecs.roles import TaskStore
from taskmem_hookspecs.runs import RunState
from taskmem_hookspecs.testing.clock import DAWN
from taskmem_hookspecs.testing.holdings import (
    extract_ids,
    find_next_lapse,
    find_next_stuck_due,
    find_next_wake_due,
)
from taskmem_hookspecs.testing.values import a_run, a_task, a_wait, a_wake

HOMES = ("home_1", "home_2", None)


def _make_instant(seconds: int) -> datetime:
    return DAWN + timedelta(seconds=seconds)


class StoreHomes:
    """Part of `StoreSuite`: a query of a home finds its rows, and those without a home."""

    def test_tasks_are_due_in_their_own_home(self, store: TaskStore) -> None:
        tasks = (
            a_task(task_id=f"task_{n}", home=home, stuck_due_at=_make_instant(n))
            for n, home in enumerate(HOMES)
        )
        store.commit(Change(tasks=tuple(tasks)))

        def list_due(home: str | None, limit: int = 9) -> list[str]:
            query = TaskQuery(due_by=_make_instant(9), limit=limit, home=home)
            return extract_ids(store.find_tasks(query))

        assert list_due("home_1") == ["task_0", "task_2"]
        assert list_due("home_2") == ["task_1", "task_2"]
        assert list_due("home_2", 1) == ["task_1"]
        assert list_due("home_3", 1) == ["task_2"]
        assert list_due(None) == ["task_0", "task_1", "task_2"]
        due = [find_next_stuck_due(store, home) for home in (*HOMES, "home_3")]
        assert due == [_make_instant(0), _make_instant(1), _make_instant(0), _make_instant(2)]

    def test_wakes_are_due_in_their_own_home(self, store: TaskStore) -> None:
        wakes = (
            a_wake(wake_id=f"wake_{n}", home=home, due_at=_make_instant(n))
            for n, home in enumerate(HOMES)
        )
        store.commit(Change(wakes=tuple(wakes)))

        def due(home: str | None, limit: int = 9) -> list[str]:
            query = WakeQuery(due_by=_make_instant(9), limit=limit, home=home)
            return extract_ids(store.find_wakes(query))

        assert due("home_1") == ["wake_0", "wake_2"]
        assert due("home_2") == ["wake_1", "wake_2"]
        assert due("home_2", 1) == ["wake_1"]
        assert due("home_3", 1) == ["wake_2"]
        assert due(None) == ["wake_0", "wake_1", "wake_2"]
        first = [find_next_wake_due(store, home) for home in (*HOMES, "home_3")]
        assert first == [_make_instant(0), _make_instant(1), _make_instant(0), _make_instant(2)]

    def test_wakes_sent_to_a_session_are_of_their_own_home(self, store: TaskStore) -> None:
        wakes = (
            a_wake(wake_id=f"wake_{n}", home=home, session_key="s", sent_at=_make_instant(n))
            for n, home in enumerate(HOMES)
        )
        store.commit(Change(wakes=tuple(wakes)))

        def find_ids(home: str | None) -> list[str]:
            query = WakeQuery(session_key="s", sent_since=DAWN, home=home)
            return extract_ids(store.find_wakes(query))

        assert find_ids("home_1") == ["wake_0", "wake_2"]
        assert find_ids("home_2") == ["wake_1", "wake_2"]
        assert find_ids(None) == ["wake_0", "wake_1", "wake_2"]

    def test_runs_of_a_session_are_those_of_its_own_home(self, store: TaskStore) -> None:
        for n, home in enumerate(HOMES):
            task = a_task(task_id=f"task_{n}", updated_at=_make_instant(-n))
            run = a_run(
                run_id=f"run_{n}",
                task_id=f"task_{n}",
                state=RunState.RUNNING,
                session_key="s",
                home=home,
            )
            store.commit(Change(tasks=(task,), runs=(run,)))

        def find_ids(home: str | None) -> list[str]:
            return extract_ids(store.find_runs(RunQuery(session_key="s", home=home)))

        assert find_ids("home_1") == ["run_0", "run_2"]
        assert find_ids("home_2") == ["run_1", "run_2"]
        assert find_ids(None) == ["run_0", "run_1", "run_2"]

    def test_leases_lapse_in_their_own_home(self, store: TaskStore) -> None:
        for n, home in enumerate(HOMES):
            task_id = f"task_{n}"
            run = a_run(run_id=f"run_{n}", task_id=task_id, home=home, lease_until=_make_instant(n))
            store.commit(Change(tasks=(a_task(task_id=task_id),), runs=(run,)))

        def find_lapsed(home: str | None, limit: int = 9) -> list[str]:
            query = RunQuery(lapsed_by=_make_instant(9), limit=limit, home=home)
            return extract_ids(store.find_runs(query))

        assert find_lapsed("home_1") == ["run_0", "run_2"]
        assert find_lapsed("home_2", 1) == ["run_1"]
        assert find_lapsed("home_3", 1) == ["run_2"]
        assert find_lapsed(None) == ["run_0", "run_1", "run_2"]
        first = [find_next_lapse(store, home) for home in (*HOMES, "home_3")]
        assert first == [_make_instant(0), _make_instant(1), _make_instant(0), _make_instant(2)]

    def test_what_is_listed_is_cut_to_its_home_before_its_limit(self, store: TaskStore) -> None:
        for n, home in enumerate(HOMES):
            task_id = f"task_{n}"
            made = {"task_id": task_id, "created_at": _make_instant(n), "home": home}
            change = Change(
                tasks=(a_task(task_id=task_id, home=home, updated_at=_make_instant(n)),),
                waits=(a_wait(wait_id=f"wait_{n}", **made),),
                wakes=(a_wake(wake_id=f"wake_{n}", **made),),
                runs=(a_run(run_id=f"run_{n}", **made),),
            )
            store.commit(change)
        active, watching = TaskStatus.ACTIVE, WaitStatus.WATCHING
        due, queued = (WakeState.DUE,), (RunState.QUEUED,)

        def list_ids(limit: int, home: str | None) -> set[tuple[str, ...]]:
            """Return the id suffixes that each query finds, as a set: equal results merge."""
            own: dict[str, Any] = {"limit": limit, "home": home}
            lists = (
                store.find_tasks(TaskQuery(status=active, **own)),
                store.find_tasks(TaskQuery(implicit=False, **own)),
                store.find_waits(WaitQuery(status=watching, **own)),
                store.find_waits(WaitQuery(**own)),
                store.find_wakes(WakeQuery(states=due, **own)),
                store.find_wakes(WakeQuery(**own)),
                store.find_runs(RunQuery(states=queued, **own)),
                store.find_runs(RunQuery(**own)),
            )
            return {tuple(each[-1] for each in extract_ids(found)) for found in lists}

        assert list_ids(9, "home_1") == {("2", "0")}
        assert list_ids(2, "home_2") == {("2", "1")}
        assert list_ids(1, "home_3") == {("2",)}
        assert list_ids(9, None) == {("2", "1", "0")}

    def test_the_tasks_of_a_session_are_listed_whatever_others_have(self, store: TaskStore) -> None:
        sessions = ("s", "s", "t", None)
        homes = ("home_1", "home_2", "home_1", "home_1")
        store.commit(
            Change(
                tasks=tuple(
                    a_task(
                        task_id=f"task_{n}",
                        session_key=session_key,
                        home=home,
                        updated_at=_make_instant(n),
                    )
                    for n, (session_key, home) in enumerate(zip(sessions, homes, strict=True))
                )
            )
        )

        def list_ids(home: str | None, status: TaskStatus | None = None) -> list[str]:
            query = TaskQuery(session_key="s", status=status, limit=2, implicit=False)
            own = query.model_copy(update={"home": home})
            return extract_ids(store.find_tasks(own))

        assert list_ids(None) == ["task_1", "task_0"]
        assert list_ids("home_1") == ["task_0"]
        assert list_ids("home_1", TaskStatus.ACTIVE) == ["task_0"]
        assert list_ids("home_1", TaskStatus.PAUSED) == []

    def test_open_tasks_are_counted_by_who_registered_them(self, store: TaskStore) -> None:
        rows: tuple[dict[str, object], ...] = (
            {"registrar_session": "agent:a", "status": TaskStatus.PAUSED},
            {"registrar_session": "agent:a:main", "session_key": "agent:b:main"},
            {"registrar_session": "agent:a:main:x", "home": "home_2"},
            {"registrar_session": "agent:a:main", "status": TaskStatus.COMPLETED},
            {"registrar_session": "agent:a:main", "implicit": True},
            {"registrar_session": "agent:a-b:main"},
            {"registrar_session": "agent:ab:main"},
            {"registrar_session": "agent:a:main", "registrar_host": "mcp"},
            {"registrar_session": None},
            {"registrar_session": "agent:a:main", "registrar_host": None},
        )
        tasks = (
            a_task(**{"task_id": f"task_{n}", "registrar_host": "openclaw", **row})
            for n, row in enumerate(rows)
        )
        store.commit(Change(tasks=tuple(tasks)))
        self._check_counts(partial(store.count_open, Task))

    def test_open_waits_are_counted_by_who_asked_for_them(self, store: TaskStore) -> None:
        rows: tuple[dict[str, object], ...] = (
            {"session_key": "agent:a"},
            {"session_key": "agent:a:main"},
            {"session_key": "agent:a:main:x", "home": "home_2"},
            {"session_key": "agent:a:main", "status": WaitStatus.RESOLVED},
            {"session_key": "agent:a-b:main"},
            {"session_key": "agent:ab:main"},
            {"session_key": "agent:a:main", "host": "mcp"},
            {"session_key": None},
            {"session_key": "agent:a:main", "host": None},
        )
        waits = (
            a_wait(**{"wait_id": f"wait_{n}", "host": "openclaw", **row})
            for n, row in enumerate(rows)
        )
        store.commit(Change(waits=tuple(waits)))
        self._check_counts(partial(store.count_open, Wait))

    def _check_counts(self, count: Callable[..., int]) -> None:
        agent = Maker(hosts=("openclaw",), agent="agent:a")
        assert count(agent, 9) == 3
        assert count(agent, 2) == 2
        assert count(agent, 9, "home_1") == 2
        assert count(agent, 9, "home_2") == 3
        assert count(Maker(hosts=("openclaw",), agent="agent:a:main"), 9) == 2
        assert count(Maker(hosts=("openclaw",)), 9) == 6
        assert count(Maker(hosts=("mcp", "openclaw")), 9) == 7
        assert count(Maker(hosts=("mcp",), agent="agent:b"), 9) == 0
