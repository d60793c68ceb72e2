"""Test what a `TaskStore` writes and returns of runs, checkpoints and artifacts."""
# ruff: noqa: S101, D102 - tests: pytest explains, names and numbers speak

from __future__ import annotations

import itertools
from datetime import timedelta
from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.errors import Conflict, RunNotFound, TaskNotFound
from taskmem_hookspecs.evidence import LedgerEntry, WorkFolder
from taskmem_hookspecs.model import WakeCause
from taskmem_hookspecs.queries import RunQuery
from taskmem_hookspecs.roles import TaskStore
from taskmem_hookspecs.runs import Checkpoint, RunState
from taskmem_hookspecs.testing import strategies
from taskmem_hookspecs.testing.clock import DAWN
from taskmem_hookspecs.testing.holdings import extract_ids, find_next_lapse
from taskmem_hookspecs.testing.store_commits import build_stored_row, drawn_often
from taskmem_hookspecs.testing.values import (
    a_checkpoint,
    a_folder,
    a_run,
    a_task,
    a_wake,
    an_artifact,
    an_entry,
)

SECOND = timedelta(seconds=1)
ENDED = [state for state in RunState if state.terminal]
_PATH = attrgetter("path")


class StoreRuns:
    """Part of `StoreSuite`."""

    def test_every_field_of_a_run_comes_back(self, store: TaskStore) -> None:
        ids = map("{}".format, itertools.count())

        @drawn_often
        @given(st.data())
        def comes_back(data: st.DataObject) -> None:
            # Each run needs its own task, which has at most one open run.
            number = next(ids)
            run = data.draw(strategies.runs(f"run_{number}", f"task_{number}"))
            other = data.draw(strategies.runs(run.run_id, run.task_id))
            store.commit(Change(tasks=(a_task(task_id=run.task_id),), runs=(run,)))
            assert store.read_run(run.run_id) == build_stored_row(run)
            store.commit(Change(runs=(build_stored_row(other),)))
            changed = other.model_copy(update={"version": 2})
            assert store.read_run(run.run_id) == changed

        comes_back()

    def test_every_field_of_what_hangs_on_a_run_comes_back(self, store: TaskStore) -> None:
        numbers = itertools.count(1)
        store.commit(Change(tasks=(a_task(),), runs=(a_run(),)))

        @drawn_often
        @given(st.data())
        def comes_back(data: st.DataObject) -> None:
            number = next(numbers)
            checkpoint = data.draw(strategies.checkpoints("run_1", number))
            made = data.draw(strategies.artifacts(f"artifact_{number:05}", "task_1"))
            made = made.model_copy(update={"run_id": "run_1"})
            store.commit(Change(checkpoints=(checkpoint,), artifacts=(made,)))
            assert store.read_records(Checkpoint, "run_1", 1)[-1] == checkpoint
            assert store.read_task("task_1").artifacts[-1] == build_stored_row(made)

        comes_back()

    def test_what_is_not_there_of_runs_is_not_found(self, store: TaskStore) -> None:
        with pytest.raises(RunNotFound, match="run_9"):
            store.read_run("run_9")
        for query in (
            RunQuery(),
            RunQuery(session_key="main"),
            RunQuery(states=(RunState.QUEUED,), oldest_first=True),
            RunQuery(lapsed_by=DAWN),
        ):
            assert list(store.find_runs(query)) == []
        assert list(store.read_records(Checkpoint, "run_9", 9)) == []
        assert find_next_lapse(store) is None
        assert sum(store.count().runs.values()) == 0

    def test_a_run_that_moved_is_a_conflict(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),), runs=(a_run(),)))
        for version in (0, 2):
            with pytest.raises(Conflict):
                store.commit(Change(runs=(a_run(version=version),)))

    def test_an_artifact_that_moved_is_a_conflict(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),), artifacts=(an_artifact(),)))
        for version in (0, 2):
            with pytest.raises(Conflict):
                store.commit(Change(artifacts=(an_artifact(version=version),)))

    def test_every_field_of_the_ledger_comes_back(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),), runs=(a_run(),)))

        @drawn_often
        @given(strategies.entries("/work/a.md", "task_1"), strategies.folders("/work", "task_1"))
        def comes_back(entry: LedgerEntry, folder: WorkFolder) -> None:
            entry = entry.model_copy(update={"run_id": "run_1"})
            store.commit(Change(ledger=(entry,), folders=(folder,)))
            # The latest replaces the one before.
            assert list(store.read_records(LedgerEntry, "task_1")) == [entry]
            assert list(store.read_records(WorkFolder, "task_1")) == [folder]

        comes_back()

    def test_each_task_has_its_own_ledger_by_path(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(), a_task(task_id="task_2"))))
        paths = ("/work/b", "/work/a", "/work/ä")
        entries = [an_entry(path=path) for path in paths]
        folders = [a_folder(path=path) for path in paths]
        other = an_entry(task_id="task_2")
        store.commit(Change(ledger=(*entries, other), folders=tuple(folders)))
        entries, folders = sorted(entries, key=_PATH), sorted(folders, key=_PATH)
        assert list(store.read_records(LedgerEntry, "task_1")) == entries
        assert list(store.read_records(WorkFolder, "task_1")) == folders
        assert list(store.read_records(LedgerEntry, "task_2")) == [other]
        assert list(store.read_records(WorkFolder, "task_2")) == []

    def test_a_task_has_one_run_that_is_open(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),), runs=(a_run(),)))
        second = a_run(run_id="run_2")
        with pytest.raises(Conflict):
            store.commit(Change(runs=(second,)))
        over = a_run(state=RunState.FAILED, version=1)
        store.commit(Change(runs=(over, second)))
        assert store.read_task("task_1").run == build_stored_row(second)
        found = store.find_runs(RunQuery(task_id="task_1"))
        assert extract_ids(found) == ["run_2", "run_1"]

    @pytest.mark.parametrize("state", list(RunState))
    def test_a_task_comes_with_its_run_until_that_has_ended(
        self, store: TaskStore, state: RunState
    ) -> None:
        store.commit(Change(tasks=(a_task(),), runs=(a_run(state=state),)))
        found = store.read_task("task_1").run
        assert (found is None) == state.terminal

    def test_what_belongs_to_no_task_or_run_is_refused(self, store: TaskStore) -> None:
        for change in (
            Change(runs=(a_run(),)),
            Change(artifacts=(an_artifact(),)),
            Change(ledger=(an_entry(),)),
            Change(folders=(a_folder(),)),
            Change(checkpoints=(a_checkpoint(),)),
        ):
            with pytest.raises(TaskNotFound):
                store.commit(change)

    def test_the_runs_of_a_session_come_as_their_tasks_were_updated(self, store: TaskStore) -> None:
        tasks = [
            a_task(task_id=f"task_{n}", updated_at=DAWN + age * SECOND)
            for n, age in enumerate((2, 3, 1, 9, 9))
        ]
        states = (*[RunState.RUNNING] * 3, RunState.COMPLETED, RunState.QUEUED)
        runs = [
            a_run(run_id=f"run_{n}", task_id=f"task_{n}", state=state, session_key="s")
            for n, state in enumerate(states)
        ]
        runs[4] = runs[4].model_copy(update={"session_key": "other"})
        store.commit(Change(tasks=tuple(tasks), runs=tuple(runs)))
        found = extract_ids(store.find_runs(RunQuery(session_key="s")))
        assert found == ["run_1", "run_0", "run_2"]

    def test_the_runs_of_several_tasks_are_read_at_once(self, store: TaskStore) -> None:
        ids = ("task_1", "task_2", "task_3")
        runs = [
            a_run(run_id=f"run_{n}", task_id=task_id, state=RunState.COMPLETED)
            for n, task_id in enumerate((*ids, "task_1"))
        ]
        tasks = tuple(a_task(task_id=task_id) for task_id in ids)
        store.commit(Change(tasks=tasks, runs=tuple(runs)))
        found = store.find_runs(RunQuery(task_ids=("task_1", "task_3", "task_9")))
        assert sorted(extract_ids(found)) == ["run_0", "run_2", "run_3"]
        assert list(store.find_runs(RunQuery(task_ids=()))) == []

    def test_a_role_sees_what_is_queued_for_it_or_for_anybody_oldest_first(
        self, store: TaskStore
    ) -> None:
        wanted = (
            ("builder", RunState.QUEUED, 3),
            (None, RunState.QUEUED, 2),
            ("tester", RunState.QUEUED, 1),
            ("builder", RunState.RUNNING, 0),
        )
        for n, (role, state, age) in enumerate(wanted):
            run = a_run(
                run_id=f"run_{n}",
                task_id=f"task_{n}",
                role=role,
                state=state,
                created_at=DAWN + age * SECOND,
            )
            store.commit(Change(tasks=(a_task(task_id=f"task_{n}"),), runs=(run,)))

        def find_queued(role: str | None, limit: int = 9) -> list[str]:
            queue = RunQuery(states=(RunState.QUEUED,), oldest_first=True)
            asked = queue.model_copy(update={"role": role, "limit": limit})
            return extract_ids(store.find_runs(asked))

        assert find_queued("builder") == ["run_1", "run_0"]
        assert find_queued("builder", 1) == ["run_1"]
        assert find_queued("nobody") == ["run_1"]
        assert find_queued(None) == ["run_2", "run_1", "run_0"]

    def test_leases_that_lapsed_come_first_due_first(self, store: TaskStore) -> None:
        for n, seconds in enumerate((3, 1, None, 2)):
            lease = None if seconds is None else DAWN + seconds * SECOND
            run = a_run(run_id=f"run_{n}", task_id=f"task_{n}", lease_until=lease)
            store.commit(Change(tasks=(a_task(task_id=f"task_{n}"),), runs=(run,)))
        assert find_next_lapse(store) == DAWN + SECOND
        lapsed = store.find_runs(RunQuery(lapsed_by=DAWN + 2 * SECOND))
        assert [run.run_id for run in lapsed] == ["run_1", "run_3"]
        assert len(store.find_runs(RunQuery(lapsed_by=DAWN + 2 * SECOND, limit=1))) == 1
        assert list(store.find_runs(RunQuery(lapsed_by=DAWN))) == []

    def test_checkpoints_are_read_from_the_newest_back(self, store: TaskStore) -> None:
        other = a_run(run_id="run_2", task_id="task_2")
        store.commit(Change(tasks=(a_task(), a_task(task_id="task_2")), runs=(a_run(), other)))
        for number in (1, 2, 3):
            store.commit(
                Change(
                    checkpoints=(
                        a_checkpoint(number=number),
                        a_checkpoint(run_id="run_2", number=number),
                    )
                )
            )
        found = store.read_records(Checkpoint, "run_1", 2)
        assert [(c.run_id, c.number) for c in found] == [("run_1", 2), ("run_1", 3)]
        found = store.read_records(Checkpoint, "run_1", 9, before=3)
        assert [c.number for c in found] == [1, 2]
        assert [*store.read_records(Checkpoint, "run_1", 9, before=1)] == []

    def test_checkpoints_are_found_by_what_their_bodies_hold(self, store: TaskStore) -> None:
        bodies = ('{"a":"x"}', '{"a":"X"}', '{"a":"100%"}', '{"a":"1_0"}', '{"a":"x"}')
        made = tuple(
            a_checkpoint(number=number, body=body) for number, body in enumerate(bodies, 1)
        )
        store.commit(Change(tasks=(a_task(),), runs=(a_run(),), checkpoints=made))

        def numbers(holding: str, limit: int = 9, before: int | None = None) -> object:
            found = store.read_records(Checkpoint, "run_1", limit, before=before, holding=holding)
            return [checkpoint.number for checkpoint in found]

        assert numbers('"a":"x"') == [1, 5]
        assert numbers('"a":"x"', 1) == [5]
        assert numbers('"a":"x"', before=5) == [1]
        assert numbers("%") == [3]
        assert numbers("_") == [4]
        assert numbers('"b"') == []

    def test_a_checkpoint_is_written_once(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),), runs=(a_run(),), checkpoints=(a_checkpoint(),)))
        with pytest.raises(Conflict):
            store.commit(Change(checkpoints=(a_checkpoint(body="other"),)))
        (kept,) = store.read_records(Checkpoint, "run_1", 9)
        assert kept.body == "{}"

    def test_checkpoints_that_are_too_old_go(self, store: TaskStore) -> None:
        made = tuple(a_checkpoint(number=number, at=DAWN + number * SECOND) for number in (1, 2, 3))
        store.commit(Change(tasks=(a_task(),), runs=(a_run(),), checkpoints=made))
        store.commit(Change(forget_before=DAWN + 2 * SECOND))
        left = [c.number for c in store.read_records(Checkpoint, "run_1", 9)]
        assert left == [2, 3]

    @pytest.mark.parametrize("state", RunState)
    def test_checkpoints_are_kept_while_their_run_waits_for_the_user(
        self, store: TaskStore, state: RunState
    ) -> None:
        old, run = a_checkpoint(number=1, at=DAWN), a_run(state=state)
        store.commit(Change(tasks=(a_task(),), runs=(run,), checkpoints=(old,)))
        store.commit(Change(forget_before=DAWN + SECOND))
        waits = state in (RunState.BLOCKED, RunState.REVIEW)
        assert len(store.read_records(Checkpoint, "run_1", 9)) == waits

    def test_a_wake_may_be_for_a_run(self, store: TaskStore) -> None:
        wake = a_wake(cause=WakeCause.RUN, task_id="task_1", run_id="run_1")
        store.commit(Change(tasks=(a_task(),), runs=(a_run(),), wakes=(wake,)))
        assert store.read_task("task_1").wakes == (build_stored_row(wake),)

    @pytest.mark.parametrize("state", ENDED)
    def test_runs_are_counted_by_state(self, store: TaskStore, state: RunState) -> None:
        for n in range(2):
            run = a_run(run_id=f"run_{n}", state=state)
            task = (a_task(),) if n == 0 else ()
            store.commit(Change(tasks=task, runs=(run,)))
        counted = store.count().runs
        assert counted == {each: 2 * (each is state) for each in RunState}
