"""Runs that go to other hands, with what is attached to them."""

from __future__ import annotations

import pytest

from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.errors import RunNotReady
from taskmem_hookspecs import Change, RunState, WakeState
from tests.support.sessions import Session
from tests.support.world import PERSON

HOUR = 3600
DAY = 24 * HOUR


# --- handed to the user ---------------------------------------------------------


def test_a_task_that_another_session_works_on_does_not_go_along(
    session: Session, other: Session
) -> None:
    theirs = other.takes_up()
    mine = session.takes_up(metadata={"attached_task_ids": [theirs]})

    answer = session.call("task_handoff", task_id=mine)

    held = other.run(theirs)
    assert (held.state, held.owner) == (RunState.RUNNING, other.owner)
    assert answer["attached"] == []
    assert answer["message"] == (
        f"The user is asked to review it; {theirs} stayed. Stop working on it."
    )
    assert session.lines[-1].endswith("for you to review.")


def test_a_task_that_waits_for_another_session_does_not_go_along(
    session: Session, other: Session
) -> None:
    theirs = other.takes_up()
    session.world.call("task_reset", PERSON, task_id=theirs)
    mine = session.takes_up(metadata={"attached_task_ids": [theirs]})

    session.call("task_handoff", task_id=mine)

    assert other.run(theirs).state is RunState.QUEUED


def test_unknown_attached_task_does_not_stop_the_others_handoff(session: Session) -> None:
    backlog = session.world.register("Backlog")
    mine = session.takes_up(metadata={"attached_task_ids": ["task_none", backlog]})

    answer = session.call("task_handoff", task_id=mine)

    assert answer["attached"] == [backlog]
    assert f"together with {backlog}; task_none stayed." in answer["message"]
    assert "for you to review, with 1 more." in session.lines[-1]


def test_what_is_attached_goes_along_as_often_as_it_is_open(session: Session) -> None:
    backlog = session.world.register("Backlog")
    mine = session.takes_up(metadata={"attached_task_ids": [backlog]})
    session.call("task_handoff", task_id=mine)
    for status in ("completed", "active"):
        session.world.call("task_update", PERSON, task_id=backlog, status=status)
    session.world.call("task_resume", PERSON, task_id=mine)
    session.begins()

    answer = session.call("task_handoff", task_id=mine)

    assert answer["attached"] == [backlog]
    assert session.run(backlog).state is RunState.REVIEW


def test_task_in_review_cannot_be_handed_off_or_reset(session: Session) -> None:
    task = session.takes_up()
    session.call("task_handoff", task_id=task)
    said = (
        f"{session.run(task).run_id} is with the user for review already; once they "
        "have answered, task_resume with their words as answer takes it up again, and "
        "task_update with status completed ends it then."
    )

    with pytest.raises(RunNotReady, match=said):
        session.call("task_handoff", task_id=task)
    with pytest.raises(RunNotReady, match=f"only what runs can be reset, and {said}"):
        session.call("task_reset", task_id=task)


def test_what_nobody_works_on_does_not_go_to_the_background(session: Session) -> None:
    task = session.takes_up()
    session.world.call("task_reset", PERSON, task_id=task)

    with pytest.raises(RunNotReady, match="is queued already; claim it"):
        session.call("task_background", task_id=task)


# --- reset -----------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [0, 1])
def test_reset_run_is_woken_once_with_the_key_of_its_new_round(
    session: Session, rounds: int
) -> None:
    task = session.takes_up()
    for _ in range(rounds):
        session.does("echo one")
        session.ends()
        session.world.deliver()
        session.begins(Origin.TASKMEM)

    session.call("task_reset", task_id=task)

    run = session.run(task)
    [wake] = session.world.wakes(WakeState.DUE)
    assert run.limits.rounds == rounds + 1
    assert wake.key == f"run:{run.run_id}:{run.limits.rounds}"


def test_a_reset_run_is_resumed_in_the_gateway_that_had_it_last(session: Session) -> None:
    """Two gateways may have a session of that key, and the task may come from neither."""
    task = session.takes_up()
    run = session.run(task)
    there = session.owner.model_copy(update={"host": "openclaw:desk"})
    session.world.context.commit(Change(runs=(run.model_copy(update={"owner": there}),)))

    session.world.call("task_reset", PERSON, task_id=task)

    [wake] = session.world.wakes(WakeState.DUE)
    assert (wake.session_key, wake.host) == (session.key, "openclaw:desk")
