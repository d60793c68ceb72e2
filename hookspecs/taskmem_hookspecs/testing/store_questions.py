"""What every `TaskStore` answers: which rows, in which order, and how many."""
# ruff: noqa: S101, D102, PLR2004 - tests: pytest explains, names and numbers speak

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.errors import TaskNotFound, WaitNotFound
from taskmem_hookspecs.model import (
    Bookmark,
    MessageType,
    Role,
    TaskStatus,
    WaitStatus,
    WakeCause,
    WakeState,
)
from taskmem_hookspecs.roles import TaskStore
from taskmem_hookspecs.testing.clock import DAWN
from taskmem_hookspecs.testing.values import (
    a_message,
    a_revision,
    a_task,
    a_wait,
    a_wake,
    an_event,
)


def at(seconds: float) -> datetime:
    """Return the instant that many seconds after `DAWN`."""
    return DAWN + timedelta(seconds=seconds)


class StoreQuestions:
    """Part of `StoreSuite`."""

    def test_what_is_not_there_is_not_found(self, store: TaskStore) -> None:
        with pytest.raises(TaskNotFound, match="task_9"):
            store.read_task("task_9")
        with pytest.raises(WaitNotFound, match="wait_9"):
            store.read_wait("wait_9")
        assert list(store.read_thread("task_9")) == []
        assert list(store.read_revisions("task_9")) == []
        assert store.read_bookmark("never set") is None

    def test_an_empty_store_has_nothing(self, store: TaskStore) -> None:
        assert list(store.list_tasks(None, 9)) == []
        assert list(store.list_waits(None, None, 9)) == []
        assert list(store.list_wakes(None, None, 9)) == []
        assert list(store.list_events(0, 9)) == []
        assert list(store.last_events(None, 9)) == []
        assert store.next_stuck_due() is None
        assert store.next_wake_due() is None
        assert sum(store.count().tasks.values()) == store.count().events == 0

    # --- tasks ----------------------------------------------------------------

    def test_a_task_comes_with_its_waits_and_open_wakes_oldest_first(
        self, store: TaskStore
    ) -> None:
        waits = (
            a_wait(wait_id="wait_1", task_id="task_1", created_at=at(2)),
            a_wait(
                wait_id="wait_2",
                task_id="task_1",
                created_at=at(1),
                status=WaitStatus.ERROR,
            ),
            a_wait(wait_id="wait_3", task_id="task_2"),
            a_wait(wait_id="wait_4"),
        )
        wakes = [
            a_wake(
                wake_id=f"wake_{state}",
                task_id="task_1",
                state=state,
                created_at=at(-i),
            )
            for i, state in enumerate(WakeState)
        ]
        strangers = (a_wake(wake_id="a"), a_wake(wake_id="b", task_id="task_2"))
        store.commit(
            Change(
                tasks=(a_task(), a_task(task_id="task_2")),
                waits=waits,
                wakes=(*wakes, *strangers),
            )
        )
        facts = store.read_task("task_1")
        assert [wait.wait_id for wait in facts.waits] == ["wait_2", "wait_1"]
        assert [wake.state for wake in facts.wakes] == [WakeState.SENT, WakeState.DUE]
        assert store.read_task("task_2").wakes == (
            strangers[1].model_copy(update={"version": 1}),
        )

    def test_tasks_are_listed_most_recently_updated_first(
        self, store: TaskStore
    ) -> None:
        statuses = [*TaskStatus, TaskStatus.ACTIVE, TaskStatus.ACTIVE]
        moments = [3, 1, 4, 1.000001, 5, 9, 2]
        store.commit(
            Change(
                tasks=tuple(
                    a_task(task_id=f"task_{i}", status=status, updated_at=at(moment))
                    for i, (status, moment) in enumerate(
                        zip(statuses, moments, strict=True)
                    )
                )
            )
        )
        listed = [task.updated_at for task in store.list_tasks(None, 100)]
        assert listed == [at(moment) for moment in sorted(moments, reverse=True)]
        active = [task.task_id for task in store.list_tasks(TaskStatus.ACTIVE, 100)]
        assert active == ["task_5", "task_0", "task_6"]
        assert [t.task_id for t in store.list_tasks(TaskStatus.ACTIVE, 2)] == active[:2]
        assert [t.updated_at for t in store.list_tasks(None, 2)] == [at(9), at(5)]
        for status in TaskStatus:
            assert {t.status for t in store.list_tasks(status, 100)} == {status}

    def test_active_tasks_are_walked_in_order_of_id(self, store: TaskStore) -> None:
        ids = ["task_B", "task_a", "task_Ä", "task_10", "task_9", "task_-"]
        store.commit(
            Change(
                tasks=(
                    *(a_task(task_id=id_) for id_ in ids),
                    a_task(task_id="task_Z", status=TaskStatus.PAUSED),
                )
            )
        )
        walked: list[str] = []
        while page := store.active_tasks(walked[-1] if walked else "", 2):
            assert len(page) <= 2
            walked += [task.task_id for task in page]
        assert walked == sorted(ids)

    def test_the_newest_messages_come_oldest_first(self, store: TaskStore) -> None:
        tasks = (a_task(), a_task(task_id="task_2"))
        store.commit(Change(tasks=tasks))
        for number in range(6):
            store.commit(
                Change(
                    messages=(
                        a_message(content=f"{number}a", created_at=at(-number)),
                        a_message(task_id="task_2", content="of another"),
                        a_message(content=f"{number}b"),
                    )
                )
            )
        thread = store.read_thread("task_1")
        assert [message.content for message in thread] == [
            f"{number}{letter}" for number in range(6) for letter in "ab"
        ]
        ids = [message.message_id for message in thread]
        assert ids == sorted(set(ids))
        assert list(store.read_thread("task_1", 3)) == list(thread[-3:])
        assert list(store.read_thread("task_1", 100)) == list(thread)
        assert list(store.read_thread("task_1", 0)) == []
        assert list(store.read_thread("task_1", 3, before=ids[-3])) == thread[-6:-3]
        assert list(store.read_thread("task_1", before=ids[2])) == thread[:2]

    def test_of_a_thread_what_no_agent_said_is_read_alone(
        self, store: TaskStore
    ) -> None:
        user, life = {"role": Role.USER}, {"msg_type": MessageType.LIFECYCLE}
        kinds: tuple[dict[str, Any], ...] = (user, {}, life, {}, user, life)
        tasks = (a_task(), a_task(task_id="task_2"))
        said = [a_message(content=f"{n}", **kind) for n, kind in enumerate(kinds)]
        other = a_message(task_id="task_2", **user)
        store.commit(Change(tasks=tasks, messages=(*said, other)))
        ids = [message.message_id for message in store.read_thread("task_1")]

        def read_said(after: int, limit: int | None = None) -> list[str]:
            found = store.read_thread("task_1", limit, said_after=after)
            return [message.content for message in found]

        assert read_said(0) == ["0", "2", "4", "5"]
        assert read_said(ids[2]) == ["4", "5"]
        assert read_said(0, 1) == ["5"]

    def test_revisions_come_oldest_first(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(), a_task(task_id="task_2"))))
        for reason in ("first", "second", "third"):
            own = a_revision(reason=reason)
            store.commit(Change(revisions=(own, a_revision(task_id="task_2"))))
        revisions = store.read_revisions("task_1")
        assert [r.reason for r in revisions] == ["first", "second", "third"]

    # --- waits and wakes ------------------------------------------------------

    def test_waits_are_listed_newest_first(self, store: TaskStore) -> None:
        store.commit(
            Change(
                tasks=(a_task(),),
                waits=(
                    a_wait(wait_id="wait_1", created_at=at(2)),
                    a_wait(wait_id="wait_2", created_at=at(3), task_id="task_1"),
                    a_wait(wait_id="wait_3", status="error", task_id="task_1"),
                    a_wait(wait_id="wait_4", created_at=at(1), status="error"),
                ),
            )
        )

        def listed(
            status: WaitStatus | None, task_id: str | None, limit: int = 9
        ) -> list[str]:
            return [w.wait_id[-1] for w in store.list_waits(status, task_id, limit)]

        assert listed(None, None) == ["2", "1", "4", "3"]
        assert listed(None, None, 3) == ["2", "1", "4"]
        assert listed(WaitStatus.WATCHING, None) == ["2", "1"]
        assert listed(WaitStatus.WATCHING, None, 1) == ["2"]
        assert listed(WaitStatus.ERROR, None) == ["4", "3"]
        assert listed(None, "task_1") == ["2", "3"]
        assert listed(WaitStatus.ERROR, "task_1") == ["3"]
        assert listed(WaitStatus.TIMEOUT, None) == []

    def test_wakes_are_listed_newest_first(self, store: TaskStore) -> None:
        store.commit(
            Change(
                tasks=(a_task(),),
                wakes=(
                    a_wake(wake_id="wake_1", created_at=at(2)),
                    a_wake(wake_id="wake_2", created_at=at(3), task_id="task_1"),
                    a_wake(wake_id="wake_3", state="sent", task_id="task_1"),
                    a_wake(wake_id="wake_4", created_at=at(1), state="refused"),
                ),
            )
        )

        def listed(
            states: list[WakeState] | None, task_id: str | None, limit: int = 9
        ) -> list[str]:
            return [w.wake_id[-1] for w in store.list_wakes(states, task_id, limit)]

        assert listed(None, None) == ["2", "1", "4", "3"]
        assert listed(None, None, 2) == ["2", "1"]
        assert listed([WakeState.DUE, WakeState.REFUSED], None) == ["2", "1", "4"]
        assert listed([WakeState.SENT], "task_1") == ["3"]
        assert listed(None, "task_1") == ["2", "3"]
        assert listed([], None) == []

    def test_wakes_are_read_by_id(self, store: TaskStore) -> None:
        wakes = tuple(a_wake(wake_id=f"wake_{number}") for number in range(4))
        store.commit(Change(wakes=wakes))
        read = store.read_wakes(["wake_3", "wake_9", "wake_1"])
        assert {wake.wake_id for wake in read} == {"wake_1", "wake_3"}
        assert list(store.read_wakes([])) == []

    # --- what is due ----------------------------------------------------------

    def test_stuck_due_tells_what_has_come_in_order(self, store: TaskStore) -> None:
        due = {"task_1": 20, "task_2": 10, "task_3": 10.5, "task_4": 30}
        never = a_task(task_id="task_5", stuck_due_at=None)
        paused = a_task(task_id="task_6", status="paused", stuck_due_at=at(1))
        tasks = [a_task(task_id=t, stuck_due_at=at(s)) for t, s in due.items()]
        store.commit(Change(tasks=(*tasks, never, paused)))
        assert store.next_stuck_due() == at(10)
        assert list(store.stuck_due(at(9.999999), 9)) == []
        assert list(store.stuck_due(at(10), 9)) == ["task_2"]
        assert list(store.stuck_due(at(25), 9)) == ["task_2", "task_3", "task_1"]
        assert list(store.stuck_due(at(25), 2)) == ["task_2", "task_3"]
        moved = a_task(task_id="task_2", version=1, stuck_due_at=at(40))
        ended = a_task(
            task_id="task_3", version=1, status="completed", stuck_due_at=at(1)
        )
        store.commit(Change(tasks=(moved, ended)))
        assert store.next_stuck_due() == at(20)
        assert list(store.stuck_due(at(99), 9)) == ["task_1", "task_4", "task_2"]

    def test_due_wakes_tells_what_has_come_first_due_first(
        self, store: TaskStore
    ) -> None:
        due = {"wake_1": 20, "wake_2": 10, "wake_3": None, "wake_4": 30}
        store.commit(
            Change(
                wakes=tuple(
                    a_wake(wake_id=w, due_at=None if s is None else at(s))
                    for w, s in due.items()
                )
            )
        )
        assert store.next_wake_due() == at(10)
        assert list(store.due_wakes(at(9), 9)) == []
        come = [wake.wake_id for wake in store.due_wakes(at(20), 9)]
        assert come == ["wake_2", "wake_1"]
        assert [wake.wake_id for wake in store.due_wakes(at(20), 1)] == ["wake_2"]
        never = a_wake(wake_id="wake_2", version=1, due_at=None)
        again = a_wake(wake_id="wake_1", version=1, due_at=at(50), state="sent")
        store.commit(Change(wakes=(never, again)))
        assert store.next_wake_due() == at(30)
        come = [wake.wake_id for wake in store.due_wakes(at(60), 9)]
        assert come == ["wake_4", "wake_1"]

    def test_an_instant_is_the_same_in_every_time_zone(self, store: TaskStore) -> None:
        store.commit(
            Change(tasks=(a_task(stuck_due_at=at(10)),), wakes=(a_wake(due_at=at(10)),))
        )
        there = timezone(timedelta(hours=-9, minutes=-30))
        for seconds, come in ((9, 0), (10, 1)):
            now = at(seconds).astimezone(there)
            assert len(store.stuck_due(now, 9)) == come
            assert len(store.due_wakes(now, 9)) == come

    def test_wakes_of_one_delivery_count_as_one_message(self, store: TaskStore) -> None:
        sent = [
            ("a", "one", 10),
            ("a", "one", 10),
            ("a", "two", 20),
            ("a", "three", 5),
            ("b", "four", 15),
            (None, "five", 16),
            (None, "five", 16),
            ("a", None, None),
        ]
        store.commit(
            Change(
                wakes=tuple(
                    a_wake(
                        wake_id=f"wake_{number}",
                        session_key=session,
                        delivery_id=delivery,
                        sent_at=None if moment is None else at(moment),
                    )
                    for number, (session, delivery, moment) in enumerate(sent)
                )
            )
        )
        goes_on = a_wake(wake_id="run", cause=WakeCause.RUN, sent_at=at(7))
        told = goes_on.model_copy(update={"key": "run:1:1", "session_key": "a"})
        store.commit(Change(wakes=(told,)))
        assert list(store.sent_since("a", at(0))) == [at(5), at(10), at(20)]
        assert list(store.sent_since("a", at(10))) == [at(10), at(20)]
        assert list(store.sent_since("b", at(0))) == [at(15)]
        assert list(store.sent_since(None, at(0))) == [at(16)]
        assert list(store.sent_since("a", at(21))) == []

    # --- events, bookmarks, counts --------------------------------------------

    def test_events_are_read_from_a_place_on(self, store: TaskStore) -> None:
        for number in range(5):
            event = an_event(kind=f"kind_{number}", at=at(-number))
            store.commit(Change(events=(event, an_event(task_id="task_1"))))
        events = store.list_events(0, 100)
        ids = [event.event_id for event in events]
        assert ids == sorted(set(ids))
        assert ids[0] > 0
        own = [event.kind for event in events if event.task_id is None]
        assert own == [f"kind_{number}" for number in range(5)]
        assert list(store.list_events(ids[3], 100)) == list(events[4:])
        assert list(store.list_events(ids[3], 2)) == list(events[4:6])
        assert list(store.list_events(ids[-1], 100)) == []

    def test_the_last_events_come_oldest_first(self, store: TaskStore) -> None:
        for number in range(5):
            event = an_event(kind=f"kind_{number}", task_id=f"task_{number % 2}")
            store.commit(Change(events=(event,)))
        kinds = [event.kind for event in store.last_events(None, 2)]
        assert kinds == ["kind_3", "kind_4"]
        kinds = [event.kind for event in store.last_events("task_0", 2)]
        assert kinds == ["kind_2", "kind_4"]
        assert list(store.last_events("task_9", 2)) == []

    def test_a_bookmark_holds_its_last_value(self, store: TaskStore) -> None:
        store.commit(Change(bookmarks=(Bookmark(name="a", value="1"),)))
        store.commit(
            Change(
                bookmarks=(Bookmark(name="a", value="2"), Bookmark(name="b", value="3"))
            )
        )
        assert store.read_bookmark("a") == "2"
        assert store.read_bookmark("b") == "3"

    def test_counts_tell_how_much_there_is_by_state(self, store: TaskStore) -> None:
        store.commit(
            Change(
                tasks=tuple(
                    a_task(task_id=f"task_{number}", status=status)
                    for number, status in enumerate(["active", "active", "failed"])
                ),
                waits=(a_wait(), a_wait(wait_id="wait_2", status="timeout")),
                wakes=(a_wake(), a_wake(wake_id="wake_2")),
                events=(an_event(),) * 3,
            )
        )
        counts = store.count()
        assert dict(counts.tasks) == dict.fromkeys(TaskStatus, 0) | {
            TaskStatus.ACTIVE: 2,
            TaskStatus.FAILED: 1,
        }
        assert counts.waits[WaitStatus.WATCHING] == 1
        assert counts.waits[WaitStatus.TIMEOUT] == 1
        assert counts.wakes[WakeState.DUE] == 2
        assert counts.events == 3
