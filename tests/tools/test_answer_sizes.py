"""Answers are short: each kind has a limit in bytes of its JSON, without what the caller gave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.domain.conditions.verdicts import FORMS, build_sides_refusal
from openclaw_taskmem.engine.wait_watcher import TargetPreview
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
    """Count the bytes that an MCP client is sent."""
    return len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode())


def test_a_wait_without_a_wake_is_answered_in_few_bytes(world: World) -> None:
    given = {"target": "pty:build", "wake_when": '"Build finished" appears'}
    answer = world.call("smart_wait", CLAUDE, **given)
    assert count_bytes(answer) <= 310
    assert json.dumps(answer).count(COMMAND) == 1
    again = world.call("wait_update", CLAUDE, wait_id=answer["wait_id"], timeout=60)
    assert count_bytes(again) <= 310


@pytest.mark.parametrize(
    ("given", "told"), [({}, "Timeout: 300s. "), ({"timeout": 300}, ""), ({"timeout": 60}, "")]
)
def test_a_time_limit_is_told_to_who_gave_none(
    world: World, given: dict[str, object], told: str
) -> None:
    answer = world.call("smart_wait", CLAUDE, target="pty:build", wake_when="exits", **given)
    assert str(answer["message"]).startswith(f"{told}No wake comes: run what `command` says")


@pytest.mark.parametrize(
    ("tail", "told"),
    [
        ("page 1\npage 2\n\npage 3\npage 4\n", 'Last lines: "page 2 ⏎ page 3 ⏎ page 4".'),
        (f"page 1\n{'page 2 ' * 20}\npage 3\n", 'Last line: "page 3".'),
        (f"page 1\n{'page 2 ' * 20}\n", f'Last line: "{"page 2 " * 19}page 2".'),
        ("\n", "your host tells you when it ends."),
    ],
    ids=["short", "long before", "long last", "blank"],
)
def test_what_the_target_shows_is_told_briefly(
    world: World, monkeypatch: pytest.MonkeyPatch, tail: str, told: str
) -> None:
    def preview(*_: Any) -> TargetPreview:
        return TargetPreview(start="0", tail=tail)

    monkeypatch.setattr(world.context.wait_watcher, "preview_target", preview)
    answer = world.call("smart_wait", CLAUDE, target="pty:build", wake_when="exits")
    assert str(answer["message"]).endswith(f" {told}")


def test_a_refused_condition_is_told_in_few_bytes() -> None:
    condition = parse_condition("the build is finished successfully or an error occurs")
    suggestion = '"THE TEXT THAT IT PRINTS" appears'
    refusal = build_sides_refusal(condition, [0], FORMS, suggestion, is_read=False).to_json()
    assert count_bytes(refusal) <= 490
    assert all(str(refusal["message"]).count(form) == 0 for form in FORMS)


def test_a_query_says_nothing_twice(world: World) -> None:
    given = {"name": "Deploy the site", "plan": ["Build the image", "Push it", "Deploy it"]}
    task = str(world.call("task_register", CLAUDE, **given)["task_id"])
    told = ["Step 1 done, built and tagged v1.2.3", "Step 2 done, digest sha256:abcd"]
    for message in told:
        world.call("task_update", CLAUDE, task_id=task, message=message)
    answer = world.call("task_update", CLAUDE, task_id=task, query="where am I?")
    assert count_bytes(answer) <= 560
    assert [json.dumps(answer).count(message) for message in told] == [1, 1]


def test_a_query_of_a_long_thread_shows_five_messages(world: World) -> None:
    task = world.register()
    for number in range(30):
        world.narrate(task, f"Looked at file {number}.")
    answer = world.call("task_update", task_id=task, query="where am I?")
    assert (len(answer["messages"]), answer["more"]["left"]) == (5, 25)


def test_a_hint_is_said_once(world: World) -> None:
    task = world.register()
    answer = world.call("task_update", task_id=task, message="I have built the image.")
    assert json.dumps(answer).count(answer["hint"].partition('"')[0]) == 1
