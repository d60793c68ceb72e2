"""A home is backed up while its daemon works, and put back in the place of what it became."""

from __future__ import annotations

import subprocess
from pathlib import Path

from openclaw_taskmem.home import Home
from tests.support.daemons import COMMAND, Daemon, environment


def run(home: Home, *words: str | Path) -> str:
    done = subprocess.run(
        [COMMAND, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(home),
        check=True,
    )
    return done.stdout


def test_a_back_up_is_taken_and_put_back_while_at_work(daemon: Daemon, tmp_path: Path) -> None:
    log = daemon.home.folder.parent / "build.log"
    log.write_text("begun\n")
    first = daemon.register("First")
    wait = daemon.call(
        "smart_wait", target=f"pty:file:{log}", wake_when='"done" appears', task_id=first
    )
    daemon.call("task_update", task_id=first, message="Step 1 done")
    run(daemon.home, "backup", tmp_path / "file")
    daemon.register("Second")
    daemon.call("task_update", task_id=first, message="Step 2 done")
    said = run(daemon.home, "restore", "--replace", tmp_path / "file")
    assert daemon.wait() == 0
    assert "replaced-" in said
    daemon.launch()
    daemon.wait_until_it_serves()
    [task] = daemon.call("task_list")["tasks"]
    assert task["task_id"] == first
    shown = daemon.ask("show", id=first)
    assert [step["done"] for step in shown["steps"]] == [True, False, False]
    [watched] = daemon.ask("waits")
    assert watched["wait_id"] == wait["wait_id"]
