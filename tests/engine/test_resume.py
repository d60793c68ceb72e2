"""Taking a task up again leaves its trace in the log."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.errors import TaskEnded
from openclaw_taskmem.domain.wakes.outbox import find_hold
from openclaw_taskmem.engine import run_recovery, wakes
from openclaw_taskmem.engine.wakes import Delivery
from taskmem_hookspecs import EventQuery, RunState, WakeState
from tests.support.sessions import Session
from tests.support.world import PERSON, World


@pytest.fixture
def session() -> Session:
    """A session with a turn in which it works."""
    session = Session(World())
    session.begins()
    return session


def data_of_kind(session: Session, kind: str) -> list[dict[str, object]]:
    """What the entries of a kind hold, oldest first."""
    every = session.world.store.find_events(EventQuery())
    return [dict(event.data) for event in every if event.kind == kind]


def test_resumed_failed_task_is_logged_as_active(session: Session) -> None:
    task = session.register()
    session.call("task_abort", task_id=task, reason="It cannot be done.")

    session.call("task_resume", task_id=task)

    assert data_of_kind(session, events.STATUS_CHANGED)[-1] == {"from": "failed", "to": "active"}


def test_completed_task_is_resumed_only_with_reopen(session: Session) -> None:
    task = session.register()
    session.call("task_update", task_id=task, status="completed")
    before = session.world.store.read_task(task)

    for caller in (session.caller, PERSON):
        with pytest.raises(TaskEnded, match="call task_resume with reopen true"):
            session.world.call("task_resume", caller, task_id=task, answer="Go on.")

    assert session.world.store.read_task(task) == before
    answer = session.call("task_resume", task_id=task, reopen=True)
    assert answer["status"] == "active"
    assert session.run(task).state is RunState.RUNNING


def test_agent_of_a_returned_task_is_not_told_to_complete_it(session: Session) -> None:
    task = session.register(plan=["Build it"])
    session.call("task_update", task_id=task, completed_steps=[1])
    session.call("task_handoff", task_id=task)
    session.ends("Look at it, please.")

    session.world.call("task_resume", PERSON, task_id=task, answer="Mend the roof.")

    (wake,) = session.world.deliver()
    line, said = wake.text.split("\n")
    suggested = json.loads(line.removeprefix("[task_resume] "))["suggested_next_action"]
    assert "do first what they say" in suggested
    assert said == 'The user says: "Mend the roof."'


def test_resumed_active_task_logs_no_status_change(session: Session) -> None:
    task = session.register()

    session.call("task_resume", task_id=task)

    assert data_of_kind(session, events.STATUS_CHANGED) == []


def test_what_a_resume_makes_needless_is_logged_as_superseded(session: Session) -> None:
    task = session.register()
    session.does("echo one")
    session.ends()
    (owed,) = session.world.wakes(WakeState.DUE)

    session.world.call("task_resume", PERSON, task_id=task)

    (again,) = session.world.wakes(WakeState.DUE)
    assert again.wake_id != owed.wake_id
    superseded = data_of_kind(session, events.WAKE_SUPERSEDED)
    assert [entry["wake_id"] for entry in superseded] == [owed.wake_id]


def test_packet_keeps_what_was_done_however_late_the_answer_is(session: Session) -> None:
    task = session.takes_up()
    session.does("send the invoice to the customer")
    session.asks("May I go on?")
    for _ in range(8):
        session.world.clock.tick(86_400)
        run_recovery.drop_old_checkpoints(session.world.context)

    answer = session.call("task_resume", task_id=task)

    packet = json.loads(answer["packet"].partition(" ")[2])
    assert "send the invoice" in str(packet["do_not_redo"])


def test_cut_run_is_told_to_go_on_within_30_s_of_a_start(session: Session) -> None:
    """Source: docs/origins.md, "Resuming after a crash"."""
    session.register()
    session.does("echo one")
    world, presence = session.world, session.restarts("boot_2")
    sent: list[Delivery] = []
    while not sent and world.clock.now() < presence.started_at + timedelta(hours=1):
        world.clock.tick(1)
        run_recovery.sweep_lapsed_runs(world.context, (presence,))
        now = world.clock.now()
        sent += wakes.claim_deliveries(world.context, lambda key: find_hold((presence,), key, now))  # noqa: B023

    [delivery] = sent
    assert delivery.message.session_key == session.key
    assert world.clock.now() - presence.started_at <= timedelta(seconds=30)


def rest_with_three_tasks(session: Session) -> list[str]:
    """Register three tasks in one turn, which ends with words alone; their ids."""
    tasks = [session.register(name=name) for name in ("Deploy", "Paint", "Bake")]
    session.ends("I have noted all three.", calls=0)
    return tasks


def test_kills_of_an_idle_gateway_interrupt_no_task(session: Session) -> None:
    tasks = rest_with_three_tasks(session)
    before = [session.run(task) for task in tasks]

    for number in range(4):
        session.world.clock.tick(9)
        session.settles(session.restarts(f"boot_{number + 2}"))

    assert [session.run(task) for task in tasks] == before
    assert not [line for line in session.lines if "interrupt" in line]


def test_a_restart_leaves_a_run_alone_that_waits(session: Session) -> None:
    task = session.register()
    session.world.open_wait(task)
    session.ends()

    session.restarts("boot_2")

    assert session.run(task).lease_until is None


def test_a_turn_that_took_three_resumes_ends_each(session: Session) -> None:
    tasks = [session.register(name=name) for name in ("Deploy", "Paint", "Bake")]
    session.settles(session.restarts("boot_2"))
    assert [session.run(task).limits.tries for task in tasks] == [1, 1, 1]
    session.world.deliver()
    session.begins(Origin.TASKMEM)
    session.ends("I have seen it.", calls=0)

    for number in range(3):
        ends = [session.run(task) for task in tasks]
        assert {(run.state, run.limits.tries) for run in ends} == {(RunState.RUNNING, 0)}
        session.world.clock.tick(9)
        session.settles(session.restarts(f"boot_{number + 3}"))


@pytest.mark.parametrize("end", [{"aborted": True}, {"stopped": True}, {"error": "503"}])
def test_a_turn_that_was_cut_ends_no_other_resume(session: Session, end: dict[str, Any]) -> None:
    tasks = [session.register(name=name) for name in ("Deploy", "Paint")]
    session.settles(session.restarts("boot_2"))
    session.world.deliver()
    session.begins(Origin.TASKMEM)
    wakes.settle_resume_wakes(session.world.context, session.key, [*map(session.run, tasks)])

    session.ends("", **end)

    assert session.run(tasks[0]).limits.tries == 1


def test_a_run_whose_resume_is_still_owed_keeps_its_count(session: Session) -> None:
    tasks = [session.register(name=name) for name in ("Deploy", "Paint")]
    session.settles(session.restarts("boot_2"))
    session.begins()

    session.ends(origin=Origin.USER)

    assert session.run(tasks[0]).limits.tries == 1


def test_the_next_task_goes_on_when_one_fails_at_a_restart(session: Session) -> None:
    resting, working = session.register(name="Paint"), session.register()
    session.ends()
    for number in range(3):
        session.world.deliver()
        session.begins(Origin.TASKMEM)
        session.does(f"try {number}")
        session.settles(session.restarts(f"boot_{number + 2}"))

    assert session.run(working).state is RunState.FAILED
    assert session.run(resting).state is RunState.RUNNING
    [wake] = session.world.wakes(WakeState.DUE)
    assert (wake.task_id, session.run(resting).limits.tries) == (resting, 0)
