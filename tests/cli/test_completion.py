"""What the shell completes, typed into a real bash."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.daemons import COMMAND, Daemon, environment, short_home
from tests.support.terminals import capture, open_terminal
from tests.support.waiting import until


def test_bash_completes_a_task_and_runs_nothing_of_its_name(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    with short_home() as home:
        daemon = Daemon(home)
        daemon.wait_until_it_serves()
        task = daemon.register(f"Evil; touch {touched}; echo '$(touch {touched})")
        path = f"{COMMAND.parent}:{environment(home)['PATH']}"
        shell = "exec bash --norc --noprofile -i"
        settings = {"TASKMEM_HOME": str(home.folder), "PATH": path, "PS1": "$ "}
        with open_terminal(shell, 120, **settings) as tmux:

            def type_keys(*keys: str) -> None:
                subprocess.run([*tmux, "send-keys", *keys], check=True)

            type_keys('eval "$(_TASKMEM_COMPLETE=bash_source taskmem)"; echo re""ady', "Enter")
            until(lambda: "ready" in capture(tmux), "completion is loaded")
            type_keys("taskmem show Evi", "Tab")
            until(lambda: f"show {task}" in capture(tmux), "the id is completed")
            type_keys("Enter")
            until(lambda: "Plan, 0 of 3 done" in capture(tmux), "the task is shown")
        assert not touched.exists()
        daemon.close()
