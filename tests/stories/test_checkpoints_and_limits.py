"""Checkpoints outlive a crash, and steps and background work have limits.

What takes a gateway is in `tests/e2e/test_resuming.py`.
"""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from openclaw_taskmem.domain.effects.checkpoints import MOST_MESSAGES
from openclaw_taskmem.domain.errors import LimitReached
from openclaw_taskmem.engine import run_recovery
from openclaw_taskmem.engine.run_history import read_history
from taskmem_hookspecs import RunState
from taskmem_hookspecs.packet import ConversationMessage
from tests.support.databases import change
from tests.support.sessions import Session
from tests.support.world import World


@pytest.fixture
def session(real_world: World) -> Session:
    """An agent's session in a gateway."""
    return Session(real_world)


def spoil(database: str, number: int) -> None:
    """Damage a checkpoint as a failing disk would."""
    statement = "UPDATE checkpoints SET body = replace(body, 'echo', 'ecno') WHERE number = :number"
    assert change(database, statement, number=number) == 1


def test_conversation_is_rebuilt_from_its_checkpoints(session: Session) -> None:
    task = session.takes_up()
    for number in range(12):
        said = (
            ConversationMessage(role="user" if number % 3 == 0 else "assistant", text=f"{number}"),
        )
        session.does(f"echo {number}", f"{number}", said=said)
    session.ends("Twelve are told.")
    # What an agent gets that knows nothing any more: the newest with its packet,
    answer = session.call("task_resume", task_id=task)
    packet = json.loads(answer["packet"].partition(" ")[2])
    spoken = [
        {"role": "user" if n % 3 == 0 else "assistant", "text": f"{n}"}
        for n in range(12 - MOST_MESSAGES, 12)
    ]
    assert packet["conversation"] == spoken[-3:]
    assert packet["last_response"] == "Twelve are told."
    # and all that is kept, with each call, where it asks.
    status = session.call("task_status", task_id=task)
    assert status["conversation"] == spoken
    assert [call["about"] for call in status["tool_history"]] == [
        f"echo {n}" for n in reversed(range(12))
    ]


def test_checkpoints_that_are_too_old_are_deleted(session: Session) -> None:
    task = session.takes_up()
    session.does("echo old")
    world = session.world
    world.clock.tick(timedelta(days=6).total_seconds())
    session.begins()
    session.does("echo new")
    world.clock.tick(timedelta(days=2).total_seconds())
    run_recovery.drop_old_checkpoints(world.context)
    history = read_history(world.context, session.run(task))
    assert history is not None
    assert [call.about for call in history.calls] == ["echo new"]
    world.clock.tick(timedelta(days=6).total_seconds())
    run_recovery.drop_old_checkpoints(world.context)
    assert read_history(world.context, session.run(task)) is None


def test_corrupt_checkpoint_falls_back_to_older_history(session: Session, database: str) -> None:
    task = session.takes_up()
    session.does("echo one")
    session.does("echo two")
    world, run = session.world, session.run(task)
    spoil(database, 4)
    history = read_history(world.context, run)
    assert history is not None
    assert [(c.about, c.ok) for c in history.calls] == [("echo one", True), ("echo two", None)]
    assert history.corrupt == 1
    spoil(database, 3)
    assert read_history(world.context, run) is None
    # The packet still goes out, without what is not known.
    answer = session.call("task_resume", task_id=task)
    assert '"do_not_redo"' not in answer["packet"]


def test_plan_of_over_ten_steps_is_capped_with_a_warning(session: Session) -> None:
    plan = [f"Part {n}" for n in range(1, 14)]
    answer = session.call("task_register", name="Long", plan=plan, segmented=True)
    assert answer["plan"] == plan[:10]
    assert "10 steps at most" in answer["warning"]
    assert answer["left_out_steps"] == plan[10:]
    # Only what asks for budgets has them.
    flat = session.call("task_register", name="Flat", plan=plan)
    assert len(flat["plan"]) == 13
    assert "warning" not in flat


def test_too_many_background_tasks_are_refused(real_world: World) -> None:
    sessions = [Session(real_world, f"agent:main:s{n}") for n in range(4)]
    tasks = []
    for session in sessions:
        session.begins()
        tasks.append(session.register())
    for session, task in zip(sessions[:3], tasks, strict=False):
        answer = session.call("task_background", task_id=task)
        assert answer["run"]["session_key"].startswith("agent:main:taskmem:run_")
    with pytest.raises(LimitReached, match="Too many background tasks: 3"):
        sessions[3].call("task_background", task_id=tasks[3])
    # One for each session, whatever there is room for.
    second = sessions[0].register(name="Second")
    with pytest.raises(LimitReached, match="one is all it may have"):
        sessions[0].call("task_background", task_id=second)
    sessions[1].call("task_cancel", task_id=tasks[1])
    sessions[3].call("task_background", task_id=tasks[3])


def test_progress_is_told_once_for_each_step(real_world: World) -> None:
    session = Session(real_world)
    task = session.takes_up(plan=["One", "Two", "Three"])
    key = session.call("task_background", task_id=task)["run"]["session_key"]
    away = Session(real_world, key)
    away.begins()
    for step in (1, 2):
        away.does(f"work on {step}")
        away.call("task_update", task_id=task, message="Still at it.")
        away.call("task_update", task_id=task, completed_steps=[step])
        away.call("task_update", task_id=task, completed_steps=[step])
    progress = [line for line in session.lines if "steps done" in line]
    assert progress == [
        'Deploy: 1 of 3 steps done: "One". /cancel Deploy stops it.',
        'Deploy: 2 of 3 steps done: "Two". /cancel Deploy stops it.',
    ]
    away.call("task_update", task_id=task, completed_steps=[3], status="completed")
    assert session.lines[-1].startswith("Deploy: completed; nothing was written")
    assert session.run(task).state is RunState.COMPLETED
