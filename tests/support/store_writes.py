"""The rules of what a `TaskStore` writes: fields, versions, conflicts, runs and back-ups."""

from __future__ import annotations

import itertools
import threading
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskmem_hookspecs.errors import Conflict, NotAllowed, RunNotFound, TaskNotFound
from taskmem_hookspecs.model import (
    RECORD_PREFIX,
    Artifact,
    Bookmark,
    Change,
    Checkpoint,
    Event,
    LedgerEntry,
    Message,
    PlanRevision,
    Run,
    RunState,
    Task,
    Wait,
    Wake,
    WakeCause,
    WorkFolder,
)
from taskmem_hookspecs.roles import EventQuery, RunQuery, TaskQuery, TaskStore, WakeQuery
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
from tests.support import row_strategies as strategies
from tests.support.rows import extract_ids, find_next_lapse, read_all_rows, read_bookmark

RowT = TypeVar("RowT", Task, Wait, Wake, Run, Artifact)

HOSTILE = (
    "'; DROP TABLE tasks; --",
    '"quoted" \\ back\\slash %s %(x)s :name ? {}',
    "emoji 👩🏽‍🚀, Arabic سلام, combining é",
    "line\u2028separator\u2029paragraph\r\n\ttab\x1b[31m",
    "long " * 13_000,
    "",
)

drawn_often = settings(
    max_examples=50,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.differing_executors],
)


def build_stored_row(row: RowT) -> RowT:
    """Return the row as a store returns it after inserting it."""
    return row.model_copy(update={"version": 1})


class StoreCommits:
    """Part of `StoreSuite`."""

    def test_it_plays_the_part(self, store: TaskStore) -> None:
        assert isinstance(store, TaskStore)

    def test_every_field_of_a_task_comes_back(self, store: TaskStore) -> None:
        ids = map("task_{}".format, itertools.count())

        @drawn_often
        @given(st.data())
        def comes_back(data: st.DataObject) -> None:
            task = data.draw(strategies.tasks(next(ids)))
            store.commit(Change(tasks=(task,)))
            assert store.read_task(task.task_id).task == build_stored_row(task)

        comes_back()

    def test_every_field_of_a_task_can_be_changed(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),)))
        versions = itertools.count(1)

        @drawn_often
        @given(strategies.tasks("task_1"))
        def comes_back(task: Task) -> None:
            version = next(versions)
            changed = task.model_copy(update={"version": version})
            store.commit(Change(tasks=(changed,)))
            read = store.read_task("task_1").task
            assert read == changed.model_copy(update={"version": version + 1})

        comes_back()

    def test_every_field_of_a_wait_comes_back(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),)))
        ids = map("wait_{}".format, itertools.count())

        @drawn_often
        @given(st.data())
        def comes_back(data: st.DataObject) -> None:
            wait = data.draw(strategies.waits(next(ids), "task_1"))
            other = data.draw(strategies.waits(wait.wait_id, "task_1"))
            store.commit(Change(waits=(wait,)))
            assert store.read_wait(wait.wait_id) == build_stored_row(wait)
            store.commit(Change(waits=(build_stored_row(other),)))
            read = store.read_wait(wait.wait_id)
            assert read == other.model_copy(update={"version": 2})

        comes_back()

    def test_every_field_of_a_wake_comes_back(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),), waits=(a_wait(),)))
        ids = map("wake_{}".format, itertools.count())

        @drawn_often
        @given(st.data())
        def comes_back(data: st.DataObject) -> None:
            wake = data.draw(strategies.wakes(next(ids), "task_1", "wait_1"))
            other = data.draw(strategies.wakes(wake.wake_id, "task_1", "wait_1"))
            query = WakeQuery(wake_ids=(wake.wake_id,))
            store.commit(Change(wakes=(wake,)))
            assert list(store.find_wakes(query)) == [build_stored_row(wake)]
            store.commit(Change(wakes=(build_stored_row(other),)))
            changed = other.model_copy(update={"version": 2})
            assert list(store.find_wakes(query)) == [changed]

        comes_back()

    def test_every_field_of_what_is_only_added_comes_back(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),)))

        @drawn_often
        @given(strategies.messages("task_1"), strategies.revisions("task_1"), strategies.events())
        def comes_back(message: Message, revision: PlanRevision, event: Event) -> None:
            store.commit(Change(messages=(message,), revisions=(revision,), events=(event,)))
            read_message = store.read_records(Message, "task_1", 1)[-1]
            read_revision = store.read_records(PlanRevision, "task_1")[-1]
            read_event = store.find_events(EventQuery(limit=1))[-1]
            assert read_message.message_id > 0
            assert read_revision.revision_id > 0
            assert read_event.event_id > 0
            assert read_message.model_copy(update={"message_id": 0}) == message
            assert read_revision.model_copy(update={"revision_id": 0}) == revision
            assert read_event.model_copy(update={"event_id": 0}) == event

        comes_back()

    @pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:8])
    def test_hostile_text_is_only_text(self, store: TaskStore, text: str) -> None:
        task = a_task(name=text, plan=[text], metadata={text: text}, session_key=text)
        store.commit(
            Change(
                tasks=(task,),
                messages=(a_message(content=text),),
                bookmarks=(Bookmark(name=text, value=text),),
            )
        )
        assert store.read_task("task_1").task == build_stored_row(task)
        assert store.read_records(Message, "task_1")[0].content == text
        assert read_bookmark(store, text) == text
        with pytest.raises(TaskNotFound):
            store.read_task(text)

    def test_a_row_is_inserted_only_once(self, store: TaskStore) -> None:
        rows = Change(tasks=(a_task(),)), Change(waits=(a_wait(),))
        for change in (*rows, Change(wakes=(a_wake(),))):
            store.commit(change)
            with pytest.raises(Conflict):
                store.commit(change)

    @pytest.mark.parametrize("version", [2, 7])
    def test_a_version_that_moved_is_a_conflict(self, store: TaskStore, version: int) -> None:
        store.commit(Change(tasks=(a_task(),), waits=(a_wait(),), wakes=(a_wake(),)))
        for change in (
            Change(tasks=(a_task(version=version),)),
            Change(waits=(a_wait(version=version),)),
            Change(wakes=(a_wake(version=version),)),
        ):
            with pytest.raises(Conflict):
                store.commit(change)

    def test_a_row_that_was_never_stored_has_no_version_to_expect(self, store: TaskStore) -> None:
        with pytest.raises(Conflict):
            store.commit(Change(tasks=(a_task(version=1),)))

    def test_each_commit_raises_the_version_by_one(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),)))
        for version in (1, 2, 3):
            task = store.read_task("task_1").task
            assert task.version == version
            store.commit(Change(tasks=(task,)))

    def test_a_refused_change_leaves_nothing_behind(self, store: TaskStore) -> None:
        store.commit(Change(tasks=(a_task(),), wakes=(a_wake(),)))
        before = read_all_rows(store)
        full = Change(
            tasks=(a_task(version=1, name="changed"), a_task(task_id="task_2")),
            messages=(a_message(), a_message(task_id="task_2")),
            revisions=(a_revision(),),
            waits=(a_wait(),),
            wakes=(a_wake(wake_id="wake_2"),),
            runs=(a_run(),),
            checkpoints=(a_checkpoint(),),
            artifacts=(an_artifact(),),
            ledger=(an_entry(),),
            folders=(a_folder(),),
            events=(an_event(),),
            bookmarks=(Bookmark(name="read", value="7"),),
        )
        for refused in (
            {"runs": (a_run(), a_run(run_id="run_2"))},
            {"checkpoints": (a_checkpoint(), a_checkpoint())},
            {"wakes": (a_wake(wake_id="wake_2"), a_wake(version=2))},
            {"wakes": (a_wake(wake_id="wake_2"), a_wake(wake_id="wake_3", key="test:wake_1"))},
            {"tasks": (*full.tasks, a_task(version=1))},
            {"waits": (*full.waits, a_wait(wait_id="wait_2", version=3))},
        ):
            with pytest.raises(Conflict):
                store.commit(full.model_copy(update=refused))
            assert read_all_rows(store) == before
        store.commit(full)
        assert store.read_task("task_1").task.name == "changed"

    def test_a_wakes_key_is_owed_once(self, store: TaskStore) -> None:
        store.commit(Change(wakes=(a_wake(key="stuck:task_1:1"),)))
        with pytest.raises(Conflict):
            store.commit(Change(wakes=(a_wake(wake_id="wake_2", key="stuck:task_1:1"),)))
        both = (a_wake(wake_id="wake_3", key="same"), a_wake(wake_id="wake_4", key="same"))
        with pytest.raises(Conflict):
            store.commit(Change(wakes=both))
        assert len(store.find_wakes(WakeQuery())) == 1

    def test_what_belongs_to_no_task_is_refused(self, store: TaskStore) -> None:
        for change in (
            Change(messages=(a_message(),), events=(an_event(),)),
            Change(revisions=(a_revision(),), events=(an_event(),)),
            Change(waits=(a_wait(task_id="task_1"),), events=(an_event(),)),
            Change(wakes=(a_wake(task_id="task_1"),), events=(an_event(),)),
        ):
            with pytest.raises(TaskNotFound):
                store.commit(change)
        assert len(store.find_events(EventQuery())) == 0

    def test_an_empty_change_writes_nothing(self, store: TaskStore) -> None:
        before = read_all_rows(store)
        store.commit(Change())
        assert read_all_rows(store) == before


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

    def test_a_role_sees_what_is_queued_for_it_or_anybody(self, store: TaskStore) -> None:
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
        store.commit(Change(tasks=(a_task(),)))
        for run_id in ("run_0", "run_1", f"{RECORD_PREFIX}1"):
            store.commit(Change(runs=(a_run(run_id=run_id, state=state),)))
        counted = store.count().runs
        assert counted == {each: 2 * (each is state) for each in RunState}


BACK_UPS = 3


class StoreBackUps:
    """Part of `StoreSuite`: a back-up has all rows of one instant, or is refused."""

    def open_back_up(self, file: Path) -> TaskStore:
        """Open a file that `back_up` wrote; only a store that refuses to write one needs none."""
        raise NotImplementedError(f"open_back_up must open {file}")

    def test_a_back_up_has_every_row_or_is_refused(self, store: TaskStore, tmp_path: Path) -> None:
        store.commit(
            Change(
                tasks=(a_task(),),
                messages=(a_message(),),
                waits=(a_wait(task_id="task_1"),),
                wakes=(a_wake(task_id="task_1"),),
                events=(an_event(),),
                bookmarks=(Bookmark(name="read", value="7"),),
            )
        )
        before = read_all_rows(store)
        file = tmp_path / "copy.db"
        if is_refused(store, file):
            assert not file.exists()
        else:
            copy = self.open_back_up(file)
            assert read_all_rows(copy) == before
            assert read_bookmark(copy, "read") == "7"
            copy.commit(Change(tasks=(a_task(version=1),)))
            copy.close()
        assert read_all_rows(store) == before

    def test_a_back_up_is_of_one_instant(self, store: TaskStore, tmp_path: Path) -> None:
        ids = ("task_1", "task_2")
        store.commit(Change(tasks=tuple(a_task(task_id=each, name="0") for each in ids)))
        over, begun, failures = threading.Event(), threading.Event(), list[Exception]()

        def write() -> None:
            version = 0
            while not over.is_set():
                version += 1
                both = (a_task(task_id=each, name=f"{version}", version=version) for each in ids)
                messages = (a_message(content="x" * 20_000),)
                try:
                    store.commit(Change(tasks=tuple(both), messages=messages))
                except Exception as error:  # noqa: BLE001 - the test looks at it
                    failures.append(error)
                    return
                finally:
                    begun.set()

        writer = threading.Thread(target=write)
        writer.start()
        begun.wait()
        files = [tmp_path / f"{number}.db" for number in range(BACK_UPS)]
        try:
            written = [file for file in files if not is_refused(store, file)]
        finally:
            over.set()
            writer.join()
        assert failures == []
        for file in written:
            copy = self.open_back_up(file)
            tasks = copy.find_tasks(TaskQuery())
            assert sorted(extract_ids(tasks)) == [*ids]
            said = len(copy.read_records(Message, ids[0]))
            assert {task.name for task in tasks} == {f"{said}"}
            copy.close()


def is_refused(store: TaskStore, file: Path) -> bool:
    """Back a store up; return whether it refuses, in sentences on one line."""
    said = None
    try:
        store.back_up(file)
    except NotAllowed as refusal:
        said = str(refusal)
    assert said is None or (said.endswith(".") and "\n" not in said)
    return said is not None
