"""Test which ended rows a `TaskStore` deletes, and which it keeps."""
# ruff: noqa: S101, D102 - tests: pytest explains, names and numbers speak

from __future__ import annotations

from datetime import timedelta

import pytest

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.model import Task, TaskStatus, WaitStatus, WakeState
from taskmem_hookspecs.queries import EventQuery, WaitQuery, WakeQuery
from taskmem_hookspecs.roles import TaskStore
from taskmem_hookspecs.runs import Checkpoint, RunState
from taskmem_hookspecs.testing.clock import DAWN
from taskmem_hookspecs.testing.holdings import extract_ids, read_all_rows
from taskmem_hookspecs.testing.values import (
    a_checkpoint,
    a_message,
    a_revision,
    a_run,
    a_task,
    a_wait,
    a_wake,
    an_artifact,
    an_entry,
    an_event,
)

SECOND = timedelta(seconds=1)
LATER = DAWN + SECOND
MANY = 1_000


def a_closed_task(**changes: object) -> Task:
    """Return the completed `task_1`, with these fields changed."""
    return a_task(**{"status": TaskStatus.COMPLETED, **changes})


def build_full_change(task: Task) -> Change:
    """Return a change with the task and up to two ended rows of every other kind."""
    waits = [
        a_wait(wait_id=f"wait_{n}", task_id="task_1", status=WaitStatus.RESOLVED) for n in (1, 2)
    ]
    wakes = [
        a_wake(
            wake_id=f"wake_{n}",
            key=f"{n}",
            task_id="task_1",
            wait_id=f"wait_{n}",
            state=WakeState.ACKNOWLEDGED,
            due_at=None,
        )
        for n in (1, 2)
    ]
    return Change(
        tasks=(task,),
        messages=(a_message(),),
        revisions=(a_revision(),),
        runs=(a_run(state=RunState.COMPLETED),),
        checkpoints=(a_checkpoint(), a_checkpoint(number=2)),
        artifacts=(an_artifact(run_id="run_1"),),
        ledger=(an_entry(run_id="run_1"),),
        waits=tuple(waits),
        wakes=tuple(wakes),
        events=(
            an_event(kind="a", task_id="task_1"),
            an_event(kind="b", task_id="task_1", wait_id="wait_1"),
            an_event(kind="a", task_id="task_1"),
            an_event(kind="c"),
        ),
    )


class StoreDropping:
    """Part of `StoreSuite`."""

    def test_of_a_closed_task_stays_what_tells_how_it_ended(self, store: TaskStore) -> None:
        store.commit(build_full_change(a_closed_task()))
        before = read_all_rows(store)
        gone = store.drop_ended(LATER, MANY).rows
        assert gone == {"checkpoints": 2, "wakes": 2, "waits": 1, "events": 1}
        assert store.drop_ended(LATER, MANY).rows == {}
        after = read_all_rows(store)
        assert extract_ids(store.find_waits(WaitQuery())) == ["wait_2"]
        kinds = [event.kind for event in store.find_events(EventQuery())]
        assert kinds == ["b", "a", "c"]
        for name in ("tasks", "messages", "revisions", "runs", "artifacts", "ledger"):
            assert after[name] == before[name]

    @pytest.mark.parametrize("status", [TaskStatus.ACTIVE, TaskStatus.PAUSED])
    def test_of_an_open_task_nothing_is_dropped(self, store: TaskStore, status: TaskStatus) -> None:
        store.commit(build_full_change(a_closed_task(status=status)))
        before = read_all_rows(store)
        assert store.drop_ended(LATER, MANY).rows == {}
        assert read_all_rows(store) == before

    @pytest.mark.parametrize("state", [WakeState.DUE, WakeState.SENT])
    def test_a_wake_that_is_owed_stays_with_its_wait(
        self, store: TaskStore, state: WakeState
    ) -> None:
        wait = a_wait(status=WaitStatus.RESOLVED)
        wake = a_wake(wait_id="wait_1", state=state, due_at=None)
        store.commit(Change(waits=(wait,), wakes=(wake,)))
        assert store.drop_ended(LATER, MANY).rows == {}

    def test_a_watched_wait_keeps_its_wakes_and_events(self, store: TaskStore) -> None:
        wake = a_wake(wait_id="wait_1", state=WakeState.ACKNOWLEDGED, due_at=None)
        events = (an_event(wait_id="wait_1"), an_event())
        store.commit(Change(waits=(a_wait(),), wakes=(wake,), events=events))
        assert store.drop_ended(LATER, MANY).rows == {}

    @pytest.mark.parametrize("state", [RunState.RUNNING, RunState.BLOCKED])
    def test_a_run_that_is_open_keeps_its_checkpoints(
        self, store: TaskStore, state: RunState
    ) -> None:
        run = a_run(state=state)
        kept = Change(tasks=(a_closed_task(),), runs=(run,), checkpoints=(a_checkpoint(),))
        store.commit(kept)
        assert store.drop_ended(LATER, MANY).rows == {}

    def test_the_newest_run_of_a_failed_task_keeps_its_checkpoints(self, store: TaskStore) -> None:
        ended = {"state": RunState.FAILED}
        runs = [
            a_run(**ended, run_id=f"run_{n}", created_at=DAWN + at * SECOND)
            for n, at in ((1, 0), (2, 1), (3, 1))
        ]
        kept = [a_checkpoint(run_id=run.run_id) for run in runs]
        failed = a_closed_task(status=TaskStatus.FAILED)
        store.commit(Change(tasks=(failed,), runs=tuple(runs), checkpoints=tuple(kept)))
        assert store.drop_ended(LATER, MANY).rows == {"checkpoints": 2}
        assert len(store.read_records(Checkpoint, "run_3", 9)) == 1

    def test_no_event_beyond_a_number_is_dropped(self, store: TaskStore) -> None:
        store.commit(Change(events=tuple(an_event() for _ in range(4))))
        assert store.drop_ended(LATER, MANY, None, 2).rows == {"events": 2}
        assert store.drop_ended(LATER, MANY, None, 0).rows == {}

    def test_events_are_looked_for_after_the_last_that_went(self, store: TaskStore) -> None:
        events = (an_event(task_id="task_1"), *(an_event() for _ in range(4)))
        store.commit(Change(tasks=(a_task(),), events=events))
        first = store.drop_ended(LATER, 2)
        assert (first.rows, first.last_event) == ({"events": 2}, 3)
        closing = a_closed_task(version=1)
        store.commit(Change(tasks=(closing,), events=(an_event(task_id="task_1"),)))
        then = store.drop_ended(LATER, MANY, after=first.last_event)
        assert [event.event_id for event in store.find_events(EventQuery())] == [1, 6]
        assert then.last_event == len(events)
        last = store.drop_ended(LATER, MANY, after=len(events))
        assert last.last_event == len(events)

    def test_what_is_not_older_than_the_instant_stays(self, store: TaskStore) -> None:
        store.commit(build_full_change(a_closed_task()))
        assert store.drop_ended(DAWN, MANY).rows == {}
        late = {"created_at": DAWN, "task_id": None}
        wait = a_wait(**late, wait_id="wait_9", status=WaitStatus.TIMEOUT, changed_at=LATER)
        wakes = [
            a_wake(
                **late,
                wake_id=f"wake_9{moved}",
                key=moved,
                state=WakeState.UNANSWERED,
                due_at=None,
                **{moved: LATER},
            )
            for moved in ("sent_at", "acknowledged_at")
        ]
        store.commit(Change(waits=(wait,), wakes=tuple(wakes)))
        store.drop_ended(LATER, MANY)
        assert store.read_wait("wait_9") == wait.model_copy(update={"version": 1})
        kept = store.find_wakes(WakeQuery(wake_ids=tuple(extract_ids(wakes))))
        assert len(kept) == len(wakes)

    def test_the_oldest_go_first_and_no_more_than_asked_for(self, store: TaskStore) -> None:
        for n in (3, 1, 2):
            at = DAWN + n * SECOND
            wait = a_wait(
                wait_id=f"wait_{n}", status=WaitStatus.CANCELLED, created_at=at, changed_at=at
            )
            store.commit(Change(waits=(wait,), events=(an_event(at=at),)))
        assert store.drop_ended(DAWN + 9 * SECOND, 2).rows == {"waits": 2, "events": 2}
        assert extract_ids(store.find_waits(WaitQuery())) == ["wait_3"]
        assert [event.event_id for event in store.find_events(EventQuery())] == [3]

    def test_events_are_numbered_on_after_all_others_are_gone(self, store: TaskStore) -> None:
        store.commit(Change(events=(an_event(), an_event())))
        assert store.drop_ended(LATER, MANY).rows == {"events": 1}
        store.commit(Change(events=(an_event(),)))
        left = store.find_events(EventQuery(after=1))
        assert [event.event_id for event in left] == [2, 3]

    def test_what_is_of_another_home_is_not_dropped(self, store: TaskStore) -> None:
        store.commit(build_full_change(a_closed_task(home="/home/2")))
        wait = a_wait(wait_id="wait_9", status=WaitStatus.RESOLVED, home="/home/2")
        events = (an_event(wait_id="wait_9"), an_event(task_id="task_9"), an_event())
        store.commit(Change(waits=(wait,), events=events))
        assert store.drop_ended(LATER, MANY, "/home/1").rows["events"] == len(events[1:])
        assert "wait_9" in extract_ids(store.find_waits(WaitQuery()))

    @pytest.mark.parametrize("kind", ["tasks", "waits", "wakes"])
    def test_what_another_home_has_is_noticed(self, store: TaskStore, kind: str) -> None:
        make = {"tasks": a_task, "waits": a_wait, "wakes": a_wake}[kind]
        assert not store.measure("/home/1").shared
        store.commit(Change.model_validate({kind: (make(home="/home/1"),)}))
        assert not store.measure("/home/1").shared
        assert store.measure("/home/2").shared
        assert not store.measure().shared

    def test_room_that_was_given_back_counts_as_free(self, store: TaskStore) -> None:
        many = tuple(an_event(data={"x": "y" * 1_000}) for _ in range(400))
        store.commit(Change(events=many))
        taken = store.measure().bytes
        assert store.drop_ended(LATER, MANY).rows == {"events": 399}
        assert store.measure().bytes < taken / 2
