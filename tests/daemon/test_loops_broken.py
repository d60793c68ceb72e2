"""The loops over a database with rows that cannot be read: others lose nothing."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import copy

import pytest

from taskmem_hookspecs import (
    Change,
    DoctorState,
    RunState,
    WaitQuery,
    WaitStatus,
    Wake,
    WakeCause,
    WakeQuery,
)
from taskmem_hookspecs.testing import DAWN, a_run
from taskmem_sqlmodel import doctor
from taskmem_sqlmodel.store import SqlStore
from tests.daemon.looped import Gateway, run_loops
from tests.support.world import World


@pytest.fixture
def path(empty_file: Path, tmp_path: Path) -> Path:
    return Path(copy(empty_file, tmp_path / "taskmem.db"))


@pytest.fixture
def world(path: Path) -> Iterator[World]:
    """An installation whose rows are in a file."""
    store = SqlStore(f"sqlite:///{path}")
    yield World(store)
    store.close()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("tasks", "plan", "{"),
        ("tasks", "plan", r'["Build \ud83d"]'),
        ("tasks", "stuck_due_at", "0"),
        ("waits", "armed_at", "zzz"),
        ("wakes", "created_at", ""),
        ("runs", "attached", "{"),
        ("runs", "lease_until", "0"),
    ],
)
async def test_a_broken_row_keeps_no_wake_of_others_back(
    world: World,
    path: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    table: str,
    column: str,
    value: str,
) -> None:
    broken, held, sound = (own_all(world, name) for name in ("broken", "held", "sound"))
    for name, task_id in (("broken", broken), ("held", held)):
        run = a_run(run_id=f"run_{name}", task_id=task_id, state=RunState.RUNNING, lease_until=DAWN)
        world.store.commit(Change(runs=(run,)))
    break_row(path, table, column, value, broken)
    gateway = Gateway(world.clock)
    caplog.set_level(logging.WARNING)
    async with run_loops(world, gateway):
        await world.clock.advance(1)
        for wait in world.store.find_waits(WaitQuery(status=WaitStatus.WATCHING)):
            world.end_wait(wait)
        await world.clock.advance(hours=1)
        wakes = world.store.find_wakes(WakeQuery(task_id=sound))
        assert {wake.cause for wake in wakes if wake.sent_at} >= {WakeCause.WAIT, WakeCause.STUCK}
        assert world.store.find_wakes(WakeQuery(wake_ids=("wake_held",)))[0].sent_at
        assert world.store.read_run("run_held").state is RunState.QUEUED
        said = len(caplog.records)
        await world.clock.advance(hours=9)
        assert len(caplog.records) - said < 20

    row = doctor.check_database(f"sqlite:///{path}")
    assert row.state is DoctorState.FAIL
    assert f"{table} " in row.detail
    assert f"({column}: " in row.detail


async def test_a_damaged_alert_keeps_no_other_of_its_session_back(world: World) -> None:
    for name, text in (("damaged", "[task_stuck_resume] {"), ("other", "Not ours.")):
        wake = Wake(
            wake_id=f"wake_{name}",
            key=f"test:{name}",
            cause=WakeCause.STUCK,
            task_id=world.register(name),
            text=text,
            created_at=DAWN,
            due_at=DAWN,
        )
        world.store.commit(Change(wakes=(wake,)))
    gateway = Gateway(world.clock)
    async with run_loops(world, gateway):
        await world.clock.advance(1)

    (message,) = gateway.received
    assert message.text.splitlines() == ["[task_stuck_resume] {", "Not ours."]


def own_all(world: World, name: str) -> str:
    """Register a task with a wait, and a wake that is owed."""
    task_id = world.register(name)
    world.open_wait(task_id)
    wake = Wake(
        wake_id=f"wake_{name}",
        key=f"test:{name}",
        cause=WakeCause.WAIT,
        task_id=task_id,
        text="It is done.",
        created_at=DAWN,
        due_at=DAWN,
    )
    world.store.commit(Change(wakes=(wake,)))
    return task_id


def break_row(path: Path, table: str, column: str, value: str, task_id: str) -> None:
    update = f"UPDATE {table} SET {column} = ? WHERE task_id = ?"  # noqa: S608
    with closing(sqlite3.connect(path)) as raw, raw:
        assert raw.execute(update, (value, task_id)).rowcount
