"""What `taskmem doctor` says of the sessions of Claude Code."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from taskmem_claude.doctor import InboxCheck
from taskmem_hookspecs import DoctorRow, DoctorState
from tests.plugins.openclaw.test_doctor import FakeCheckup

OWN = {"who": "Claude Code, session 11111111…", "host": "mcp:claude-code"}
OTHER = {"who": "Codex, session 019b0000…", "host": "mcp:codex-mcp-client"}


def look(*sessions: dict[str, Any], transport: str = "claude-inbox") -> list[DoctorRow]:
    """Return the rows where the daemon has these sessions."""

    async def collect() -> list[DoctorRow]:
        checkup: Any = FakeCheckup(transport, running=True, sessions=[*sessions])
        return [row async for row in InboxCheck().look(checkup)]

    return asyncio.run(collect())


@pytest.mark.parametrize(
    ("reached", "detail"),
    [
        (0, "No session of Claude Code is connected now."),
        (1, "One session of Claude Code is connected, and can be woken."),
        (2, "2 sessions of Claude Code are connected, and can be woken."),
    ],
)
def test_sessions_that_can_be_woken_are_counted(reached: int, detail: str):
    own = {**OWN, "transport": "claude-inbox"}
    [row] = look(*[own] * reached, {**OTHER, "transport": None})
    assert (row.state, row.detail) == (DoctorState.OK, detail)


def test_a_session_without_an_inbox_is_a_warning():
    [row] = look(*[{**OWN, "transport": None}] * 3)
    assert row.state is DoctorState.WARN
    told = "it tells no inbox, or its folder keeps messages back."
    assert row.detail == f"Claude Code, session 11111111…, and 2 more: {told}"


def test_a_setting_that_keeps_messages_back_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text('{"crossSessionInbound": "hold"}')
    [row] = look({**OWN, "transport": "claude-inbox"})
    assert row.state is DoctorState.WARN
    assert (
        row.detail == f'Claude Code keeps messages back: crossSessionInbound is "hold" in {file}.'
    )
    assert row.cure == 'Set it to "accept" there, or remove it.'


def test_where_wakes_go_out_otherwise_nothing_is_said():
    assert look({**OWN, "transport": None}, transport="stdout") == []
