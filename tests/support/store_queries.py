"""The rules of what a `TaskStore` returns: which rows, in which order, and how many."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from taskmem_hookspecs.errors import TaskNotFound, WaitNotFound
from taskmem_hookspecs.model import (
    Bookmark,
    Change,
    LedgerEntry,
    Maker,
    Message,
    MessageType,
    PlanRevision,
    Role,
    RunState,
    Task,
    TaskStatus,
    Wait,
    WaitStatus,
    WakeCause,
    WakeState,
)
from taskmem_hookspecs.roles import (
    EventQuery,
    RunQuery,
    TaskQuery,
    TaskStore,
    TextQuery,
    WaitQuery,
    WakeQuery,
)
from taskmem_hookspecs.testing import (
    DAWN,
    a_message,
    a_revision,
    a_run,
    a_task,
    a_wait,
    a_wake,
    an_event,
)
from tests.support.rows import (
    extract_ids,
    find_next_lapse,
    find_next_stuck_due,
    find_next_wake_due,
    read_all_rows,
    read_bookmark,
)


def make_instant(seconds: float) -> datetime:
    """Return the instant that many seconds after `DAWN`."""
    return DAWN + timedelta(seconds=seconds)


class StoreQuestions:
    """Part of `StoreSuite`."""

    def test_what_is_not_there_is_not_found(self, store: TaskStore) -> None:
        with pytest.raises(TaskNotFound, match="task_9"):
            store.read_task("task_9")
        with pytest.raises(WaitNotFound, match="wait_9"):
            store.read_wait("wait_9")
        assert list(store.read_records(Message, "task_9")) == []
        assert list(store.read_records(PlanRevision, "task_9")) == []
        assert read_bookmark(store, "never set") is None

    def test_an_empty_store_has_nothing(self, store: TaskStore) -> None:
        assert not any(read_all_rows(store).values())
        assert find_next_stuck_due(store) is None
        assert find_next_wake_due(store) is None
        assert sum(store.count().tasks.values()) == 0

    # --- tasks ----------------------------------------------------------------

    def test_a_task_comes_with_waits_and_open_wakes_oldest_first(self, store: TaskStore) -> None:
        waits = (
            a_wait(wait_id="wait_1", task_id="task_1", created_at=make_instant(2)),
            a_wait(
                wait_id="wait_2",
                task_id="task_1",
                created_at=make_instant(1),
                status=WaitStatus.ERROR,
            ),
            a_wait(wait_id="wait_3", task_id="task_2"),
            a_wait(wait_id="wait_4"),
        )
        wakes = [
            a_wake(
                wake_id=f"wake_{state}", task_id="task_1", state=state, created_at=make_instant(-i)
            )
            for i, state in enumerate(WakeState)
        ]
        strangers = (a_wake(wake_id="a"), a_wake(wake_id="b", task_id="task_2"))
        store.commit(
            Change(
                tasks=(a_task(), a_task(task_id="task_2")), waits=waits, wakes=(*wakes, *strangers)
            )
        )
        facts = store.read_task("task_1")
        assert [wait.wait_id for wait in facts.waits] == ["wait_2", "wait_1"]
        assert [wake.state for wake in facts.wakes] == [WakeState.SENT, WakeState.DUE]
        assert store.read_task("task_2").wakes == (strangers[1].model_copy(update={"version": 1}),)

    def test_tasks_are_listed_most_recently_updated_first(self, store: TaskStore) -> None:
        statuses = [*TaskStatus, TaskStatus.ACTIVE, TaskStatus.ACTIVE]
        moments = [3, 1, 4, 1.000001, 5, 9, 2]
        store.commit(
            Change(
                tasks=tuple(
                    a_task(task_id=f"task_{i}", status=status, updated_at=make_instant(moment))
                    for i, (status, moment) in enumerate(zip(statuses, moments, strict=True))
                )
            )
        )

        def find(status: TaskStatus | None, limit: int | None = None) -> list[Task]:
            query = TaskQuery(status=status, limit=limit, implicit=False)
            return [*store.find_tasks(query)]

        listed = [make_instant(moment) for moment in sorted(moments, reverse=True)]
        assert [task.updated_at for task in find(None)] == listed
        assert [task.updated_at for task in find(None, 2)] == listed[:2]
        assert extract_ids(find(TaskStatus.ACTIVE)) == ["task_5", "task_0", "task_6"]
        assert extract_ids(find(TaskStatus.ACTIVE, 2)) == ["task_5", "task_0"]
        for status in TaskStatus:
            assert {task.status for task in find(status)} == {status}

    def test_tasks_are_found_by_what_blocks_them(self, store: TaskStore) -> None:
        blockers = {"task_a": (), "task_b": ("task_a", "task_c"), "task_c": ("task_aXa",)}
        tasks = [a_task(task_id=id_, blocked_by=ids) for id_, ids in blockers.items()]
        rests = a_task(task_id="task_d", status=TaskStatus.PAUSED)
        store.commit(Change(tasks=(*tasks, rests)))

        def find(**given: Any) -> set[str]:
            return set(extract_ids(store.find_tasks(TaskQuery(**given))))

        assert find(blocker="task_c") == {"task_b"}
        assert find(blocker="task_d") == set()
        assert find(ready=True) == {"task_a"}
        assert find(ready=True, implicit=False) == {"task_a"}
        assert store.read_task("task_b").task.blocked_by == ("task_a", "task_c")

    def test_tasks_are_found_by_parts_of_names_and_threads(self, store: TaskStore) -> None:
        names = {"task_ab1": "Deploy 100% of it", "task_cd2": "Read a_b\\c", "task_ef3": "Sing"}
        tasks = tuple(a_task(task_id=id_, name=name) for id_, name in names.items())
        words = {"task_ab1": "The server said: Ready.", "task_ef3": "100 of a.b"}
        said = tuple(a_message(task_id=id_, content=word) for id_, word in words.items())
        store.commit(Change(tasks=tasks, messages=said))

        def find_named(part: str) -> set[str]:
            return set(extract_ids(store.find_tasks(TaskQuery(named=part))))

        def find_holding(part: str) -> set[str]:
            return set(extract_ids(store.find_tasks(TaskQuery(holding=part))))

        assert find_named("deploy") == {"task_ab1"}
        assert find_named("CD2") == {"task_cd2"}
        assert find_named("0%") == {"task_ab1"}
        assert find_named("a_b\\") == {"task_cd2"}
        assert find_named("ready") == set()
        assert find_holding("READY") == {"task_ab1"}
        assert find_holding("100") == {"task_ab1", "task_ef3"}
        assert find_holding("a_b") == {"task_cd2"}
        assert find_holding("cd2") == set()

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
        walked = [""]
        query = TaskQuery(status=TaskStatus.ACTIVE, limit=2)
        while page := store.find_tasks(query.model_copy(update={"after": walked[-1]})):
            assert len(page) <= 2
            walked += extract_ids(page)
        assert walked[1:] == sorted(ids)

    def test_the_newest_messages_come_oldest_first(self, store: TaskStore) -> None:
        tasks = (a_task(), a_task(task_id="task_2"))
        store.commit(Change(tasks=tasks))
        for number in range(6):
            store.commit(
                Change(
                    messages=(
                        a_message(content=f"{number}a", created_at=make_instant(-number)),
                        a_message(task_id="task_2", content="of another"),
                        a_message(content=f"{number}b"),
                    )
                )
            )
        thread = store.read_records(Message, "task_1")
        assert [message.content for message in thread] == [
            f"{number}{letter}" for number in range(6) for letter in "ab"
        ]
        ids = [message.message_id for message in thread]
        assert ids == sorted(set(ids))
        assert list(store.read_records(Message, "task_1", 3)) == list(thread[-3:])
        assert list(store.read_records(Message, "task_1", 100)) == list(thread)
        assert list(store.read_records(Message, "task_1", 0)) == []
        earlier = store.read_records(Message, "task_1", 3, before=ids[-3])
        assert list(earlier) == thread[-6:-3]
        assert list(store.read_records(Message, "task_1", before=ids[2])) == thread[:2]

    def test_of_a_thread_what_no_agent_said_is_read_alone(self, store: TaskStore) -> None:
        user, life = {"role": Role.USER}, {"msg_type": MessageType.LIFECYCLE}
        kinds: tuple[dict[str, Any], ...] = (user, {}, life, {}, user, life)
        tasks = (a_task(), a_task(task_id="task_2"))
        said = [a_message(content=f"{n}", **kind) for n, kind in enumerate(kinds)]
        other = a_message(task_id="task_2", **user)
        store.commit(Change(tasks=tasks, messages=(*said, other)))
        ids = [message.message_id for message in store.read_records(Message, "task_1")]

        def read_said(after: int, limit: int | None = None) -> list[str]:
            found = store.read_records(Message, "task_1", limit, said_after=after)
            return [message.content for message in found]

        assert read_said(0) == ["0", "2", "4", "5"]
        assert read_said(ids[2]) == ["4", "5"]
        assert read_said(0, 1) == ["5"]

    def test_revisions_come_oldest_first(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(), a_task(task_id="task_2"))))
        for reason in ("first", "second", "third"):
            own = a_revision(reason=reason)
            store.commit(Change(revisions=(own, a_revision(task_id="task_2"))))
        revisions = store.read_records(PlanRevision, "task_1")
        assert [r.reason for r in revisions] == ["first", "second", "third"]

    # --- what is due ----------------------------------------------------------

    def test_tasks_that_are_due_come_in_order(self, store: TaskStore) -> None:
        dues = {"task_1": 20, "task_2": 10, "task_3": 10.5, "task_4": 30}
        never = a_task(task_id="task_5", stuck_due_at=None)
        paused = a_task(task_id="task_6", status="paused", stuck_due_at=make_instant(1))
        tasks = [a_task(task_id=t, stuck_due_at=make_instant(s)) for t, s in dues.items()]
        store.commit(Change(tasks=(*tasks, never, paused)))

        def due(seconds: float, limit: int = 9) -> list[str]:
            query = TaskQuery(due_by=make_instant(seconds), limit=limit)
            return extract_ids(store.find_tasks(query))

        assert find_next_stuck_due(store) == make_instant(10)
        assert due(9.999999) == []
        assert due(10) == ["task_2"]
        assert due(25) == ["task_2", "task_3", "task_1"]
        assert due(25, 2) == ["task_2", "task_3"]
        moved = a_task(task_id="task_2", version=1, stuck_due_at=make_instant(40))
        ended = a_task(
            task_id="task_3", version=1, status="completed", stuck_due_at=make_instant(1)
        )
        store.commit(Change(tasks=(moved, ended)))
        assert find_next_stuck_due(store) == make_instant(20)
        assert due(99) == ["task_1", "task_4", "task_2"]

    def test_wakes_that_are_due_come_first_due_first(self, store: TaskStore) -> None:
        due = {"wake_1": 20, "wake_2": 10, "wake_3": None, "wake_4": 30}
        store.commit(
            Change(
                wakes=tuple(
                    a_wake(wake_id=w, due_at=None if s is None else make_instant(s))
                    for w, s in due.items()
                )
            )
        )

        def list_due(seconds: float, limit: int = 9) -> list[str]:
            found = store.find_wakes(WakeQuery(due_by=make_instant(seconds), limit=limit))
            return extract_ids(found)

        assert find_next_wake_due(store) == make_instant(10)
        assert list_due(9) == []
        assert list_due(20) == ["wake_2", "wake_1"]
        assert list_due(20, 1) == ["wake_2"]
        never = a_wake(wake_id="wake_2", version=1, due_at=None)
        again = a_wake(wake_id="wake_1", version=1, due_at=make_instant(50), state="sent")
        store.commit(Change(wakes=(never, again)))
        assert find_next_wake_due(store) == make_instant(30)
        assert list_due(60) == ["wake_4", "wake_1"]

    def test_an_instant_is_the_same_in_every_time_zone(self, store: TaskStore) -> None:
        store.commit(
            Change(
                tasks=(a_task(stuck_due_at=make_instant(10)),),
                wakes=(a_wake(due_at=make_instant(10)),),
            )
        )
        there = timezone(timedelta(hours=-9, minutes=-30))
        for seconds, come in ((9, 0), (10, 1)):
            now = make_instant(seconds).astimezone(there)
            assert len(store.find_tasks(TaskQuery(due_by=now))) == come
            assert len(store.find_wakes(WakeQuery(due_by=now))) == come

    def test_wakes_sent_to_a_session_come_first_sent_first(self, store: TaskStore) -> None:
        sent = (("a", 10), ("a", 20), ("a", 5), ("b", 15), (None, 16), ("a", None))
        store.commit(
            Change(
                wakes=tuple(
                    a_wake(
                        wake_id=f"wake_{number}",
                        session_key=session,
                        sent_at=None if moment is None else make_instant(moment),
                    )
                    for number, (session, moment) in enumerate(sent)
                )
            )
        )

        def find_ids(session_key: str | None, since: float) -> list[str]:
            query = WakeQuery(session_key=session_key, sent_since=make_instant(since))
            return extract_ids(store.find_wakes(query))

        assert find_ids("a", 0) == ["wake_2", "wake_0", "wake_1"]
        assert find_ids("a", 10) == ["wake_0", "wake_1"]
        assert find_ids("b", 0) == ["wake_3"]
        assert find_ids(None, 0) == ["wake_4"]
        assert find_ids("a", 21) == []

    # --- events, bookmarks, counts --------------------------------------------

    def test_events_are_read_from_a_place_on(self, store: TaskStore) -> None:
        for number in range(5):
            event = an_event(kind=f"kind_{number}", at=make_instant(-number))
            store.commit(Change(events=(event, an_event(task_id="task_1"))))
        events = store.find_events(EventQuery())
        ids = [event.event_id for event in events]
        assert ids == sorted(set(ids))
        assert ids[0] > 0
        own = [event.kind for event in events if event.task_id is None]
        assert own == [f"kind_{number}" for number in range(5)]
        assert [*store.find_events(EventQuery(after=ids[3]))] == [*events[4:]]
        assert [*store.find_events(EventQuery(after=ids[3], limit=2))] == [*events[4:6]]
        assert list(store.find_events(EventQuery(after=ids[-1]))) == []

    def test_the_last_events_come_oldest_first(self, store: TaskStore) -> None:
        for number in range(5):
            event = an_event(kind=f"kind_{number}", task_id=f"task_{number % 2}")
            store.commit(Change(events=(event,)))

        def last(task_id: str | None) -> list[str]:
            found = store.find_events(EventQuery(task_id=task_id, limit=2))
            return [event.kind for event in found]

        assert last(None) == ["kind_3", "kind_4"]
        assert last("task_0") == ["kind_2", "kind_4"]
        assert last("task_9") == []

    def test_a_bookmark_holds_its_last_value(self, store: TaskStore) -> None:
        store.commit(Change(bookmarks=(Bookmark(name="a", value="1"),)))
        store.commit(
            Change(bookmarks=(Bookmark(name="a", value="2"), Bookmark(name="b", value="3")))
        )
        assert read_bookmark(store, "a") == "2"
        assert read_bookmark(store, "b") == "3"

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


class StoreWaits:
    """Part of `StoreSuite`."""

    def test_a_task_comes_with_open_waits_and_the_last_that_ended(self, store: TaskStore) -> None:
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


HOMES = ("home_1", "home_2", None)


class StoreHomes:
    """Part of `StoreSuite`: a query of a home finds its rows, and those without a home."""

    def test_tasks_are_due_in_their_own_home(self, store: TaskStore) -> None:
        tasks = (
            a_task(task_id=f"task_{n}", home=home, stuck_due_at=make_instant(n))
            for n, home in enumerate(HOMES)
        )
        store.commit(Change(tasks=tuple(tasks)))

        def list_due(home: str | None, limit: int = 9) -> list[str]:
            query = TaskQuery(due_by=make_instant(9), limit=limit, home=home)
            return extract_ids(store.find_tasks(query))

        assert list_due("home_1") == ["task_0", "task_2"]
        assert list_due("home_2") == ["task_1", "task_2"]
        assert list_due("home_2", 1) == ["task_1"]
        assert list_due("home_3", 1) == ["task_2"]
        assert list_due(None) == ["task_0", "task_1", "task_2"]
        due = [find_next_stuck_due(store, home) for home in (*HOMES, "home_3")]
        assert due == [make_instant(0), make_instant(1), make_instant(0), make_instant(2)]

    def test_wakes_are_due_in_their_own_home(self, store: TaskStore) -> None:
        wakes = (
            a_wake(wake_id=f"wake_{n}", home=home, due_at=make_instant(n))
            for n, home in enumerate(HOMES)
        )
        store.commit(Change(wakes=tuple(wakes)))

        def due(home: str | None, limit: int = 9) -> list[str]:
            query = WakeQuery(due_by=make_instant(9), limit=limit, home=home)
            return extract_ids(store.find_wakes(query))

        assert due("home_1") == ["wake_0", "wake_2"]
        assert due("home_2") == ["wake_1", "wake_2"]
        assert due("home_2", 1) == ["wake_1"]
        assert due("home_3", 1) == ["wake_2"]
        assert due(None) == ["wake_0", "wake_1", "wake_2"]
        first = [find_next_wake_due(store, home) for home in (*HOMES, "home_3")]
        assert first == [make_instant(0), make_instant(1), make_instant(0), make_instant(2)]

    def test_wakes_sent_to_a_session_are_of_their_own_home(self, store: TaskStore) -> None:
        wakes = (
            a_wake(wake_id=f"wake_{n}", home=home, session_key="s", sent_at=make_instant(n))
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
            task = a_task(task_id=f"task_{n}", updated_at=make_instant(-n))
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
            run = a_run(run_id=f"run_{n}", task_id=task_id, home=home, lease_until=make_instant(n))
            store.commit(Change(tasks=(a_task(task_id=task_id),), runs=(run,)))

        def find_lapsed(home: str | None, limit: int = 9) -> list[str]:
            query = RunQuery(lapsed_by=make_instant(9), limit=limit, home=home)
            return extract_ids(store.find_runs(query))

        assert find_lapsed("home_1") == ["run_0", "run_2"]
        assert find_lapsed("home_2", 1) == ["run_1"]
        assert find_lapsed("home_3", 1) == ["run_2"]
        assert find_lapsed(None) == ["run_0", "run_1", "run_2"]
        first = [find_next_lapse(store, home) for home in (*HOMES, "home_3")]
        assert first == [make_instant(0), make_instant(1), make_instant(0), make_instant(2)]

    def test_runs_are_found_by_the_home_of_their_task(self, store: TaskStore) -> None:
        for n, home in enumerate(HOMES):
            made = {"task_id": f"task_{n}", "created_at": make_instant(n)}
            run = a_run(run_id=f"run_{n}", home="home_9", lease_until=make_instant(n), **made)
            store.commit(Change(tasks=(a_task(home=home, **made),), runs=(run,)))

        def find_ids(task_home: str, **asked: Any) -> list[str]:
            return extract_ids(store.find_runs(RunQuery(task_home=task_home, **asked)))

        assert find_ids("home_1") == ["run_2", "run_0"]
        assert find_ids("home_2", lapsed_by=make_instant(9), limit=1) == ["run_1"]
        assert find_ids("home_2", lapsed_by=make_instant(9), home="home_9") == ["run_1", "run_2"]
        assert find_ids("home_3") == ["run_2"]

    def test_what_is_listed_is_cut_to_its_home_before_its_limit(self, store: TaskStore) -> None:
        for n, home in enumerate(HOMES):
            task_id = f"task_{n}"
            made = {"task_id": task_id, "created_at": make_instant(n), "home": home}
            change = Change(
                tasks=(a_task(task_id=task_id, home=home, updated_at=make_instant(n)),),
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
                        updated_at=make_instant(n),
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

    # --- the words of texts --------------------------------------------------

    def find(self, store: TaskStore, *patterns: str, **given: Any) -> list[tuple[str, int | None]]:
        """Return the places of some patterns, in order."""
        found = store.find_texts(TextQuery(patterns=patterns, **given))
        assert [*found] == [*dict.fromkeys(patterns)]
        return [place for matches in found.values() for place in matches.places]

    def say(self, store: TaskStore, *contents: str, **given: Any) -> None:
        """Write messages to a task, which is registered if it is not there."""
        task_id = given.setdefault("task_id", "task_1")
        known = [task.task_id for task in store.find_tasks(TaskQuery())]
        new = () if task_id in known else (a_task(task_id=task_id, name="x", plan=("y",)),)
        said = tuple(a_message(content=content, **given) for content in contents)
        store.commit(Change(tasks=new, messages=said))

    def test_what_was_written_is_found_at_once_newest_first(self, store: TaskStore) -> None:
        self.say(store, "The quince is ripe.", "lunch", "QUINCES, again")
        assert self.find(store, "quince*") == [("task_1", 3), ("task_1", 1)]
        assert self.find(store, "quince") == [("task_1", 1)]
        assert self.find(store, "uince*") == []

    def test_every_text_of_a_task_is_found(self, store: TaskStore) -> None:
        task = a_task(name="Renew certificates", plan=("Order",), original_request="Please, pears")
        old = a_revision(old_plan=("Export", "Send"), new_plan=("Order",), reason="so")
        made = LedgerEntry(task_id=task.task_id, path="/srv/mail-server/dovecot.conf", at=DAWN)
        store.commit(Change(tasks=(task,), revisions=(old,), ledger=(made,)))
        for word in ("renew", "order", "pears", "export", "send", "mail", "dovecot", "conf"):
            assert self.find(store, word) == [(task.task_id, None)], word
        assert self.find(store, "zzz") == []

    def test_a_text_is_found_as_it_is_now(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(name="apple", plan=("pear",)),)))
        task = store.read_task("task_1").task
        store.commit(Change(tasks=(task.model_copy(update={"name": "plum", "plan": ("fig",)}),)))
        assert self.find(store, "apple", "pear") == []
        assert self.find(store, "plum", "fig") == [("task_1", None)] * 2

    def test_what_is_forgotten_is_found_no_more(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(name="apple", plan=("pear",), implicit=True),)))
        self.say(store, "quince")
        store.commit(Change(forget_before=make_instant(1_000_000)))
        store.commit(Change(tasks=(a_task(name="x", plan=("y",)),)))
        assert self.find(store, "apple", "pear", "quince") == []
        assert store.find_texts(TextQuery(patterns=("quince",), limit=0))["quince"].total == 0

    def test_a_refused_change_is_not_found(self, store: TaskStore) -> None:
        self.say(store, "lunch")
        with pytest.raises(TaskNotFound):
            store.commit(Change(messages=(a_message(task_id="task_9", content="quince"),)))
        assert self.find(store, "quince") == []

    def test_texts_are_counted_and_the_newest_are_returned(self, store: TaskStore) -> None:
        self.say(store, *(f"quince {number}" for number in range(9)))
        found = store.find_texts(TextQuery(patterns=("quince", "9", "8"), limit=2))
        assert [matches.total for matches in found.values()] == [9, 0, 1]
        assert found["quince"].places == [("task_1", 9), ("task_1", 8)]
        none = store.find_texts(TextQuery(patterns=("quince",), limit=0))["quince"]
        assert (none.total, [*none.places]) == (9, [])

    def test_only_texts_beside_a_word_are_found(self, store: TaskStore) -> None:
        self.say(store, "quince pie", "quince jam", "quince", "pie", "web mail quinces")
        found = self.find(store, "quince", beside=("jam", "pie"))
        assert found == [("task_1", 2), ("task_1", 1)]
        assert self.find(store, "quince*", beside=("web mai*",)) == [("task_1", 5)]
        assert len(self.find(store, "quince", beside=("jam",), task_id="task_1")) == 3

    def test_of_a_home_its_own_texts_are_counted(self, store: TaskStore) -> None:
        for number in (1, 2):
            task = a_task(task_id=f"task_{number}", name="x", home=f"home_{number}")
            store.commit(Change(tasks=(task,)))
            self.say(store, *["quince"] * 3 * number, task_id=task.task_id)
        for limit in (0, 1):
            query = TextQuery(patterns=("quince",), limit=limit, home="home_1")
            assert store.find_texts(query)["quince"].total == 3

    def test_texts_move_with_their_task_to_another_home(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(name="quince", home="home_1"),)))
        self.say(store, "quince")
        task = store.read_task("task_1").task
        store.commit(Change(tasks=(task.model_copy(update={"home": "home_2"}),)))
        assert self.find(store, "quince", home="home_1") == []
        assert len(self.find(store, "quince", home="home_2")) == 2

    def test_tasks_and_messages_are_read_by_their_ids(self, store: TaskStore) -> None:
        for number in range(4):
            self.say(store, f"quince {number}", task_id=f"task_{number}")
        found = store.find_tasks(TaskQuery(task_ids=("task_2", "task_1", "task_9")))
        assert sorted(task.task_id for task in found) == ["task_1", "task_2"]
        messages = store.read_messages([2, 4, 99])
        assert sorted(message.content for message in messages) == ["quince 1", "quince 3"]
        assert [*store.read_messages([])] == []

    def test_the_texts_of_one_task_are_its_messages(self, store: TaskStore) -> None:
        self.say(store, "quince", "quince pie")
        self.say(store, "quince", task_id="task_2")
        self.say(store, "lunch")
        alert = a_message(content="quince?", msg_type=MessageType.STUCK, role=Role.SYSTEM)
        store.commit(Change(messages=(alert,)))
        store.commit(Change(tasks=(a_task(task_id="task_3", name="quince"),)))
        mine = [("task_1", 5), ("task_1", 2), ("task_1", 1)]
        assert self.find(store, "quince", task_id="task_1") == mine
        assert self.find(store, "quince", task_id="task_1", home="home_9") == mine
        assert self.find(store, "quince", task_id="task_9") == []

    def test_turns_alerts_and_other_homes_are_left_out(self, store: TaskStore) -> None:
        for number, own in enumerate(
            ({"home": "home_1"}, {"home": "home_2"}, {}, {"implicit": True}), start=1
        ):
            task_id = f"task_{number}"
            store.commit(Change(tasks=(a_task(task_id=task_id, name="quince", **own),)))
            self.say(store, "quince", task_id=task_id)
        alert = a_message(content="quince?", msg_type=MessageType.STUCK, role=Role.SYSTEM)
        store.commit(Change(messages=(alert,)))
        mine = [("task_3", 3), ("task_1", 1), ("task_3", None), ("task_1", None)]
        assert sorted(self.find(store, "quince", home="home_1"), key=str) == sorted(mine, key=str)
        assert len(self.find(store, "quince")) == 6

    @pytest.mark.parametrize(
        ("pattern", "content"),
        [
            pytest.param("*設定*", "次に設定を開く", id="a part"),
            pytest.param("設定*", "設定を開く", id="a beginning"),
            pytest.param("ключ", "Новый ключ: вот", id="another alphabet"),
            pytest.param("dovecot", "see /etc/dovecot/10-ssl.conf", id="a part of a path"),
            pytest.param("ssl", "see /etc/dovecot/10-ssl.conf", id="after a number"),
            pytest.param("example", "https://www.example.org/a?b=c", id="a part of an address"),
            pytest.param("api", "atlas-api's web_hook", id="before an apostrophe"),
            pytest.param("hook", "atlas-api's web_hook", id="after an underscore"),
            pytest.param("v2", "tag v2.10.3!", id="a version"),
            pytest.param("10", "tag v2.10.3!", id="a number"),
            pytest.param("büro", "im BÜRO", id="an umlaut"),
        ],
    )
    def test_words_are_found_in_any_writing(
        self, store: TaskStore, pattern: str, content: str
    ) -> None:
        self.say(store, content, "lunch")
        assert self.find(store, pattern) == [("task_1", 1)]
        assert self.find(store, pattern, task_id="task_1") == [("task_1", 1)]
