"""Tasks whose agent nobody can wake: where they stand, and what a person is told."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.views.overview import TaskLine
from openclaw_taskmem.domain.views.user_actions import ActRequest, UserAction
from openclaw_taskmem.engine import overview, run_recovery, user_actions, wakes
from openclaw_taskmem.engine.wakes import count_hostless
from taskmem_hookspecs import Change, WakeState
from taskmem_hookspecs.testing import a_wake
from tests.support.sessions import Session
from tests.support.world import World

CLAUDE = Caller(host="mcp:claude-code")
SCRIPT = Caller()
GATEWAY = Caller(session_key="agent:main:main", host="openclaw")
TELL = "Tell {who} yourself to go on with {task}."


def reaches(host: str | None, session_key: str | None) -> bool:
    """As `auto` does: OpenClaw's own agents, in a session that is known."""
    return session_key is not None and host in (None, "openclaw")


@pytest.fixture
def world() -> World:
    return World(reaches=reaches)


def register(world: World, caller: Caller) -> str:
    made = world.call("task_register", caller, name="Deploy", plan=["Build"])
    return str(made["task_id"])


def read_line(world: World, task: str) -> TaskLine:
    return overview.read_line(world.context, task)


def act(world: World, task: str, action: UserAction, **given: Any) -> str:
    return user_actions.act_on_task(world.context, task, ActRequest(action=action, **given))


@pytest.mark.parametrize(
    ("caller", "before", "why", "who"),
    [
        (CLAUDE, "at_work", "nothing here can wake Claude Code", "Claude Code"),
        (SCRIPT, "idle", "no agent is known that can be woken", "an agent"),
    ],
)
def test_silent_work_that_nobody_can_wake_needs_the_user(
    world: World, caller: Caller, before: str, why: str, who: str
) -> None:
    task = register(world, caller)
    assert read_line(world, task).section == before
    world.clock.tick(world.context.policies.stuck.threshold_seconds)

    line = read_line(world, task)

    assert line.section == "needs_you"
    assert line.says == f"silent, and {why}. {TELL.format(who=who, task=task)}"


def test_a_session_that_is_closed_is_to_be_opened(world: World) -> None:
    task = register(world, CLAUDE.model_copy(update={"session_key": "s-1"}))
    closed = "its session in Claude Code is closed"
    assert (read_line(world, task).section, read_line(world, task).says) == ("idle", closed)
    live = world.context.plugin_host.sessions
    live.add_connection("relay", {})
    live.add_session("relay", "s-1", CLAUDE.host)
    assert read_line(world, task).says.startswith("at work, as last heard (nothing here can")
    live.remove_connection("relay")
    world.clock.tick(world.context.policies.stuck.threshold_seconds)
    tell = f"tell Claude Code yourself to go on with {task}."
    assert read_line(world, task).says == f"silent, and {closed}. Open that again, or {tell}"


def test_an_ended_wait_of_which_nobody_is_told_needs_the_user(world: World) -> None:
    task = register(world, CLAUDE)
    given = {"target": "pty:build", "wake_when": "it ends", "task_id": task}
    wait = world.call("smart_wait", CLAUDE, **given)["wait_id"]
    line = read_line(world, task)
    assert line.section == "waiting"
    assert line.effects[UserAction.PAUSE].endswith("any more. Its wait goes on.")
    world.end_wait(world.store.read_wait(wait))
    assert world.deliver() == []
    assert read_line(world, task).section == "at_work"  # its agent may be about to fetch it
    world.clock.tick(60)

    line = read_line(world, task)

    assert (line.section, line.says.partition(",")[0]) == ("needs_you", "waits for its agent")


@pytest.mark.parametrize("caller", [CLAUDE, SCRIPT])
def test_resuming_says_that_nobody_is_told(world: World, caller: Caller) -> None:
    task = register(world, caller)
    act(world, task, UserAction.PAUSE)
    before = read_line(world, task).effects[UserAction.RESUME]

    said = act(world, task, UserAction.RESUME)

    assert said.startswith('"Deploy": it is open again, but n')
    assert said.endswith(f"yourself to go on with {task}.")
    assert said.partition(": ")[2][1:] == before[1:]


def test_resuming_says_that_its_agent_is_told(session: Session) -> None:
    task = session.takes_up()
    act(session.world, task, UserAction.PAUSE)
    said = act(session.world, task, UserAction.RESUME)
    assert said == '"Deploy": its agent is told to go on.'


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"last_error": "No gateway."}, "its wake is not delivered: No gateway. How to repair"),
        ({"last_error": "No gateway.", "note": "."}, "its wake waits: No gateway. Tell an agent"),
        (
            {"state": WakeState.REFUSED, "last_error": "Gone."},
            "its wake was refused: Gone. Tell",
        ),
        ({"state": WakeState.UNANSWERED}, "its agent was woken, and did nothing. Tell an agent"),
        ({"state": WakeState.ACKNOWLEDGED}, ""),
        ({}, ""),
    ],
)
def test_a_wake_that_fails_is_the_reason(world: World, fields: dict[str, Any], why: str) -> None:
    task = register(world, GATEWAY)
    now = world.clock.now()
    wake = a_wake(task_id=task, created_at=now, due_at=now, session_key=GATEWAY.session_key)
    world.store.commit(Change(wakes=(wake.model_copy(update=fields),)))
    world.clock.tick(world.context.policies.stuck.threshold_seconds)

    line = read_line(world, task)

    assert (line.section == "needs_you") is bool(why)
    assert why in line.says


def test_a_run_that_its_client_has_left_needs_the_user(world: World) -> None:
    task = register(world, CLAUDE)
    world.call("task_claim", CLAUDE, task_id=task)
    world.clock.tick(world.context.policies.runs.lease_seconds + 1)
    run_recovery.sweep_lapsed_runs(world.context, ())
    assert read_line(world, task).says == "queued for anybody"
    world.clock.tick(60)

    line = read_line(world, task)

    assert line.section == "needs_you"
    assert line.says.startswith("waits for its agent, and nothing here can wake Claude Code. Tell")


def test_a_run_that_is_queued_for_a_role_needs_nobody(world: World) -> None:
    made = world.call("task_register", CLAUDE, name="Deploy", plan=["Build"], role="baker")
    world.clock.tick(60)
    assert read_line(world, str(made["task_id"])).section == "waiting"


def test_a_known_host_is_no_home_without_hosts(world: World) -> None:
    assert count_hostless(world.context) == 0
    register(world, SCRIPT)
    register(world, SCRIPT)
    assert count_hostless(world.context) == 2
    register(world, CLAUDE)
    assert count_hostless(world.context) == 0


def test_hostless_tasks_are_counted_beyond_those_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakes, "MOST_COUNTED_TASKS", 2)
    for _ in range(3):
        register(world, SCRIPT)
    assert count_hostless(world.context) == 3
