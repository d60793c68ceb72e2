"""Test what a `TaskStore` writes: fields, versions, conflicts and atomicity."""
# ruff: noqa: S101, D102 - pytest explains assertions; names say what is tested

from __future__ import annotations

import itertools
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.errors import Conflict, TaskNotFound
from taskmem_hookspecs.evidence import Artifact
from taskmem_hookspecs.model import Bookmark, Event, Message, PlanRevision, Task, Wait, Wake
from taskmem_hookspecs.queries import EventQuery, WakeQuery
from taskmem_hookspecs.roles import TaskStore
from taskmem_hookspecs.runs import Run
from taskmem_hookspecs.testing import strategies
from taskmem_hookspecs.testing.holdings import read_all_rows, read_bookmark
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
