"""Test how a `TaskStore` writes its rows to a file while others write."""
# ruff: noqa: S101, D102 - pytest explains assertions; names say what is tested

from __future__ import annotations

import threading
from pathlib import Path

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.errors import NotAllowed
from taskmem_hookspecs.model import Bookmark, Message
from taskmem_hookspecs.queries import TaskQuery
from taskmem_hookspecs.roles import TaskStore
from taskmem_hookspecs.testing.holdings import extract_ids, read_all_rows, read_bookmark
from taskmem_hookspecs.testing.values import a_message, a_task, a_wait, a_wake, an_event

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
