"""The store keeps every rule of a store on PostgreSQL."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product

import psycopg
import pytest
from sqlalchemy.dialects import postgresql

from taskmem_hookspecs import (
    Change,
    Conflict,
    InvalidArguments,
    NotAllowed,
    RunQuery,
    StoreBusy,
    StoreTooNew,
    StoreUnavailable,
    TaskQuery,
    WakeQuery,
)
from taskmem_hookspecs.roles import FOREVER
from taskmem_hookspecs.testing import a_run, a_task, a_wake, an_event
from taskmem_sqlmodel import reading
from taskmem_sqlmodel.database import _WRITERS_LOCK
from taskmem_sqlmodel.hooks import task_store
from taskmem_sqlmodel.store import SqlStore, list_writes
from tests.support.store_suite import StoreSuite


class TestPostgresStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _databases(self, postgres):
        self.postgres = postgres
        self.urls = {}

    def make_store(self, tmp_path):
        if tmp_path not in self.urls:
            self.urls[tmp_path] = self.postgres.new_database()
        return task_store(self.urls[tmp_path])


@pytest.fixture
def url(postgres):
    return postgres.new_database()


def other(url):
    """Connect as another program would."""
    return psycopg.connect(url, autocommit=True)


def test_how_much_there_is_can_be_read_by_an_ordinary_user(url):
    with closing(task_store(url)) as store:
        store.commit(Change(tasks=(a_task(task_id="task_1"),), events=(an_event(),)))
        store.commit(Change(tasks=(a_task(task_id="task_2", implicit=True),)))
    with other(url) as connection:
        (schema_name,) = connection.execute("SELECT current_schema()").fetchone()
        connection.execute(f"CREATE ROLE reader_{schema_name} LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema_name} TO reader_{schema_name}")
        connection.execute(
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema_name} TO reader_{schema_name}"
        )
    reader = url.replace("user=taskmem", f"user=reader_{schema_name}")
    with closing(task_store(f"{reader}&mode=ro")) as store:
        extent = store.read_extent()
    assert (extent.position, extent.tasks) == (1, 1)
    assert extent.database.endswith(f"/postgres/{schema_name}")


def test_a_version_from_later_is_refused(url):
    task_store(url).close()
    with other(url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0099'")
    with pytest.raises(StoreTooNew, match="0099"):
        task_store(url)


def test_a_back_up_is_left_to_the_servers_own_tools(url, tmp_path):
    store = task_store(f"{url}{'&' if '?' in url else '?'}mode=ro")
    with pytest.raises(NotAllowed, match="pg_dump"):
        store.back_up(tmp_path / "copy.db")
    store.close()
    assert list(tmp_path.iterdir()) == []
    with other(url) as connection:
        assert connection.execute("SELECT to_regclass('alembic_version')").fetchone() == (None,)


def test_several_open_a_new_database_at_once(url):
    start = threading.Barrier(4)
    stores = []

    def open_it():
        start.wait()
        stores.append(task_store(url))

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 4
    for number, store in enumerate(stores):
        store.commit(Change(tasks=(a_task(task_id=f"task_{number}"),)))
    for store in stores:
        assert len(store.find_tasks(TaskQuery(implicit=False))) == 4
        store.close()


def test_a_lock_that_is_held_is_busy_and_then_free(url):
    store = SqlStore(url, busy_timeout=0.05)
    with other(url) as connection:
        connection.execute(f"SELECT pg_advisory_lock({_WRITERS_LOCK})")
        with pytest.raises(StoreBusy, match="try again"):
            store.commit(Change(tasks=(a_task(),)))
    store.commit(Change(tasks=(a_task(),)))
    store.close()


def test_a_server_that_hung_up_is_found_again(url):
    store = task_store(url)
    store.commit(Change(tasks=(a_task(),)))
    assert store.read_task("task_1").task.version == 1
    with other(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    with pytest.raises(StoreUnavailable):
        store.read_task("task_1")
    with pytest.raises(StoreUnavailable):
        store.commit(Change(tasks=(a_task(version=1),)))
    assert store.read_task("task_1").task.version == 1
    store.commit(Change(tasks=(a_task(version=1),)))
    store.close()


def test_a_server_that_is_not_there_is_unavailable(tmp_path):
    with pytest.raises(StoreUnavailable, match="then try again"):
        task_store(f"postgresql:///none?host={tmp_path}")


@pytest.mark.parametrize("text", ["NUL \0", "lone \ud800 surrogate"])
def test_text_that_cannot_be_kept_is_refused(url, text):
    store = task_store(url)
    with pytest.raises(InvalidArguments, match="nothing was written"):
        store.commit(Change(tasks=(a_task(name=text),)))
    one, other_one = a_task(), a_task(task_id="task_2", name=text)
    group = [Change(tasks=(each,)) for each in (one, other_one, one)]
    refusals = store._commits.write([list_writes(change, "postgresql") for change in group])
    assert [refusal and type(refusal) for refusal in refusals] == [None, InvalidArguments, Conflict]
    assert len(store.find_tasks(TaskQuery(implicit=False))) == 1
    store.close()


def due_at_once(number, home):
    """Return a task, a wake and a run, all of which are due."""
    task_id = f"task_{home}_{number}"
    now = a_task().updated_at
    run = {"run_id": f"run_{task_id}", "task_id": task_id, "lease_until": now}
    return Change(
        tasks=(a_task(task_id=task_id, home=home, stuck_due_at=now),),
        wakes=(a_wake(wake_id=f"wake_{task_id}", key=task_id, home=home, due_at=now),),
        runs=(a_run(**run, home=home),),
    )


def reads(plan):
    """Return the steps of a plan that read rows."""
    below = [step for child in plan.get("Plans", ()) for step in reads(child)]
    return below or [plan]


def test_what_is_due_in_a_home_is_found_whatever_others_have(url):
    store = task_store(url)
    with ThreadPoolExecutor(8) as pool:
        for home, many in (("home_2", 2000), ("home_1", 40), (None, 9)):
            changes = (due_at_once(number, home) for number in range(many))
            list(pool.map(store.commit, changes))
    store.close()
    given = {"home": "home_1", "limit": 1}
    questions = (
        reading.select_tasks(TaskQuery(due_by=FOREVER, **given)),
        reading.select_wakes(WakeQuery(due_by=FOREVER, **given)),
        reading.select_runs(RunQuery(lapsed_by=FOREVER, **given)),
    )
    with other(url) as connection:
        connection.execute("ANALYZE")
        for question, (by, most) in product(questions, ((a_task().updated_at, 3), (FOREVER, 1))):
            asked = {"home": "home_1", "limit": most, "due_by": by, "lapsed_by": by}
            sql = question.params(asked).compile(
                dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True}
            )
            [(told,)] = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
            seen = reads(told[0]["Plan"])
            assert len(seen) == 2
            assert all(step["Actual Rows"] <= most for step in seen), seen
            assert not any("Filter" in step for step in seen), seen
