"""Runs that go to other hands, with what is attached to them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import pytest

from taskmem_hookspecs import Run, RunState
from taskmem_hookspecs.errors import LimitReached, RunNotReady
from taskmem_hookspecs.testing import MemoryStore
from tests.support.sessions import Session
from tests.support.world import PERSON, World


@pytest.fixture
def session() -> Session:
    """An agent's session in a gateway."""
    return Session(World())


@pytest.fixture
def other(session: Session) -> Session:
    """Another agent's session in the same gateway."""
    return Session(session.world, key="agent:dev:main", role="dev")


def at_work(session: Session, *attached: str) -> str:
    """Return a task that a session works on, and which names others."""
    session.begins()
    return session.register(metadata={"attached_task_ids": [*attached]})


# --- handed to the user ---------------------------------------------------------


def test_a_task_that_another_session_works_on_does_not_go_along(
    session: Session, other: Session
) -> None:
    theirs = at_work(other)
    mine = at_work(session, theirs)

    answer = session.call("task_handoff", task_id=mine)

    held = other.run(theirs)
    assert (held.state, held.owner) == (RunState.RUNNING, other.owner)
    assert answer["attached"] == []
    assert answer["message"] == (
        f"The user is asked to review it; {theirs} stayed. Stop working on it."
    )
    assert session.lines[-1].endswith("is for you to review.")


def test_a_task_that_waits_for_another_session_does_not_go_along(
    session: Session, other: Session
) -> None:
    theirs = at_work(other)
    session.world.call("task_reset", PERSON, task_id=theirs)
    mine = at_work(session, theirs)

    session.call("task_handoff", task_id=mine)

    assert other.run(theirs).state is RunState.QUEUED


def test_a_task_that_does_not_exist_does_not_keep_another_from_the_user(
    session: Session,
) -> None:
    backlog = session.world.register("Backlog")
    mine = at_work(session, "task_none", backlog)

    answer = session.call("task_handoff", task_id=mine)

    assert answer["attached"] == [backlog]
    assert f"together with {backlog}; task_none stayed." in answer["message"]
    assert "is for you to review, with 1 more." in session.lines[-1]


def test_what_is_attached_goes_along_as_often_as_it_is_open(session: Session) -> None:
    backlog = session.world.register("Backlog")
    mine = at_work(session, backlog)
    session.call("task_handoff", task_id=mine)
    for status in ("completed", "active"):
        session.world.call("task_update", PERSON, task_id=backlog, status=status)
    session.world.call("task_resume", PERSON, task_id=mine)
    session.begins()

    answer = session.call("task_handoff", task_id=mine)

    assert answer["attached"] == [backlog]
    assert session.run(backlog).state is RunState.REVIEW


def test_what_is_with_the_user_is_not_handed_there_again_nor_reset(
    session: Session,
) -> None:
    task = at_work(session)
    session.call("task_handoff", task_id=task)
    said = (
        f"{session.run(task).run_id} is with the user for review already; task_resume "
        "takes it up again, and task_update with status completed ends it."
    )

    with pytest.raises(RunNotReady, match=said):
        session.call("task_handoff", task_id=task)
    with pytest.raises(RunNotReady, match=f"only what runs can be reset, and {said}"):
        session.call("task_reset", task_id=task)


def test_what_nobody_works_on_does_not_go_to_the_background(session: Session) -> None:
    task = at_work(session)
    session.world.call("task_reset", PERSON, task_id=task)

    with pytest.raises(RunNotReady, match="is queued already; claim it"):
        session.call("task_background", task_id=task)


# --- moved to the background ----------------------------------------------------


class Together(MemoryStore):
    """Lets whoever reads all runs wait until another has read them, if one comes."""

    def __init__(self) -> None:
        super().__init__()
        self.two = threading.Barrier(2, timeout=0.5)

    def list_runs(
        self,
        states: Collection[RunState] | None,
        task_id: str | None,
        limit: int,
        home: str | None = None,
    ) -> Sequence[Run]:
        found = super().list_runs(states, task_id, limit, home)
        if task_id is None:
            with suppress(threading.BrokenBarrierError):
                self.two.wait()
        return found


def test_two_calls_at_once_never_exceed_what_may_be_in_the_background() -> None:
    session = Session(World(Together()))
    tasks = [at_work(session), session.register(name="Second")]
    refused: list[Any] = []

    def moves(task: str) -> None:
        try:
            session.call("task_background", task_id=task)
        except LimitReached as error:
            refused.append(str(error))

    calls = [threading.Thread(target=moves, args=(task,)) for task in tasks]
    for call in calls:
        call.start()
    for call in calls:
        call.join()

    away = [task for task in tasks if session.run(task).told_session is not None]
    [why] = refused
    assert why.startswith(f"This session has {away[0]} in the background")
    assert len(away) == 1


def test_whoever_takes_two_turns_that_are_one_takes_it_once() -> None:
    shell = World().shell
    decided: list[str] = []

    def decides() -> None:
        decided.append(shell.decide("a", lambda: "yes", "a"))

    call = threading.Thread(target=decides, daemon=True)
    call.start()
    call.join(5)

    assert decided == ["yes"]
