"""Commands that act on tasks: for persons at a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from openclaw_taskmem.cli.command_output import HOSTS


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tm-") as folder:
        yield Path(folder)
        taskmem(Path(folder), "daemon", "stop")


def taskmem(
    home: Path, *words: str, terminal: bool = False, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run the command, with a terminal for its input or without."""
    ours, theirs = pty.openpty()
    try:
        return subprocess.run(
            [sys.executable, "-m", "openclaw_taskmem", *words],
            env={**clean(os.environ), "TASKMEM_HOME": str(home), **environ},
            stdin=theirs if terminal else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environ.items() if k not in HOSTS}


def call(home: Path, tool: str, **given: object) -> Any:
    run = taskmem(home, "call", tool, json.dumps(given))
    return json.loads(run.stdout) if run.returncode == 0 else run.stderr


@pytest.mark.parametrize("host", HOSTS)
def test_in_an_agents_shell_nothing_is_accepted(home: Path, host: str) -> None:
    run = taskmem(home, "accept", "task_x", terminal=True, **{host: "1"})
    assert run.returncode == 1
    assert f"{host} is set" in run.stderr
    assert "only a person may" in run.stderr


@pytest.mark.parametrize(
    "act", ["answer", "approve", "send-back", "pause", "resume", "reset", "cancel"]
)
def test_in_an_agents_shell_nobody_acts_for_the_user(home: Path, act: str) -> None:
    words = ["yes"] if act in ("answer", "send-back") else []
    run = taskmem(home, act, "task_x", *words, terminal=True, CLAUDECODE="1")
    assert (run.returncode, run.stdout) == (1, "")
    assert "only a person may" in run.stderr


def test_without_a_terminal_nothing_is_accepted(home: Path) -> None:
    run = taskmem(home, "accept", "task_x")
    assert (run.returncode, run.stdout) == (1, "")
    assert "person at a terminal" in run.stderr


def test_a_person_at_a_terminal_accepts_and_the_log_says_who(home: Path) -> None:
    with tempfile.TemporaryDirectory() as inside:
        made = {"artifacts": [f"{inside}/report.md"]}
        given = {"name": "Report", "plan": ["Think"], "metadata": made}
        task = str(call(home, "task_register", **given)["task_id"])
        said = call(home, "task_update", task_id=task, status="completed")
    assert "is not completed yet" in said

    run = taskmem(home, "accept", task, "--because", "Sent by post.", "--yes", terminal=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == '"Report": completed, as you say.\n'
    shown = json.loads(taskmem(home, "show", task, "--json").stdout)
    assert shown["status"] == "completed"
    assert "Sent by post." in [each["content"] for each in shown["messages"]]
    events = json.loads(taskmem(home, "events", "--json").stdout)
    [event] = [e for e in events if e["kind"] == "completion_accepted"]
    assert event["data"]["because"] == "Sent by post."
    assert event["data"]["process"].split(":")[0].isdigit()


def test_what_was_not_refused_cannot_be_accepted(home: Path) -> None:
    task = call(home, "task_register", name="Report", plan=["Think"])["task_id"]
    run = taskmem(home, "accept", task, terminal=True)
    assert run.returncode == 1
    assert "you cannot accept it" in run.stderr
