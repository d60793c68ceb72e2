"""The daemon is killed while tasks end that block others: each of these is woken once."""

from __future__ import annotations

import random
import threading

import pytest

from openclaw_taskmem.cli.client import LinkError
from tests.support.daemons import rows
from tests.support.long_tests import choose_count

KILLS = choose_count("TASKMEM_CRASH_KILLS", 4, 50)
BLOCKERS = 6
SESSION = "agent:main:main"

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", range(KILLS))
def test_who_becomes_ready_is_woken_once_over_a_kill(home, start, seed):
    daemon = start()
    blockers = [daemon.register(f"Build {n}", session_key=SESSION) for n in range(BLOCKERS)]
    alone = [
        daemon.register(f"Test {n}", session_key=SESSION, blocked_by=[blocker])
        for n, blocker in enumerate(blockers)
    ]
    last = daemon.register("Deploy", session_key=SESSION, blocked_by=blockers)
    chance = random.Random(seed)  # noqa: S311
    kill = threading.Timer(chance.random() / 20, daemon.kill)
    kill.start()
    for blocker in blockers:
        try:
            daemon.call("task_update", task_id=blocker, status="completed", message="Done.")
        except (LinkError, OSError):
            break
    kill.join()
    daemon.restart()
    for blocker in blockers:
        daemon.call("task_update", task_id=blocker, status="completed", message="Done.")

    blocked = rows(home, "SELECT task_id FROM tasks WHERE blocked_by <> '[]'")
    woken = rows(home, "SELECT task_id FROM wakes WHERE key LIKE 'ready:%'")

    assert blocked == []
    assert sorted(task_id for (task_id,) in woken) == sorted([*alone, last])
