"""`StoreSuite`: the rules of every `TaskStore`, with those of what many do at once."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Generator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from taskmem_hookspecs.errors import Conflict, RunNotFound, TaskNotFound
from taskmem_hookspecs.model import (
    Bookmark,
    Change,
    Checkpoint,
    Message,
    RunState,
    Task,
    TaskStatus,
    WaitStatus,
    WakeState,
)
from taskmem_hookspecs.roles import EventQuery, RunQuery, TaskQuery, TaskStore, WaitQuery, WakeQuery
from taskmem_hookspecs.testing import (
    DAWN,
    a_checkpoint,
    a_folder,
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
from tests.support.rows import extract_ids, read_all_rows, read_bookmark
from tests.support.store_queries import StoreHomes, StoreQuestions, StoreWaits
from tests.support.store_writes import StoreBackUps, StoreCommits, StoreRuns

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


def commit_both_kinds(store: TaskStore) -> None:
    """Commit `task_1`, and `task_2`, which is implicit."""
    for n, implicit in ((1, False), (2, True)):
        task = a_task(
            task_id=f"task_{n}", implicit=implicit, session_key="s", updated_at=DAWN + n * SECOND
        )
        run = a_run(run_id=f"run_{n}", task_id=f"task_{n}", state=RunState.RUNNING, session_key="s")
        store.commit(Change(tasks=(task,), runs=(run,)))


class StoreImplicit:
    """Part of `StoreSuite`."""

    def test_implicit_tasks_are_listed_where_they_are_asked_for(self, store: TaskStore) -> None:
        commit_both_kinds(store)

        def list_ids(*, implicit: bool | None) -> list[str]:
            found = store.find_tasks(
                TaskQuery(status=TaskStatus.ACTIVE, session_key="s", implicit=implicit)
            )
            assert list(found) == list(store.find_tasks(TaskQuery(implicit=implicit)))
            return [task.task_id for task in found]

        assert list_ids(implicit=False) == ["task_1"]
        assert list_ids(implicit=True) == ["task_2"]
        assert list_ids(implicit=None) == ["task_2", "task_1"]

    def test_runs_are_listed_by_the_kind_of_their_task(self, store: TaskStore) -> None:
        commit_both_kinds(store)

        def list_ids(*, implicit: bool | None) -> list[str]:
            states = (RunState.RUNNING,)
            found = store.find_runs(RunQuery(states=states, implicit=implicit))
            assert list(found) == list(store.find_runs(RunQuery(implicit=implicit)))
            return [run.run_id for run in found]

        assert list_ids(implicit=False) == ["run_1"]
        assert list_ids(implicit=True) == ["run_2"]
        assert list_ids(implicit=None) == ["run_2", "run_1"]

    def test_of_a_session_the_runs_of_implicit_tasks_come_last(self, store: TaskStore) -> None:
        commit_both_kinds(store)
        found = store.find_runs(RunQuery(session_key="s"))
        assert extract_ids(found) == ["run_1", "run_2"]

    def test_implicit_tasks_and_their_runs_are_not_counted(self, store: TaskStore) -> None:
        commit_both_kinds(store)
        counts = store.count()
        assert counts.tasks == {s: int(s is TaskStatus.ACTIVE) for s in TaskStatus}
        assert counts.runs == {s: int(s is RunState.RUNNING) for s in RunState}

    @pytest.mark.parametrize("in_one_change", [False, True])
    def test_an_old_implicit_task_goes_with_all_that_is_its_own(
        self, store: TaskStore, in_one_change: bool
    ) -> None:
        kept = Change(tasks=(a_task(task_id="task_0"),), events=(an_event(),))
        store.commit(kept)
        late = DAWN + SECOND
        before = read_all_rows(store)
        store.commit(
            Change(
                tasks=(a_task(implicit=True),),
                messages=(a_message(),),
                revisions=(a_revision(),),
                waits=(a_wait(task_id="task_1", status=WaitStatus.RESOLVED),),
                wakes=(a_wake(task_id="task_1", wait_id="wait_1", run_id="run_1"),),
                runs=(a_run(state=RunState.BLOCKED),),
                checkpoints=(a_checkpoint(),),
                artifacts=(an_artifact(run_id="run_1"),),
                ledger=(an_entry(run_id="run_1"),),
                folders=(a_folder(),),
                forget_before=late if in_one_change else None,
            )
        )
        store.commit(Change(forget_before=late))
        assert read_all_rows(store) == before
        with pytest.raises(TaskNotFound):
            store.read_task("task_1")
        with pytest.raises(RunNotFound):
            store.read_run("run_1")

    @pytest.mark.parametrize("home", ["/home/1", None])
    def test_what_is_old_goes_in_its_own_home_alone(
        self, store: TaskStore, home: str | None
    ) -> None:
        for n, its in enumerate(("/home/1", "/home/2", None)):
            task = a_task(task_id=f"task_{n}", home=its, implicit=True)
            run = a_run(run_id=f"run_{n}", task_id=task.task_id, home=its)
            other = a_task(task_id=f"other_{n}", home=its)
            late = run.model_copy(update={"run_id": f"late_{n}", "task_id": other.task_id})
            old = tuple(a_checkpoint(run_id=r.run_id) for r in (run, late))
            store.commit(Change(tasks=(task, other), runs=(run, late), checkpoints=old))
        store.commit(Change(forget_before=DAWN + SECOND, forget_home=home))
        left = extract_ids(store.find_tasks(TaskQuery(implicit=True)))
        assert left == (["task_1"] if home else [])
        kept = [n for n in range(3) if store.read_records(Checkpoint, f"late_{n}", 9)]
        assert kept == ([1] if home else [])

    @pytest.mark.parametrize("why", ["explicit", "touched since", "seen since", "watched"])
    def test_no_other_task_goes(self, store: TaskStore, why: str) -> None:
        now = DAWN + SECOND
        waits = (a_wait(task_id="task_1"),) if why == "watched" else ()
        task = a_task(
            implicit=why != "explicit", updated_at=now if why == "touched since" else DAWN
        )
        run = a_run(seen_at=now if why == "seen since" else DAWN)
        store.commit(Change(tasks=(task,), runs=(run,), waits=waits))
        before = read_all_rows(store)
        store.commit(Change(forget_before=now))
        assert read_all_rows(store) == before


THREADS: Final = 8
ROUNDS: Final = 5


class StoreSuite(
    StoreCommits,
    StoreQuestions,
    StoreWaits,
    StoreRuns,
    StoreHomes,
    StoreImplicit,
    StoreDropping,
    StoreBackUps,
):
    """Subclass it in your tests and implement `make_store`, and `open_back_up` if it writes any.

    Tests may run in several processes at once; give each folder a store of its own.
    """

    @abstractmethod
    def make_store(self, tmp_path: Path) -> TaskStore:
        """Open the store of a folder: empty at first, later with its earlier rows."""

    def reopen(self, store: TaskStore, tmp_path: Path) -> TaskStore:
        """Close a store and open it again, as a new process would."""
        store.close()
        return self.make_store(tmp_path)

    @pytest.fixture
    def store(self, tmp_path: Path) -> Generator[TaskStore]:
        """Provide an empty store."""
        store = self.make_store(tmp_path)
        yield store
        store.close()

    def test_everything_is_there_after_it_was_opened_again(self, tmp_path: Path) -> None:
        store = self.make_store(tmp_path)
        store.commit(
            Change(
                tasks=(a_task(),),
                messages=(a_message(),),
                revisions=(a_revision(),),
                waits=(a_wait(task_id="task_1"),),
                wakes=(a_wake(task_id="task_1"),),
                runs=(a_run(),),
                checkpoints=(a_checkpoint(),),
                artifacts=(an_artifact(),),
                ledger=(an_entry(),),
                folders=(a_folder(files="encoded"),),
                events=(an_event(),),
                bookmarks=(Bookmark(name="read", value="7"),),
            )
        )
        before = read_all_rows(store)
        store = self.reopen(store, tmp_path)
        assert read_all_rows(store) == before
        assert read_bookmark(store, "read") == "7"
        store.close()

    def test_one_of_many_who_expect_a_version_gets_it(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),)))
        for version in range(1, ROUNDS + 1):
            change = Change(tasks=(a_task(version=version),), messages=(a_message(),))
            refusals = run_in_threads(partial(commit_change, store, change))
            assert [type(r) for r in refusals] == [Conflict] * (THREADS - 1)
        assert store.read_task("task_1").task.version == ROUNDS + 1
        assert len(store.read_records(Message, "task_1")) == ROUNDS

    def test_who_reads_again_after_a_conflict_gets_through(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),)))

        def count_up(_: int) -> None:
            for _round in range(ROUNDS):
                while not try_count_up(store):
                    pass

        assert run_in_threads(count_up) == []
        task = store.read_task("task_1").task
        assert task.message_count == THREADS * ROUNDS
        assert len(store.read_records(Message, "task_1")) == THREADS * ROUNDS

    def test_nothing_is_lost_when_many_write_at_once(self, store: TaskStore) -> None:
        def write(writer: int) -> None:
            for number in range(ROUNDS):
                name = f"{writer}_{number}"
                task = a_task(task_id=f"task_{name}")
                message = a_message(task_id=task.task_id, content=name)
                store.commit(Change(tasks=(task,), messages=(message,), events=(an_event(),)))
                assert store.read_task(task.task_id).task.version == 1

        assert run_in_threads(write) == []
        tasks = store.find_tasks(TaskQuery(limit=1000, implicit=False))
        threads = [store.read_records(Message, task.task_id) for task in tasks]
        assert sorted(message.content for thread in threads for message in thread) == [
            f"{writer}_{number}" for writer in range(THREADS) for number in range(ROUNDS)
        ]
        assert len(store.find_events(EventQuery())) == THREADS * ROUNDS

    def test_one_who_is_refused_takes_no_other_along(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),)))

        def write(writer: int) -> None:
            for number in range(ROUNDS):
                task = a_task(task_id=f"task_{writer}_{number}")
                stale = a_task(version=7) if writer % 2 else task
                store.commit(Change(events=(an_event(),), tasks=(stale,)))

        refusals = run_in_threads(write)
        assert [type(r) for r in refusals] == [Conflict] * (THREADS // 2)
        assert len(store.find_events(EventQuery())) == THREADS // 2 * ROUNDS

    def test_what_is_read_of_a_task_was_true_together(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),), waits=(a_wait(task_id="task_1"),)))
        seen: list[tuple[int, int]] = []

        def touch_or_read(writer: int) -> None:
            for version in range(1, 10 * ROUNDS):
                if writer:
                    facts = store.read_task("task_1")
                    seen.append((facts.task.version, facts.waits[0].version))
                else:
                    wait = a_wait(task_id="task_1", version=version)
                    store.commit(Change(tasks=(a_task(version=version),), waits=(wait,)))

        assert run_in_threads(touch_or_read) == []
        assert all(task == wait for task, wait in seen)


def commit_change(store: TaskStore, change: Change, _: int) -> None:
    """Commit a change in any thread."""
    store.commit(change)


def try_count_up(store: TaskStore) -> bool:
    """Add a message and count it; return False on a conflict."""
    task = store.read_task("task_1").task
    counted = task.model_copy(update={"message_count": task.message_count + 1})
    try:
        store.commit(Change(tasks=(counted,), messages=(a_message(),)))
    except Conflict:
        return False
    return True


def run_in_threads(work: Callable[[int], None]) -> list[Exception]:
    """Run `work` in `THREADS` threads that start together; return the errors raised."""
    start = threading.Barrier(THREADS)
    raised: list[Exception] = []

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised
