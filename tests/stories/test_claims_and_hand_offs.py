"""Queued work is claimed, recovered, handed off and reviewed, on a real database."""

from __future__ import annotations

import logging

import pytest

from openclaw_taskmem.domain.errors import RunHeld, RunNotReady
from openclaw_taskmem.engine import run_recovery
from taskmem_hookspecs import RunState, TaskStatus
from taskmem_hookspecs.errors import NotAllowed, RunNotFound
from tests.support.sessions import Session
from tests.support.world import PERSON, World, worker

LEASE = 300


@pytest.fixture
def session(real_world: World) -> Session:
    """An agent's session in a gateway."""
    return Session(real_world)


def test_crashed_agent_rejoins_and_takes_up_its_recovered_task(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    task = session.takes_up()
    session.does("build")
    held = session.run(task)
    assert (held.state, held.token) == (RunState.RUNNING, 1)

    # It crashes without a hand-off, and its gateway starts anew.
    with caplog.at_level(logging.WARNING):
        presence = session.restarts("boot_2")
        assert session.run(task).state is RunState.RUNNING
        session.settles(presence)
    recovered = session.run(task)
    assert (recovered.state, recovered.owner) == (RunState.QUEUED, None)
    [line] = [r.message for r in caplog.records if "[State Recovery]" in r.message]
    assert line == (
        f"[State Recovery] task={task} run={held.run_id} role=main "
        "action=reset_to_queued why=interrupted"
    )

    # The session picks the recovered run up at once.
    [wake] = session.world.deliver()
    assert wake.session_key == session.key
    session.begins()
    again = session.run(task)
    assert (again.run_id, again.state) == (held.run_id, RunState.RUNNING)
    assert again.token == 2


def test_stale_cleanup_resets_expired_runs_with_one_summary_line(
    real_world: World, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = [real_world.register(f"Task {n}") for n in range(3)]
    for n, task in enumerate(tasks):
        real_world.call("task_claim", worker(f"{n}"), task_id=task, role=f"role{n}")
    real_world.clock.tick(LEASE - 1)
    real_world.call("task_update", worker("2"), task_id=tasks[2], message="Here.")
    real_world.clock.tick(1)
    with caplog.at_level(logging.WARNING):
        assert run_recovery.sweep_lapsed_runs(real_world.context, ()) == 2
    [summary] = [r.message for r in caplog.records if "[Stale Cleanup]" in r.message]
    assert summary.startswith("[Stale Cleanup] 2 runs looked at, 2 reset to queued: ")
    assert "(role role0)" in summary
    states = [real_world.store.read_task(task).run.state for task in tasks]
    assert states == ["queued", "queued", "running"]
    # Nothing is due, so nothing is looked at.
    assert run_recovery.sweep_lapsed_runs(real_world.context, ()) == 0


def test_promotion_claims_the_next_queued_run_after_the_first(real_world: World) -> None:
    first, second = real_world.register("First"), real_world.register("Second")
    builder = worker("1")
    real_world.call("task_claim", builder, task_id=first, role="builder")
    real_world.call("task_claim", worker("2"), task_id=second, role="builder")
    real_world.call("task_handoff", worker("2"), task_id=second, to="builder", note="Yours.")
    assert real_world.store.read_task(second).run.state is RunState.QUEUED
    real_world.call("task_update", builder, task_id=first, status="completed")
    claimed = real_world.call("task_claim", builder, role="builder")
    assert claimed["task_id"] == second
    with pytest.raises(RunNotFound, match="Nothing is queued for builder"):
        real_world.call("task_claim", builder, role="builder")


def test_promotion_within_a_session_comes_by_itself(session: Session) -> None:
    first = session.takes_up(name="First")
    session.ends("Working on it.")
    session.world.deliver()
    second = session.register(name="Second")
    session.begins()
    session.does("second work")
    session.call("task_update", task_id=second, status="completed")
    session.ends("The second is done.")
    [wake] = [w for w in session.world.wakes() if w.task_id == first and w.state in ("due", "sent")]
    assert '"First" is open' in wake.text


def test_hand_off_to_the_user_takes_attached_backlog_tasks_along(
    real_world: World, caplog: pytest.LogCaptureFixture
) -> None:
    main = real_world.register("Main")
    names = (*("Backlog", "Queued", "In progress", "Another's"), *("Paused by the user", "Done"))
    attached = {name: real_world.register(name) for name in names}
    me = worker("1")
    real_world.call("task_claim", me, task_id=main, role="builder", attach=[*attached.values()])
    other = worker("2")
    real_world.call("task_claim", me, task_id=attached["In progress"])
    for name in ("Queued", "Another's", "Paused by the user"):
        real_world.call("task_claim", other, task_id=attached[name], role="tester")
    real_world.call("task_reset", PERSON, task_id=attached["Queued"])
    real_world.call("task_update", PERSON, task_id=attached["Paused by the user"], status="paused")
    real_world.call("task_update", PERSON, task_id=attached["Done"], status="completed")

    with caplog.at_level(logging.WARNING):
        answer = real_world.call("task_handoff", me, task_id=main, to="user")

    assert [r.message for r in caplog.records if "[Attached" in r.message] == [
        f"[Attached Task Update] taskId={attached[name]} from={state} to=review"
        for name, state in (
            *(("Backlog", "backlog"), ("Queued", "queued")),
            ("In progress", "running"),
        )
    ]
    along = {attached[name] for name in ("Backlog", "Queued", "In progress")}
    assert set(answer["attached"]) == along
    stay = [attached[name] for name in ("Another's", "Paused by the user", "Done")]
    assert f"; {', '.join(stay)} stayed. " in answer["message"]
    for task in (main, *along):
        assert real_world.store.read_task(task).run.state is RunState.REVIEW
    others = real_world.store.read_task(attached["Another's"]).run
    assert (others.state, others.owner.process) == (RunState.RUNNING, "2:1")
    blocked = real_world.store.read_task(attached["Paused by the user"]).run
    assert blocked.state is RunState.BLOCKED
    assert real_world.task(attached["Done"]).status is TaskStatus.COMPLETED


def test_task_the_user_sends_back_is_redone_and_reviewed_again(real_world: World) -> None:
    task = real_world.register(plan=["Write the report"])
    me, next_ = worker("1"), worker("2")
    real_world.call("task_claim", me, task_id=task, role="writer")
    real_world.call("task_update", me, task_id=task, completed_steps=[1])
    real_world.call("task_handoff", me, task_id=task, to="user", note="Please read.")
    said = {"message": "Please fix section 2.", "status": "active"}
    real_world.call("task_update", PERSON, task_id=task, **said)

    claimed = real_world.call("task_claim", next_, task_id=task, role="writer")
    assert claimed["user_said"] == ["Please fix section 2."]
    # Whoever takes it up after a crash hears the same, until it is handed on.
    real_world.call("task_update", next_, task_id=task, reopened_steps=[1])
    real_world.call("task_reset", PERSON, task_id=task)
    again = real_world.call("task_claim", me, task_id=task, role="writer")
    assert again["user_said"] == claimed["user_said"]
    assert again["message"].endswith('Next: step 1, "Write the report".')
    real_world.call("task_update", me, task_id=task, completed_steps=[1])
    real_world.call("task_handoff", me, task_id=task, to="user", note="Fixed.")
    real_world.call("task_update", PERSON, task_id=task, status="active")
    silent = real_world.call("task_claim", me, task_id=task, role="writer")
    assert "user_said" not in silent
    assert "without a word of theirs" in silent["message"]


def test_manual_reset_only_of_what_runs_by_whom_it_is_allowed(
    real_world: World, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    task = real_world.register()
    with pytest.raises(RunNotReady, match="only what runs can be reset"):
        real_world.call("task_reset", PERSON, task_id=task)
    real_world.call("task_claim", worker("1"), task_id=task, role="builder")
    with pytest.raises(NotAllowed, match="held by builder"):
        real_world.call("task_reset", worker("2"), task_id=task)
    with caplog.at_level(logging.WARNING):
        answer = real_world.call("task_reset", PERSON, task_id=task)
    assert answer["success"] is True
    assert answer["previous_assignee"]["role"] == "builder"
    assert any(
        "[Manual Reset]" in r.message and "previously held by builder" in r.message
        for r in caplog.records
    )
    with pytest.raises(RunNotReady, match="is queued already"):
        real_world.call("task_reset", PERSON, task_id=task)
    # Whoever held it before can write for it no more.
    real_world.call("task_claim", worker("2"), task_id=task, role="builder")
    with pytest.raises(RunHeld, match="is held by builder"):
        real_world.call("task_update", worker("1"), task_id=task, status="completed")


def test_two_claimers_never_get_the_same_run(real_world: World) -> None:
    task = real_world.register()
    real_world.call("task_claim", worker("1"), task_id=task, role="builder")
    with pytest.raises(RunHeld, match="is held by builder"):
        real_world.call("task_claim", worker("2"), task_id=task, role="builder")
