"""What `taskmem doctor` says of Codex's command."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from taskmem_codex.doctor import QueueCheck
from taskmem_hookspecs import DoctorRow, DoctorState
from tests.plugins.openclaw.test_doctor import FakeCheckup

THREAD = {"host": "mcp:codex-mcp-client"}


def look(
    environ: dict[str, str],
    *,
    seconds: float = 60,
    connected: bool = False,
    transport: str | None = "codex-queue",
):
    """Return the rows of the check."""

    async def collect() -> list[DoctorRow]:
        sessions = [{**THREAD, "transport": transport}] if connected else []
        checkup: Any = FakeCheckup("codex-queue", running=True, sessions=sessions)
        return [row async for row in QueueCheck(environ, seconds).look(checkup)]

    return asyncio.run(collect())


def make_command(folder: Path, script: str) -> dict[str, str]:
    """Return an environment in which Codex's command is this script."""
    binary = folder / "codex"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o700)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("script", "state", "detail"),
    [
        (
            'echo "codex-cli 0.171.0"',
            DoctorState.OK,
            "Threads of Codex are woken by codex, version 0.171.0.",
        ),
        (
            'echo "codex-cli 0.149.9"',
            DoctorState.WARN,
            "codex is Codex 0.149.9, which may have no queue for messages.",
        ),
        (
            "echo hello",
            DoctorState.WARN,
            "codex --version names no version; is it Codex?",
        ),
    ],
)
def test_the_version_of_the_command_is_told(
    tmp_path: Path, script: str, state: DoctorState, detail: str
):
    [row] = look(make_command(tmp_path, script))
    assert (row.state, row.detail) == (state, detail)


def test_a_command_that_hangs_is_ended_and_told(tmp_path: Path):
    [row] = look(make_command(tmp_path, "exec sleep 600"), seconds=0.2)
    assert row.state is DoctorState.WARN
    assert row.detail == "codex --version gave no answer within 0.2 s and was ended."


def test_a_missing_command_is_told_where_a_thread_is_connected(tmp_path: Path):
    environ = {"PATH": str(tmp_path)}
    assert look(environ) == []
    [row] = look(environ, connected=True)
    assert (row.state, row.detail) == (DoctorState.WARN, "There is no command codex.")
    assert row.cure is not None
    assert "TASKMEM_CODEX_BIN" in row.cure


def test_a_command_that_only_the_terminal_finds_is_told(tmp_path: Path):
    environ = make_command(tmp_path, 'echo "codex-cli 0.171.0"')
    [row] = look(environ, connected=True, transport=None)
    assert row.state is DoctorState.WARN
    assert row.detail.startswith("The daemon does not find the command codex")
    assert row.cure == "taskmem daemon restart"
    [row] = look(environ, connected=True)
    assert row.state is DoctorState.OK
