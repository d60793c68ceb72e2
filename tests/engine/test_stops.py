"""Turns that are stopped with their task: the one that works on it, and no other."""

from __future__ import annotations

import pytest

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.changes.continuation import Origin
from taskmem_hookspecs import EventQuery, RunState
from tests.support.sessions import MAIN, Session
from tests.support.world import PERSON, WORKER, World


def stopped_sessions(world: World) -> list[object]:
    """The sessions whose turn is stopped."""
    log = world.store.find_events(EventQuery())
    return [e.data["session_key"] for e in log if e.kind == events.TURN_STOPPED]


@pytest.mark.parametrize("tool", ["task_cancel", "task_reset"])
def test_the_turn_that_works_on_a_task_is_stopped_with_it(session: Session, tool: str) -> None:
    session.world.call(tool, PERSON, task_id=session.takes_up())

    assert stopped_sessions(session.world) == [MAIN]


@pytest.mark.parametrize("state", [RunState.BLOCKED, RunState.REVIEW, RunState.QUEUED])
def test_a_task_that_rests_is_cancelled_and_its_session_works_on(
    session: Session, state: RunState
) -> None:
    task = session.takes_up()
    if state is RunState.BLOCKED:
        session.asks("Shall I push it?")
    else:
        to = {"to": "main"} if state is RunState.QUEUED else {}
        session.call("task_handoff", task_id=task, **to)
    session.world.clock.tick(1)
    session.takes_up(Origin.OTHER)
    assert session.run(task).state is state

    session.world.call("task_cancel", PERSON, task_id=task)

    assert stopped_sessions(session.world) == []


def test_cancel_stops_the_turn_only_for_the_task_it_works_on(session: Session) -> None:
    first = session.takes_up()
    session.world.clock.tick(1)
    second = session.register(name="Test")

    session.world.call("task_cancel", PERSON, task_id=first)
    assert stopped_sessions(session.world) == []

    session.world.call("task_cancel", PERSON, task_id=second)
    assert stopped_sessions(session.world) == [MAIN]


@pytest.mark.parametrize("tool", ["task_cancel", "task_reset"])
def test_taking_away_a_task_between_turns_stops_no_turn(session: Session, tool: str) -> None:
    task = session.takes_up()
    session.ends("More to come.")
    assert session.run(task).state is RunState.RUNNING

    session.world.call(tool, PERSON, task_id=task)

    assert stopped_sessions(session.world) == []


def test_cancelling_a_task_of_a_process_stops_no_turn() -> None:
    world = World()
    task = world.register(session_key=MAIN, role="agent")
    world.call("task_claim", WORKER, task_id=task)

    world.call("task_cancel", PERSON, task_id=task)

    assert stopped_sessions(world) == []
