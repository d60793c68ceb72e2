"""Test what a `TaskStore` returns of implicit tasks, and when it deletes them."""
# ruff: noqa: S101, D102 - tests: pytest explains, names and numbers speak

from __future__ import annotations

from datetime import timedelta

import pytest

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.errors import RunNotFound, TaskNotFound
from taskmem_hookspecs.model import TaskStatus, WaitStatus
from taskmem_hookspecs.queries import RunQuery, TaskQuery
from taskmem_hookspecs.roles import TaskStore
from taskmem_hookspecs.runs import Checkpoint, RunState
from taskmem_hookspecs.testing.clock import DAWN
from taskmem_hookspecs.testing.holdings import extract_ids, read_all_rows
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

SECOND = timedelta(seconds=1)


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

    def test_an_old_implicit_task_goes_with_all_that_is_its_own(self, store: TaskStore) -> None:
        kept = Change(tasks=(a_task(task_id="task_0"),), events=(an_event(),))
        store.commit(kept)
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
            )
        )
        store.commit(Change(forget_before=DAWN + SECOND))
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
