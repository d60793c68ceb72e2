"""Taking a task up again leaves its trace in the log."""

from __future__ import annotations

import json

import pytest

from openclaw_taskmem.domain import events
from openclaw_taskmem.engine import recovery
from taskmem_hookspecs import WakeState
from tests.support.sessions import Session
from tests.support.world import PERSON, World


@pytest.fixture
def session() -> Session:
    """A session with a turn in which it works."""
    session = Session(World())
    session.begins()
    return session


def logged(session: Session, kind: str) -> list[dict[str, object]]:
    """What the entries of a kind hold, oldest first."""
    every = session.world.store.list_events(0, 1000)
    return [dict(event.data) for event in every if event.kind == kind]


def test_a_failed_task_that_is_taken_up_again_is_logged_as_active(
    session: Session,
) -> None:
    task = session.register()
    session.call("task_abort", task_id=task, reason="It cannot be done.")

    session.call("task_resume", task_id=task)

    assert logged(session, events.STATUS_CHANGED)[-1] == {
        "from": "failed",
        "to": "active",
    }


def test_an_active_task_that_is_taken_up_again_has_not_changed_its_status(
    session: Session,
) -> None:
    task = session.register()

    session.call("task_resume", task_id=task)

    assert logged(session, events.STATUS_CHANGED) == []


def test_what_a_resume_makes_needless_is_logged_as_superseded(
    session: Session,
) -> None:
    task = session.register()
    session.does("echo one")
    session.ends()
    (owed,) = session.world.wakes(WakeState.DUE)

    session.world.call("task_resume", PERSON, task_id=task)

    (again,) = session.world.wakes(WakeState.DUE)
    assert again.wake_id != owed.wake_id
    superseded = logged(session, events.WAKE_SUPERSEDED)
    assert [entry["wake_id"] for entry in superseded] == [owed.wake_id]


def test_what_was_done_is_known_however_long_the_user_takes_to_answer(
    session: Session,
) -> None:
    task = session.takes_up()
    session.does("send the invoice to the customer")
    session.asks("May I go on?")
    for _ in range(8):
        session.world.clock.tick(86_400)
        recovery.forget(session.world.shell)

    answer = session.call("task_resume", task_id=task)

    packet = json.loads(answer["packet"].partition(" ")[2])
    assert "send the invoice" in str(packet["do_not_redo"])
