"""What every `TaskStore` answers about the life of waits."""
# ruff: noqa: S101, D102 - tests: pytest explains, and names speak

from __future__ import annotations

from datetime import timedelta

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.model import WaitStatus, WakeCause, WakeState
from taskmem_hookspecs.roles import TaskStore
from taskmem_hookspecs.testing.clock import DAWN
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

    def test_the_open_wakes_of_a_wait_are_found_oldest_first(
        self, store: TaskStore
    ) -> None:
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

        found = store.wakes_of_wait("wait_1")

        assert [wake.wake_id for wake in found] == ["wake_old", "wake_new"]
        assert list(store.wakes_of_wait("wait_9")) == []

    def test_a_wait_that_is_forgotten_goes_with_its_wakes(
        self, store: TaskStore
    ) -> None:
        ids = ("wait_1", "wait_2")
        wakes = (
            a_wake(wake_id=f"wake_{each}", cause=WakeCause.WAIT, wait_id=each)
            for each in ids
        )
        store.commit(
            Change(
                waits=tuple(a_wait(wait_id=each) for each in ids),
                wakes=tuple(wakes),
                events=(an_event(wait_id="wait_1"),),
            )
        )

        store.commit(Change(forget_waits=("wait_1", "wait_9")))

        assert [w.wait_id for w in store.list_waits(None, None, 9)] == ["wait_2"]
        assert [w.wait_id for w in store.list_wakes(None, None, 9)] == ["wait_2"]
        assert len(store.wait_events("wait_1", 9)) == 1

    def test_the_history_of_a_wait_is_told_oldest_first(self, store: TaskStore) -> None:
        told = [
            an_event(kind=kind, wait_id=wait_id)
            for kind, wait_id in (
                ("opened", "wait_1"),
                ("opened", "wait_2"),
                ("updated", "wait_1"),
                ("ended", "wait_1"),
            )
        ]
        store.commit(Change(events=tuple(told)))

        kinds = [event.kind for event in store.wait_events("wait_1", 9)]
        last = [event.kind for event in store.wait_events("wait_1", 2)]

        assert kinds == ["opened", "updated", "ended"]
        assert last == ["updated", "ended"]
        assert list(store.wait_events("wait_9", 9)) == []
