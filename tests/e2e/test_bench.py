"""`taskmem bench --gateway`: an agent in the real OpenClaw is killed, and finishes its task."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.openclaw import OpenClaw
from tests.e2e.room import Room

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(1200)]


def test_a_killed_gateways_agent_redoes_nothing(openclaw: OpenClaw, room: Room, tmp_path: Path):
    scratch, program = tmp_path / "tmp", tmp_path / "bin" / "openclaw"
    for folder in (scratch, program.parent):
        folder.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(openclaw.command())} "$@"\n')
    program.chmod(0o700)
    path = os.pathsep.join((str(program.parent), os.environ["PATH"]))

    done = subprocess.run(
        [sys.executable, "-m", "openclaw_taskmem", "bench", "--gateway", "--quick", "--json"],
        env=room.environment({"PATH": path, "TMPDIR": str(scratch)}),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)["gateway"].values()
    assert (found["tasks"], found["interruptions"]) == (1, 1)
    assert (found["success"], found["redo_ratio"], found["revived_steps"]) == (1, 1, 0)
    assert found["packet_bytes"] > 0
    assert [*scratch.iterdir()] == [*room.home.iterdir()] == []
