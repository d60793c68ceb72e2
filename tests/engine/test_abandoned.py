"""What is held by a process that has ended: who has it then, and what they are told."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.errors import Fenced, RunHeld
from openclaw_taskmem.engine import run_recovery
from taskmem_hookspecs import Change, Owner, Run, RunQuery, RunState
from taskmem_hookspecs.errors import NotAllowed, RunNotFound
from taskmem_hookspecs.testing import a_run, a_task
from tests.support.world import PERSON, World, worker

ENDED = worker("1")
AGAIN = worker("2")
BUILDER = {"role": "builder"}


@pytest.fixture
def world() -> World:
    """A world in which worker 1 has ended."""
    return World(is_alive=lambda process: process != "1:1")


def hold(world: World, by: Caller = ENDED, **given: str) -> str:
    """Return a task that a builder holds."""
    task = world.register()
    world.call("task_claim", by, task_id=task, **{**BUILDER, **given})
    return task


def run_of(world: World, task: str) -> Run:
    return world.store.find_runs(RunQuery(task_id=task, limit=1))[0]


# --- claims -------------------------------------------------------------------


def test_a_role_that_comes_back_claims_what_its_process_held(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    task = hold(world)
    run = run_of(world, task)

    answer = world.call("task_claim", AGAIN, **BUILDER)

    assert (answer["task_id"], answer["token"]) == (task, run.token + 1)
    [line] = caplog.messages
    assert line == (
        f"[State Recovery] task={task} run={run.run_id} role=builder "
        "action=reset_to_queued why=owner_gone"
    )


def test_what_an_ended_process_held_comes_before_all_else(world: World) -> None:
    for _ in range(5):
        task = hold(world, AGAIN)
        world.call("task_handoff", AGAIN, task_id=task, to="builder")
    task = hold(world)

    assert world.call("task_claim", AGAIN, **BUILDER)["task_id"] == task


def test_what_is_left_again_and_again_comes_no_longer_first(world: World) -> None:
    other = hold(world, AGAIN)
    world.call("task_handoff", AGAIN, task_id=other, to="builder")
    hold(world)
    claimed = set[str]()
    for _ in range(40):
        answer = world.call("task_claim", ENDED, **BUILDER)
        claimed.add(answer["task_id"])
        if answer["task_id"] == other:
            break

    assert other in claimed


def test_a_resume_that_is_refused_takes_a_run_from_nobody(world: World) -> None:
    task = hold(world)
    world.context = replace(world.context, is_alive=lambda _: None)

    with pytest.raises(RunHeld, match="is held by builder, so you may not take it up"):
        world.call("task_resume", AGAIN, task_id=task)

    assert run_of(world, task).state is RunState.RUNNING


def test_by_the_queue_a_role_has_only_what_was_held_as_that_role(world: World) -> None:
    task = hold(world, role="tester")

    with pytest.raises(RunNotFound):
        world.call("task_claim", AGAIN, **BUILDER)

    assert run_of(world, task).state is RunState.RUNNING


def test_by_its_id_it_is_claimed_by_whoever_may_claim_it(world: World) -> None:
    task = hold(world, role="tester")

    answer = world.call("task_claim", AGAIN, task_id=task, **BUILDER)

    assert answer["task_id"] == task


@pytest.mark.parametrize("lives", [True, None])
@pytest.mark.parametrize("named", [True, False])
def test_what_a_process_holds_is_kept_until_it_has_surely_ended(
    world: World, lives: bool | None, named: bool
) -> None:
    world.context = replace(world.context, is_alive=lambda _: lives)
    task = hold(world)

    with pytest.raises((RunHeld, RunNotFound)):
        world.call("task_claim", AGAIN, task_id=task if named else None, **BUILDER)


def test_what_a_gateways_agent_holds_has_its_own_recovery(world: World) -> None:
    owner = Owner(role="main", session_key="agent:main:main", boot="b", process="1:1")
    run = a_run(state=RunState.RUNNING, owner=owner, session_key=owner.session_key)
    world.store.commit(Change(tasks=(a_task(),), runs=(run,)))

    with pytest.raises(RunHeld):
        world.call("task_claim", AGAIN, task_id=run.task_id)
    with pytest.raises(NotAllowed):
        world.call("task_reset", AGAIN, task_id=run.task_id)


def test_unasked_a_gateways_session_keeps_its_run_for_the_lease(world: World) -> None:
    owner = Owner(role="agent", process="1:1")
    run = a_run(state=RunState.RUNNING, owner=owner, session_key="agent:main:main")
    world.store.commit(Change(tasks=(a_task(),), runs=(run,)))

    assert run_recovery.requeue_abandoned(world.context) == 0
    assert world.call("task_claim", AGAIN, task_id=run.task_id)


# --- what who claims it is told -----------------------------------------------


def read_claim(world: World, task: str) -> str:
    return str(world.call("task_claim", AGAIN, task_id=task)["message"])


def test_who_claims_it_is_told_the_last_note(world: World) -> None:
    task = hold(world)
    world.call("task_update", ENDED, task_id=task, message="Built,\nnot pushed.")

    assert (
        'The process that held it before has ended; the last note is "Built, not '
        'pushed.", and task_update with a query tells more. Next: step 1'
    ) in read_claim(world, task)


def test_the_last_note_keeps_the_steps_that_it_meant(world: World) -> None:
    task = hold(world)
    world.call("task_update", ENDED, task_id=task, message="Stuck in step 2")
    new = ["Build the image", "Log in", "Push it"]
    world.call("task_plan_update", ENDED, task_id=task, new_plan=new, reason="Denied")

    assert '"Stuck in step 2" (step 2 was "Push it", now step 3)' in read_claim(world, task)


def test_who_claims_it_is_told_that_there_is_no_note(world: World) -> None:
    assert (
        "The process that held it before has ended, and left no note, so look what is "
        "done before you go on. Next: step 1"
    ) in read_claim(world, hold(world))


def test_who_claims_what_outlived_its_lease_is_told_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    task = hold(world, worker("3"))
    world.context = replace(world.context, is_alive=lambda _: None)
    world.clock.tick(world.context.policies.runs.lease_seconds)
    run_recovery.sweep_lapsed_runs(world.context, ())

    assert "Whoever held it before was not seen within its lease, and" in read_claim(world, task)


def test_who_claims_what_nobody_left_is_told_of_nobody(world: World) -> None:
    task = hold(world)
    world.call("task_reset", PERSON, task_id=task)

    assert "held it before" not in read_claim(world, task)


# --- others -------------------------------------------------------------------


def test_another_resets_what_an_ended_process_holds(world: World) -> None:
    task = hold(world)

    answer = world.call("task_reset", AGAIN, task_id=task)

    assert answer["previous_assignee"]["process"] == "1:1"
    assert run_of(world, task).state is RunState.QUEUED


def test_another_takes_up_what_an_ended_process_holds(world: World) -> None:
    task = hold(world)

    answer = world.call("task_resume", AGAIN, task_id=task)

    assert answer["message"] == "It is yours again; go on as the packet says."
    assert run_of(world, task).owner == AGAIN.owner


def test_an_agent_whose_relay_was_started_anew_is_told_to_claim(world: World) -> None:
    task = hold(world)
    token = run_of(world, task).token
    run_recovery.requeue_abandoned(world.context, process="1:1")
    late = {"task_id": task, "message": "Pushed.", "token": token}

    with pytest.raises(Fenced, match="nobody holds it by now: claim it with task_claim"):
        world.call("task_update", AGAIN, **late)

    late["token"] = world.call("task_claim", AGAIN, task_id=task)["token"]
    assert world.call("task_update", AGAIN, **late)["acknowledged"]
