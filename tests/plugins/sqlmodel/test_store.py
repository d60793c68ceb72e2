"""The store keeps every rule of a store on SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from taskmem_hookspecs import Change
from taskmem_hookspecs.testing import DAWN, an_event
from taskmem_sqlmodel.hooks import task_store
from taskmem_sqlmodel.retention import MOST_FREED_PAGES, SPARE, count_excess_pages
from tests.support.store_suite import StoreSuite


class TestSqliteStore(StoreSuite):
    def make_store(self, tmp_path):
        return task_store(f"sqlite:///{tmp_path}/taskmem.db")

    def open_back_up(self, file):
        return task_store(f"sqlite:///{file}")


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
    assert 0 <= gone <= min(free, MOST_FREED_PAGES)
    assert gone == 0 or free - gone >= pages // SPARE
    assert gone > 0 or free <= pages // SPARE
