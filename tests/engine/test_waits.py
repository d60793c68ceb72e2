"""A wait that names no task: it belongs to the one active task of its session."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.engine import waits
from openclaw_taskmem.engine.wait_watcher import TargetPreview
from taskmem_hookspecs import NotAllowed, Owner, TaskQuery, Wait
from tests.support.sessions import Session
from tests.support.world import World

WORKER = Caller(
    host="mcp:codex",
    session_key="thread-1",
    process="7:9",
    owner=Owner(role="agent", process="7:9", session_key="thread-1"),
)


def open_wait(world: World, caller: Caller, **given: Any) -> tuple[Wait, str]:
    """Open a wait; its row, and what the agent is told."""
    answer = world.call("smart_wait", caller, target="pty:build", wake_when="exits", **given)
    return world.store.read_wait(answer["wait_id"]), answer["message"]


@pytest.mark.parametrize("turn", ["in one turn", "in a later turn"])
def test_it_belongs_to_the_only_task_and_says_so(session: Session, turn: str) -> None:
    task = session.works()
    if turn == "in a later turn":
        session.ends()
        session.begins()
    wait, told = open_wait(session.world, session.caller)
    assert wait.task_id == task
    assert 'It belongs to your task "Deploy".' in told
    assert session.world.task(task).linkage.active_wait_ids == (wait.wait_id,)


def test_it_belongs_to_the_task_that_its_session_has_claimed(session: Session) -> None:
    task = session.world.register()
    session.world.call("task_claim", WORKER, task_id=task)
    assert open_wait(session.world, WORKER)[0].task_id == task


def test_in_the_background_it_belongs_to_the_task_there(session: Session) -> None:
    task = session.takes_up()
    session.call("task_background", task_id=task)
    away = Session(session.world, key=f"agent:main:taskmem:{session.run(task).run_id}")
    away.begins()
    assert open_wait(session.world, away.caller)[0].task_id == task
    assert open_wait(session.world, session.caller)[0].task_id is None


@pytest.mark.parametrize("rest", ["paused", "completed"])
def test_a_task_that_rests_or_has_ended_does_not_count(session: Session, rest: str) -> None:
    other = session.takes_up(name="Other")
    session.call("task_update", task_id=other, status=rest)
    assert open_wait(session.world, session.caller)[0].task_id is None
    task = session.register()
    assert open_wait(session.world, session.caller, poll_interval=9)[0].task_id == task


def test_with_none_or_several_it_belongs_to_no_task(session: Session) -> None:
    session.request = "Please bake three loaves."
    session.begins()
    for number in range(3):
        session.does(f"bake loaf {number}")
    assert session.world.store.find_tasks(TaskQuery(implicit=True))
    wait, told = open_wait(session.world, session.caller)
    assert (wait.task_id, "belongs" in told) == (None, False)
    first = session.register(name="First")
    session.register(name="Second")
    wait, told = open_wait(session.world, session.caller, poll_interval=9)
    assert (wait.task_id, "belongs" in told) == (None, False)
    wait, told = open_wait(session.world, session.caller, task_id=first)
    assert (wait.task_id, "belongs" in told) == (first, False)


def test_the_task_of_another_session_or_host_is_not_meant(session: Session, other: Session) -> None:
    session.works()
    assert open_wait(session.world, other.caller)[0].task_id is None
    stranger = Caller(host="mcp:claude-code", session_key="thread-1", session_said=True)
    session.world.call("task_register", WORKER, name="Deploy", plan=["Build"])
    assert open_wait(session.world, stranger)[0].task_id is None


def test_a_task_that_may_not_be_waited_for_any_more_is_none(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.works()

    def preview(*_: Any) -> TargetPreview:
        monkeypatch.setattr(waits, "guard_task", Mock(side_effect=NotAllowed("It was claimed.")))
        return TargetPreview(start="0")

    monkeypatch.setattr(session.world.context.wait_watcher, "preview_target", preview)
    assert open_wait(session.world, session.caller)[0].task_id is None


def test_a_task_that_ends_meanwhile_does_not_refuse_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = session.works()

    def preview(*given: Any) -> TargetPreview:
        session.call("task_update", task_id=task, status="failed")
        return TargetPreview(start="0")

    monkeypatch.setattr(session.world.context.wait_watcher, "preview_target", preview)
    assert open_wait(session.world, session.caller)[0].task_id is None
