"""Test what a `TaskStore` returns of waits and wakes."""
# ruff: noqa: S101, D102 - tests: pytest explains, and names speak

from __future__ import annotations

from datetime import timedelta

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.model import WaitStatus, WakeCause, WakeState
from taskmem_hookspecs.queries import EventQuery, WaitQuery, WakeQuery
from taskmem_hookspecs.roles import TaskStore
from taskmem_hookspecs.testing.clock import DAWN
from taskmem_hookspecs.testing.holdings import extract_ids
from taskmem_hookspecs.testing.store_queries import make_instant
from taskmem_hookspecs.testing.values import a_task, a_wait, a_wake, an_event


class StoreWaits:
    """Part of `StoreSuite`."""

    def test_a_task_comes_with_every_open_wait_and_the_last_that_ended(
        self, store: TaskStore
    ) -> None:
        ended = tuple(
            a_wait(
                wait_id=f"wait_e{number:02}",
                task_id="task_1",
                status=WaitStatus.TIMEOUT,
                created_at=DAWN + timedelta(seconds=number),
                changed_at=DAWN - timedelta(seconds=number),
                ended_at=DAWN,
            )
            for number in range(30)
        )
        open_ = tuple(
            a_wait(wait_id=f"wait_o{number:02}", task_id="task_1", created_at=DAWN)
            for number in range(30)
        )
        other = a_wait(wait_id="wait_x", task_id=None)
        store.commit(Change(tasks=(a_task(),), waits=(*ended, *open_, other)))

        found = store.read_task("task_1").waits

        last = [wait.wait_id for wait in ended[:20]]
        every = [wait.wait_id for wait in open_]
        ids = [wait.wait_id for wait in found]
        assert ids == ["wait_e00", *every, *last[1:]]

    def test_waits_are_listed_newest_first(self, store: TaskStore) -> None:
        waits = (
            a_wait(wait_id="wait_1", created_at=make_instant(2)),
            a_wait(wait_id="wait_2", created_at=make_instant(3), task_id="task_1"),
            a_wait(wait_id="wait_3", status="error", task_id="task_1"),
            a_wait(wait_id="wait_4", created_at=make_instant(1), status="error"),
        )
        store.commit(Change(tasks=(a_task(),), waits=waits))

        def list_ids(status: WaitStatus | None, task_id: str | None, limit: int = 9) -> list[str]:
            query = WaitQuery(status=status, task_id=task_id, limit=limit)
            return [each[-1] for each in extract_ids(store.find_waits(query))]

        assert list_ids(None, None) == ["2", "1", "4", "3"]
        assert list_ids(None, None, 3) == ["2", "1", "4"]
        assert list_ids(WaitStatus.WATCHING, None) == ["2", "1"]
        assert list_ids(WaitStatus.WATCHING, None, 1) == ["2"]
        assert list_ids(WaitStatus.ERROR, None) == ["4", "3"]
        assert list_ids(None, "task_1") == ["2", "3"]
        assert list_ids(WaitStatus.ERROR, "task_1") == ["3"]
        assert list_ids(WaitStatus.TIMEOUT, None) == []

    def test_wakes_are_listed_newest_first(self, store: TaskStore) -> None:
        wakes = (
            a_wake(wake_id="wake_1", created_at=make_instant(2)),
            a_wake(wake_id="wake_2", created_at=make_instant(3), task_id="task_1"),
            a_wake(wake_id="wake_3", state="sent", task_id="task_1"),
            a_wake(wake_id="wake_4", created_at=make_instant(1), state="refused"),
        )
        store.commit(Change(tasks=(a_task(),), wakes=wakes))

        def list_ids(
            states: tuple[WakeState, ...] | None, task_id: str | None, limit: int = 9
        ) -> list[str]:
            query = WakeQuery(states=states, task_id=task_id, limit=limit)
            return [each[-1] for each in extract_ids(store.find_wakes(query))]

        assert list_ids(None, None) == ["2", "1", "4", "3"]
        assert list_ids(None, None, 2) == ["2", "1"]
        assert list_ids((WakeState.DUE, WakeState.REFUSED), None) == ["2", "1", "4"]
        assert list_ids((WakeState.SENT,), "task_1") == ["3"]
        assert list_ids(None, "task_1") == ["2", "3"]
        assert list_ids((), None) == []

    def test_wakes_are_read_by_id(self, store: TaskStore) -> None:
        wakes = tuple(a_wake(wake_id=f"wake_{number}") for number in range(4))
        store.commit(Change(wakes=wakes))
        read = store.find_wakes(WakeQuery(wake_ids=("wake_3", "wake_9", "wake_1")))
        assert {wake.wake_id for wake in read} == {"wake_1", "wake_3"}
        assert list(store.find_wakes(WakeQuery(wake_ids=()))) == []

    def test_the_open_wakes_of_a_wait_are_found_newest_first(self, store: TaskStore) -> None:
        def wake(name: str, age: int, **fields: object) -> object:
            return a_wake(
                wake_id=f"wake_{name}",
                cause=WakeCause.WAIT,
                created_at=DAWN - timedelta(seconds=age),
                **{"wait_id": "wait_1", **fields},
            )

        made = (
            wake("new", 1),
            wake("old", 2, state=WakeState.SENT),
            wake("over", 3, state=WakeState.ACKNOWLEDGED),
            wake("other", 4, wait_id="wait_2"),
        )
        waits = (a_wait(), a_wait(wait_id="wait_2"))
        store.commit(Change.model_validate({"waits": waits, "wakes": made}))

        def find_ids(wait_id: str) -> list[str]:
            states = (WakeState.DUE, WakeState.SENT)
            return extract_ids(store.find_wakes(WakeQuery(states=states, wait_id=wait_id)))

        assert find_ids("wait_1") == ["wake_new", "wake_old"]
        assert find_ids("wait_9") == []

    def test_a_wait_that_is_forgotten_goes_with_its_wakes(self, store: TaskStore) -> None:
        ids = ("wait_1", "wait_2")
        wakes = (a_wake(wake_id=f"wake_{each}", cause=WakeCause.WAIT, wait_id=each) for each in ids)
        store.commit(
            Change(
                waits=tuple(a_wait(wait_id=each) for each in ids),
                wakes=tuple(wakes),
                events=(an_event(wait_id="wait_1"),),
            )
        )

        store.commit(Change(forget_waits=("wait_1", "wait_9")))

        assert extract_ids(store.find_waits(WaitQuery())) == ["wait_2"]
        assert extract_ids(store.find_wakes(WakeQuery())) == ["wake_wait_2"]
        assert len(store.find_events(EventQuery(wait_id="wait_1"))) == 1

    def test_the_history_of_a_wait_is_told_oldest_first(self, store: TaskStore) -> None:
        history = [
            an_event(kind=kind, wait_id=wait_id)
            for kind, wait_id in (
                ("opened", "wait_1"),
                ("opened", "wait_2"),
                ("updated", "wait_1"),
                ("ended", "wait_1"),
            )
        ]
        store.commit(Change(events=tuple(history)))

        def kinds(wait_id: str, limit: int | None = None) -> list[str]:
            found = store.find_events(EventQuery(wait_id=wait_id, limit=limit))
            return [event.kind for event in found]

        assert kinds("wait_1") == ["opened", "updated", "ended"]
        assert kinds("wait_1", 2) == ["updated", "ended"]
        assert kinds("wait_9") == []
