"""Test any `TaskStore` against the contract: a suite for its author to subclass."""
# ruff: noqa: S101, D102 - pytest explains assertions; names say what is tested

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.errors import Conflict
from taskmem_hookspecs.model import Bookmark, Message
from taskmem_hookspecs.queries import EventQuery, TaskQuery
from taskmem_hookspecs.roles import TaskStore
from taskmem_hookspecs.testing.holdings import read_all_rows, read_bookmark
from taskmem_hookspecs.testing.store_backups import StoreBackUps
from taskmem_hookspecs.testing.store_commits import StoreCommits
from taskmem_hookspecs.testing.store_dropping import StoreDropping
from taskmem_hookspecs.testing.store_homes import StoreHomes
from taskmem_hookspecs.testing.store_implicit import StoreImplicit
from taskmem_hookspecs.testing.store_queries import StoreQuestions
from taskmem_hookspecs.testing.store_runs import StoreRuns
from taskmem_hookspecs.testing.store_waits import StoreWaits
from taskmem_hookspecs.testing.values import (
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
