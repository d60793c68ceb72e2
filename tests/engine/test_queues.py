"""What is queued for a role: by whom, for whom, and what becomes of it unclaimed."""

from typing import Any

import pytest

from openclaw_taskmem.engine import gateway, say
from openclaw_taskmem.engine.say import Outgoing
from taskmem_hookspecs import InvalidArguments, RunState
from taskmem_hookspecs.errors import RunHeld
from tests.support.sessions import MAIN, Session
from tests.support.world import PLAN, World, worker

THRESHOLD = 300.0


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def session(world: World) -> Session:
    return Session(world)


def queue(world: World, role: str = "writer", **given: Any) -> str:
    """Register a task for a role, from a host without a gateway; its id."""
    return world.register("Write report", role=role, **given)


def told_lines(world: World) -> list[str]:
    """What notices say so far."""
    events, _ = say.due(world.shell, Outgoing.LINES, 0)
    return [str(event.data["line"]) for event in events if event.kind == "notice"]


# --- registering for a role ---------------------------------------------------------


def test_what_is_registered_for_a_role_is_queued_for_it(world: World) -> None:
    answer = world.call(
        "task_register", worker("1"), name="Write report", plan=PLAN, role=" Writer "
    )

    [run] = world.store.list_runs(None, answer["task_id"], 10)
    assert (run.state, run.role, run.session_key, run.owner) == (
        *(RunState.QUEUED, "writer", None, None),
    )
    assert answer["queued_for"] == "writer"
    assert answer["message"] == (
        "Registered with 4 steps. It is queued for writer, and whoever claims it with "
        "task_claim gets it. Do not work on it yourself."
    )


def test_whoever_claims_for_the_role_gets_it_and_no_other(world: World) -> None:
    task = queue(world, metadata={"attached_task_ids": ["task_9"]})

    with pytest.raises(RunHeld, match="is for the role writer, and not for tester"):
        world.call("task_claim", worker("1"), task_id=task, role="tester")
    claimed = world.call("task_claim", worker("2"), role="writer")

    assert claimed["task_id"] == task
    [run] = world.store.list_runs(None, task, 10)
    assert (run.state, run.attached) == (RunState.RUNNING, ("task_9",))


def test_a_gateways_agent_does_not_hold_what_it_registers_for_a_role(
    session: Session,
) -> None:
    world = session.world
    session.begins()

    task = session.register(role="writer", segmented=True)

    run = session.run(task)
    assert (run.state, run.role, run.session_key) == (RunState.QUEUED, "writer", None)
    assert run.segmented
    assert gateway.reminder(world.shell, MAIN) is None
    with pytest.raises(RunHeld, match="is queued for the role writer"):
        session.call("task_update", task_id=task, completed_steps=[1])


def test_what_is_registered_for_a_role_does_not_take_the_turns_own_task(
    session: Session,
) -> None:
    session.request = "Write the report"
    session.begins()
    for number in range(3):
        session.does(f"echo {number}")
    [covering] = session.world.store.list_tasks(None, 10, implicit=True)

    task = session.register(role="writer")

    assert task != covering.task_id
    assert session.world.task(covering.task_id).implicit


def test_what_is_registered_for_a_role_and_lies_is_told_as_handed_to_it(
    world: World,
) -> None:
    queue(world)

    assert world.pass_time(THRESHOLD) == []

    [line] = told_lines(world)
    assert line == (
        "Write report is queued for writer, and nobody has claimed it for 5 minutes. "
        "Start an agent of that role, or hand it to another."
    )


@pytest.mark.parametrize("tool", ["task_register", "task_claim"])
@pytest.mark.parametrize("role", ["", "the writer", "r" * 65, "writer\u200b"])
def test_what_is_no_role_is_refused(world: World, tool: str, role: str) -> None:
    given = {"name": "Write", "plan": PLAN} if tool == "task_register" else {}

    with pytest.raises(InvalidArguments, match="a role has 1 to 64 of a-z 0-9 _ -"):
        world.call(tool, worker("1"), role=role, **given)

    assert not world.store.list_tasks(None, 10)


def test_nothing_is_registered_for_the_user(world: World) -> None:
    with pytest.raises(InvalidArguments, match="hand a task to them with task_handoff"):
        queue(world, "user")
