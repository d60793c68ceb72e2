"""Sessions that are told to go on: what becomes of it when no turn takes it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.domain.wakes.outbox import GATEWAY_RECOVERY_TIME
from taskmem_hookspecs import Change, RunState, Wake, WakeCause, WakeQuery, WakeState
from taskmem_hookspecs.testing import a_wake
from tests.support.sessions import Session
from tests.support.world import World

DAY = 86_400
SETTLED = GATEWAY_RECOVERY_TIME.total_seconds() + 1
"""Seconds until a session that starts anew in a test has settled."""


@pytest.fixture
def session(world: World) -> Session:
    """A session that has worked on a task."""
    session = Session(world)
    session.begins()
    return session


@pytest.fixture
def task(session: Session) -> str:
    """The task that it works on, and was told to go on with."""
    task = session.register()
    session.does("echo one")
    session.ends()
    session.world.deliver()
    return task


def list_resume_wakes(world: World) -> list[Wake]:
    return [wake for wake in world.wakes() if wake.cause is WakeCause.RUN]


def test_unheeded_wake_to_go_on_is_resent_until_task_is_stuck(session: Session, task: str) -> None:
    arrived = session.world.pass_time(DAY)

    assert arrived != []
    assert [m.cause for m in arrived].count(WakeCause.RUN) <= 2
    (wake,) = list_resume_wakes(session.world)
    assert (wake.state, wake.sends, wake.due_at) == (WakeState.UNANSWERED, 3, None)
    assert session.world.task(task).alerts > 2


def test_task_is_not_stuck_while_its_run_wake_may_be_answered(session: Session, task: str) -> None:
    ack = session.world.context.policies.outbox.ack_seconds

    assert session.world.pass_time(ack - 1) == []

    session.world.pass_time(2 * ack)
    assert session.world.task(task).alerts > 0


def test_ended_turn_is_continued_though_its_wake_is_not_named(session: Session, task: str) -> None:
    for number in range(3):
        session.begins(Origin.OTHER)
        session.does(f"echo new {number}")
        session.ends(f"Did {number}.")
        assert session.run(task).limits.rounds == number + 2
        assert len(session.world.deliver()) == 1

    states = [wake.state for wake in list_resume_wakes(session.world)]
    assert sorted(states) == sorted([WakeState.SENT, *[WakeState.ACKNOWLEDGED] * 3])


def test_turn_end_acknowledges_all_run_wakes_of_its_session(session: Session) -> None:
    world = session.world
    tasks = [session.register(name=name) for name in ("A", "B")]
    presence = session.restarts("boot_2")
    session.settles(presence)
    world.deliver()
    assert {wake.task_id for wake in list_resume_wakes(world)} == {*tasks}

    session.begins(Origin.OTHER)
    session.ends()

    first = [wake for wake in list_resume_wakes(world) if wake.sent_at]
    assert {wake.state for wake in first} == {WakeState.ACKNOWLEDGED}


def test_turn_end_acknowledges_its_wake_among_many_of_others(session: Session, task: str) -> None:
    world = session.world
    before = list_resume_wakes(world)
    assert [wake.state for wake in before] == [WakeState.SENT]
    later = world.clock.now() + timedelta(hours=1)
    others = (
        a_wake(
            wake_id=f"wake_other_{number}",
            state=WakeState.SENT,
            session_key="agent:dev:main",
            created_at=later,
            home=world.context.store.scope,
        )
        for number in range(10_000)
    )
    world.store.commit(Change(wakes=tuple(others)))

    session.begins(Origin.OTHER)
    session.does("echo two")
    session.ends()

    (first,) = world.store.find_wakes(WakeQuery(wake_ids=[wake.wake_id for wake in before]))
    assert first.state is WakeState.ACKNOWLEDGED


@pytest.mark.parametrize(
    "turn",
    [{"origin": Origin.HEARTBEAT, "calls": 0}, {"error": "HTTP 400", "calls": 0}],
    ids=["empty-heartbeat", "failed"],
)
def test_a_turn_that_did_nothing_has_taken_no_word_to_go_on(
    session: Session, task: str, turn: dict[str, object]
) -> None:
    session.begins(Origin.USER)
    session.ends("", **{"origin": Origin.USER, **turn})

    (wake,) = list_resume_wakes(session.world)
    assert wake.state is WakeState.SENT
    session.world.pass_time(700)
    assert list_resume_wakes(session.world)[0].sends == 2


def test_another_sessions_turn_settles_nothing(session: Session, task: str) -> None:
    other = Session(session.world, key="agent:dev:main", role="dev")
    other.takes_up(name="Another")
    other.ends()

    states = [wake.state for wake in list_resume_wakes(session.world) if wake.task_id == task]
    assert states == [WakeState.SENT]


@pytest.mark.parametrize(
    "end",
    [
        lambda session, task: session.ends(aborted=True),
        lambda session, task: session.ends(error="HTTP 401"),
        lambda session, task: session.call("task_handoff", task_id=task),
        lambda session, task: session.call("task_update", task_id=task, status="paused"),
        lambda session, task: session.call("task_background", task_id=task),
    ],
    ids=["stopped", "credentials", "handed-off", "paused", "background"],
)
def test_run_wake_is_not_resent_when_the_run_goes_on_no_more(
    session: Session, task: str, end: object
) -> None:
    (before,) = list_resume_wakes(session.world)
    session.begins()
    assert callable(end)
    end(session, task)

    left = session.world.store.find_wakes(WakeQuery(wake_ids=(before.wake_id,)))[0]
    assert left.due_at is None
    assert left.state in (WakeState.ACKNOWLEDGED, WakeState.SUPERSEDED)


def test_newer_run_wake_supersedes_one_that_was_sent(session: Session, task: str) -> None:
    session.begins()
    session.ends(error="529 overloaded")

    states = {wake.state for wake in list_resume_wakes(session.world)}
    assert states == {WakeState.SUPERSEDED, WakeState.DUE}


# --- a gateway that starts anew between two turns -------------------------------


def due_in(session: Session) -> float:
    (wake,) = [w for w in list_resume_wakes(session.world) if w.state is WakeState.DUE]
    assert wake.due_at is not None
    return (wake.due_at - session.world.clock.now()).total_seconds()


def test_a_restart_while_a_provider_rests_interrupts_nothing(session: Session) -> None:
    task = session.register()
    session.does("echo one")
    for number, rest in enumerate((90, 360, 1440)):
        session.ends(error="529 overloaded", reason="passing")
        session.settles(session.restarts(f"boot_{number + 2}"))

        run = session.run(task)
        assert (run.state, run.limits.tries) == (RunState.RUNNING, 0)
        assert due_in(session) == rest - SETTLED
        session.world.clock.tick(rest)
        session.world.deliver()
        session.begins(Origin.TASKMEM)
    assert "Resuming" not in "".join(session.lines)


def test_restarts_before_a_session_is_told_count_as_one_try(session: Session) -> None:
    task = session.register()
    for number in range(4):
        session.settles(session.restarts(f"boot_{number + 2}"))

    assert (session.run(task).state, session.run(task).limits.tries) == (RunState.QUEUED, 1)
    assert session.world.deliver() != []


def test_cut_turn_counts_as_interrupted_though_its_wake_is_due(session: Session, task: str) -> None:
    session.begins(Origin.TASKMEM)
    session.does("echo two")
    (before,) = list_resume_wakes(session.world)
    lost = outbox.requeue_lost_wakes(
        [before], "gateway gone", session.world.clock.now(), session.world.context.policies.outbox
    )
    session.world.context.commit(lost)
    session.settles(session.restarts("boot_2"))

    assert (session.run(task).state, session.run(task).limits.tries) == (RunState.QUEUED, 1)


@pytest.mark.parametrize(
    ("seconds", "changed", "why"), [(4_000, False, "stale"), (60, True, "prompt_changed")]
)
def test_a_run_that_rests_is_asked_about_like_any(
    session: Session, seconds: float, changed: bool, why: str
) -> None:
    task = session.register()
    session.does("echo one")
    session.ends()
    session.world.clock.tick(seconds)
    if changed:
        session.fingerprint = "another"
    session.settles(session.restarts("boot_2"))

    run = session.run(task)
    assert (run.state, run.why) == (RunState.BLOCKED, why)
    assert session.world.wakes(WakeState.DUE) == []
