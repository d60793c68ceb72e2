"""A wait keeps its task from being stuck, with nothing in between: a real log file, the
real sensor and judge, the real database; only the clock is turned by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskmem_hookspecs import TaskStatus, WaitStatus
from taskmem_sqlmodel.store import SqlStore
from taskmem_terminal import hooks
from tests.daemon.watched import WatchedWorld, watch_world

THRESHOLD = 300


@pytest.fixture
async def room(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[WatchedWorld]:
    monkeypatch.setenv("TASKMEM_HOME", str(tmp_path / "home"))
    hooks._get_sensor.cache_clear()
    store = SqlStore(database)
    async with watch_world(("terminal", hooks), store=store) as made:
        yield made
    store.close()
    hooks._get_sensor.cache_clear()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "deploy.log"
    path.write_text("Build finished, an hour ago\n")
    return path


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def remove(log: Path) -> None:
    log.unlink()


async def test_no_false_stuck_while_waiting(room: WatchedWorld, log: Path) -> None:
    task = room.world.register()
    wait = await room.wait(
        f"pty:file:{log}",
        wake_when='"Build finished" appears',
        timeout=10 * THRESHOLD,
        task_id=task,
    )

    await room.pass_time(5 * THRESHOLD, step=60)
    assert room.world.daemon() == []
    room.world.look_anyway(task)
    assert room.world.wakes() == []
    assert room.row(wait).status is WaitStatus.WATCHING

    append(log, "Build finished\n")
    await room.wait_for_end(wait)
    (resolved,) = room.world.daemon()
    assert resolved.text.startswith(f"[system] smart_wait resolved ({wait}): ")
    (stuck,) = room.world.pass_time(THRESHOLD)
    assert stuck.text.startswith("[task_stuck_resume] ")
    assert room.world.task(task).status is TaskStatus.ACTIVE


@pytest.mark.parametrize("status", [WaitStatus.RESOLVED, WaitStatus.TIMEOUT])
async def test_wait_messages_typed_correctly(
    room: WatchedWorld, log: Path, status: WaitStatus
) -> None:
    task = room.world.register()
    wait = await room.wait(
        f"pty:file:{log}", wake_when='"Build finished"', timeout=60, task_id=task
    )

    if status is WaitStatus.RESOLVED:
        append(log, "Build finished\n")
    else:
        await room.pass_time(61)
    await room.wait_for_end(wait)

    (line,) = [line for line in room.world.thread(task) if line[1] == "wait"]
    assert line[0] == "system"
    assert f"smart_wait {status} ({wait})" in line[2]
    linkage = room.world.task(task).linkage
    assert linkage.active_wait_ids == ()
    assert linkage.last_wait_state is status


async def test_a_log_that_is_made_anew_goes_on(room: WatchedWorld, log: Path) -> None:
    wait = await room.wait(f"pty:file:{log}", wake_when='"x"', timeout=3600)

    remove(log)
    told = f"{log} is not there; it is read on when it is there again."
    await room.until(lambda: told in str(room.room.read_observation(wait)))
    append(log, "x\n")

    ended = await room.wait_for_end(wait)
    assert ended.status is WaitStatus.RESOLVED
