"""What was answered is on the disk: no power cut takes it away."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import count
from random import Random

import pytest

from taskmem_hookspecs import Change
from taskmem_hookspecs.testing import a_message, a_task
from taskmem_sqlmodel.store import SqlStore
from tests.support.power import Disk

COMMITS = 40
BODY = "x" * 120_000
"""So that forty of them fill the log, which then goes into the database."""


@pytest.fixture
def live(tmp_path):
    folder = tmp_path / "live"
    folder.mkdir()
    return folder


@pytest.fixture
def disk(live):
    disk = Disk(live)
    with disk.record_writes():
        yield disk


def commit(store, version):
    """Commit the task's next version together with a message."""
    store.commit(Change(tasks=(a_task(version=version),), messages=(a_message(content=BODY),)))


def read_version(folder):
    """Return the task's version, after all that belongs to it was found whole."""
    path = folder / "taskmem.db"
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        [(messages,)] = database.execute("SELECT count(*) FROM task_messages")
    with closing(SqlStore(f"sqlite:///{path}")) as store:
        version = store.read_task("task_1").task.version
    assert messages == version
    return version


@pytest.mark.parametrize("kept", ["nothing", "some_sectors"])
def test_what_was_answered_outlives_a_power_cut(disk, live, tmp_path, kept):
    random = Random(18) if kept == "some_sectors" else None  # noqa: S311
    with closing(SqlStore(f"sqlite:///{live / 'taskmem.db'}")) as store:
        for version in range(COMMITS):
            commit(store, version)
            disk.cut(tmp_path / f"cut{version}", random)
            assert read_version(tmp_path / f"cut{version}") == version + 1


def test_a_cut_at_any_sync_keeps_a_commit_whole_or_not(disk, live, tmp_path):
    random, numbers = Random(18), count()  # noqa: S311 - no secret
    cuts = []

    def cut_power():
        into = tmp_path / f"sync{next(numbers)}"
        disk.cut(into, random)
        cuts.append((answered, into))

    answered = 0
    with closing(SqlStore(f"sqlite:///{live / 'taskmem.db'}")) as store:
        commit(store, 0)
        disk.on_sync = cut_power
        for answered in range(1, COMMITS):
            commit(store, answered)
        disk.on_sync = lambda: None
    assert len(cuts) > COMMITS, "the log went into the database in between"
    for answered, folder in cuts:
        assert answered <= read_version(folder) <= answered + 1
