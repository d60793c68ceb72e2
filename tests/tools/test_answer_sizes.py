"""Answers are short: each kind has a limit in bytes of its JSON, without what the caller gave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.conditions.conditions import FORMS, parse_condition
from openclaw_taskmem.domain.conditions.verdicts import build_sides_refusal
from tests.support.world import World

CLAUDE = Caller(host="mcp:claude-code")
COMMAND = "TASKMEM_HOME=/srv/agents/home /srv/agents/venv/bin/taskmem"


@pytest.fixture
def world() -> World:
    """A world in which no wake reaches anybody."""
    return World(reaches=reach_nobody, command=COMMAND)


def reach_nobody(host: str | None, session_key: str | None) -> bool:
    return False


def count_bytes(answer: dict[str, Any]) -> int:
    return len(json.dumps(answer, ensure_ascii=False).encode())


def test_a_wait_without_a_wake_is_answered_in_few_bytes(world: World) -> None:
    given = {"target": "pty:build", "wake_when": '"Build finished" appears'}
    answer = world.call("smart_wait", CLAUDE, **given)
    assert count_bytes(answer) <= 400
    assert json.dumps(answer).count(COMMAND) == 1
    again = world.call("wait_update", CLAUDE, wait_id=answer["wait_id"], timeout=60)
    assert count_bytes(again) <= 400


def test_a_refused_condition_is_told_in_few_bytes() -> None:
    condition = parse_condition("the build is finished successfully or an error occurs")
    suggestion = '"THE TEXT THAT IT PRINTS" appears'
    refusal = build_sides_refusal(condition, [0], FORMS, suggestion, is_read=False).to_json()
    assert count_bytes(refusal) <= 560
    assert all(str(refusal["message"]).count(form) == 0 for form in FORMS)
