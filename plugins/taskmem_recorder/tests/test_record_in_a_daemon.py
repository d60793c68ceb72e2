"""The recording in a real daemon, switched by a person, found by an agent."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from openclaw_taskmem.cli.command_output import HOSTS
from plugins.taskmem_recorder.tests.recording_room import RecordingRoom
from tests.support.daemons import short_home
from tests.support.screens import Screen
from tests.support.waiting import until


def run_taskmem(folder, screen: Screen, *words: str, **environ: str) -> str:
    """Run a command with a terminal; a daemon that it starts never rests because of load."""
    clean = {name: value for name, value in screen.environ.items() if name not in HOSTS}
    ours, theirs = pty.openpty()
    try:
        run = subprocess.run(
            [sys.executable, "-m", "openclaw_taskmem", *words],
            env={
                **clean,
                "TASKMEM_HOME": str(folder),
                "TASKMEM_RECORD_LOAD": "1000",
                **environ,
            },
            stdin=theirs,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    return run.stdout + run.stderr


def test_what_a_person_records_an_agent_recalls(screen) -> None:
    with short_home() as home:
        room = RecordingRoom(home.folder, screen)
        assert "from now on" in run_taskmem(home.folder, screen, "record", "on")
        with room.show("Deploy notes", "The invoices were deployed"):
            room.await_moment("Deploy notes", "invoices")
        assert "activity  Recording this screen" in run_taskmem(home.folder, screen, "status")
        question = json.dumps({"query": "invoices deployed"})

        def recall() -> list[dict[str, object]]:
            answer = run_taskmem(home.folder, screen, "call", "memory_recall", question)
            return json.loads(answer)["results"]

        [found] = until(recall, "a match")
        assert found["source"] == "screen"
        assert "Deploy notes" in found["summary"]
        run_taskmem(home.folder, screen, "record", "off")
        until(lambda: "Recording" not in run_taskmem(home.folder, screen, "status"), "no activity")
        room.store.close()


@pytest.mark.parametrize("words", [("on",), ("off",), ("forget", "all")])
def test_in_an_agents_shell_nothing_is_switched(screen, tmp_path, words) -> None:
    said = run_taskmem(tmp_path / "h", screen, "record", *words, CLAUDECODE="1")
    assert "only a person may" in said
    assert not (tmp_path / "h" / "recordings").exists()
