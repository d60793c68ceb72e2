"""The store keeps every rule of a store on SQLite."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from taskmem_hookspecs import Change, TaskQuery
from taskmem_hookspecs.testing import StoreSuite, a_message, a_task, an_event
from taskmem_hookspecs.testing.clock import DAWN
from taskmem_hookspecs.testing.holdings import read_all_rows
from taskmem_sqlmodel.dropping import PAGES_AT_ONCE, SPARE, count_excess_pages
from taskmem_sqlmodel.hooks import task_store


class TestSqliteStore(StoreSuite):
    def make_store(self, tmp_path):
        return task_store(f"sqlite:///{tmp_path}/taskmem.db")


def test_a_file_is_shortened_when_much_of_it_was_dropped(tmp_path):
    path = tmp_path / "taskmem.db"
    store = task_store(f"sqlite:///{path}")
    events = tuple(an_event(data={"note": "x" * 2_000}) for _ in range(3_000))
    store.commit(Change(events=events))
    store.drop_ended(DAWN + timedelta(days=1), 3_000)
    store.close()
    with closing(sqlite3.connect(path)) as database:
        pages, free = (
            database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count")
        )
    assert pages < 300
    assert free <= pages // SPARE + 1
    assert path.stat().st_size == pages * 4096


@given(st.integers(1, 1_000_000), st.floats(0, 1))
def test_a_quarter_of_a_file_stays_free_and_little_goes_at_once(pages, share):
    free = int(pages * share)
    gone = count_excess_pages(pages, free)
    assert 0 <= gone <= min(free, PAGES_AT_ONCE)
    assert gone == 0 or free - gone >= pages // SPARE
    assert gone > 0 or free <= pages // SPARE


def test_a_back_up_has_all_rows_as_they_are_at_one_instant(tmp_path):
    store = task_store(f"sqlite:///{tmp_path}/taskmem.db")
    store.commit(Change(tasks=tuple(a_task(task_id=f"task_{n}", name="0") for n in (1, 2))))
    over = threading.Event()

    def write():
        version = 0
        while not over.is_set():
            version += 1
            both = tuple(
                a_task(task_id=f"task_{n}", name=f"{version}", version=version) for n in (1, 2)
            )
            store.commit(Change(tasks=both, messages=(a_message(content="x" * 20_000),)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for n in range(5):
            store.back_up(tmp_path / f"{n}.db")
    finally:
        over.set()
        writer.join()
    store.back_up(tmp_path / "last.db")
    for n in range(5):
        copy = task_store(f"sqlite:///{tmp_path}/{n}.db")
        names = {task.name for task in copy.find_tasks(TaskQuery())}
        said = len(read_all_rows(copy)["messages"])
        assert names == {f"{said}"}
        copy.close()
    last = task_store(f"sqlite:///{tmp_path}/last.db")
    assert read_all_rows(last) == read_all_rows(store)
    last.close()
    store.close()
