"""Tasks that block others: no circle is stored, and none is forgotten when one ends."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given as with_given
from hypothesis import strategies as st

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.wakes.notices import WakeFacts, describe_wake
from openclaw_taskmem.domain.wakes.packet import suggest_action
from openclaw_taskmem.engine import tasks
from openclaw_taskmem.engine.overview import list_lines, read_line
from openclaw_taskmem.engine.runs import find_claimable
from taskmem_hookspecs import (
    Change,
    InvalidArguments,
    NotAllowed,
    Owner,
    StuckVerdict,
    TaskNotFound,
    WakeCause,
    WakeState,
)
from taskmem_hookspecs.errors import RunNotFound
from taskmem_hookspecs.packet import ResumeFacts
from tests.support.sessions import Session
from tests.support.world import World, worker

SESSION = "agent:main:main"


def register(world: World, name: str, *blockers: str, **given: object) -> str:
    """Register a task of a session that is blocked by others; its id."""
    return world.register(name, session_key=SESSION, blocked_by=[*blockers], **given)


def end(world: World, task: str, status: str = "completed", message: str = "It is over.") -> None:
    marks = [1, 2, 3, 4] if status == "completed" else []
    given = {"status": status, "message": message, "completed_steps": marks}
    world.call("task_update", task_id=task, **given)


def block(world: World, task: str, *blockers: str) -> dict[str, object]:
    plan = world.store.read_task(task).task.plan
    given = {"new_plan": [*plan], "reason": "It depends.", "blocked_by": [*blockers]}
    return world.call("task_plan_update", task_id=task, **given)


def list_blockers(world: World, task: str) -> tuple[str, ...]:
    return world.store.read_task(task).task.blocked_by


def list_texts(world: World) -> list[str]:
    """The texts of the wakes of tasks that became ready."""
    return [wake.text for wake in world.wakes() if wake.key.startswith("ready:")]


def test_the_end_of_the_last_blocker_wakes_its_agent_once(world: World) -> None:
    build, test = register(world, "Build"), register(world, "Test")
    deploy = register(world, "Deploy", build, test)
    assert list_blockers(world, deploy) == (build, test)

    end(world, build)
    assert list_texts(world) == []
    end(world, test)

    [text] = list_texts(world)
    assert text == (
        f'[system] "Test" ({test}) has completed; nothing blocks "Deploy" any more. Go on with '
        f'step 1, "Build the image"; report with task_update, task_id "{deploy}".'
    )
    assert list_blockers(world, deploy) == ()
    entries = [words for _, _, words in world.thread(deploy)][-2:]
    assert entries == [
        f'"Build" ({build}) has completed; 1 task still blocks "Deploy".',
        f'"Test" ({test}) has completed; nothing blocks "Deploy" any more.',
    ]


@pytest.mark.parametrize(("status", "how"), [("failed", "has failed"), ("cancelled", "was")])
def test_a_blocker_that_does_not_complete_asks_at_once(world: World, status: str, how: str) -> None:
    build, test = register(world, "Build"), register(world, "Test")
    deploy = register(world, "Deploy", build, test)

    end(world, build, status, "The disk is full.")

    [text] = list_texts(world)
    assert text.startswith(f'[system] "Build" ({build}) {how}')
    assert '"The disk is full."; 1 task still blocks "Deploy". It should have come first' in text
    assert list_blockers(world, deploy) == (test,)


def test_what_has_ended_already_blocks_nothing(world: World) -> None:
    build = register(world, "Build")
    end(world, build, "failed")

    answer = world.call(
        "task_register", name="Deploy", plan=["Push"], session_key=SESSION, blocked_by=[build]
    )

    assert "blocked_by" not in answer
    assert f'"Build" ({build}) has failed already.' in answer["message"]


def test_a_circle_is_refused_with_its_path(world: World) -> None:
    one, two, three = (register(world, name) for name in ("One", "Two", "Three"))
    block(world, two, one)
    block(world, three, two)

    with pytest.raises(InvalidArguments, match=f"{one} -> {three} -> {two} -> {one}"):
        block(world, one, three)
    with pytest.raises(InvalidArguments, match=f"{one} -> {one}"):
        block(world, one, one)

    assert list_blockers(world, one) == ()


def test_the_agent_is_told_what_blocks_its_task(world: World) -> None:
    build = register(world, "Build")

    answer = world.call(
        "task_register", name="Deploy", plan=["Push"], session_key=SESSION, blocked_by="build"
    )

    assert answer["blocked_by"] == [build]
    assert "It waits for 1 task: leave it; you are woken when nothing" in answer["message"]
    noted = world.narrate(answer["task_id"])
    assert f"It is blocked by {build}: leave it until you are woken" in noted["message"]


def test_a_plan_update_replaces_what_blocks(world: World) -> None:
    build, test, deploy = (register(world, name) for name in ("Build", "Test", "Deploy"))
    assert block(world, deploy, build)["blocked_by"] == [build]
    assert block(world, deploy, test, test)["blocked_by"] == [test]

    assert "blocked_by" not in block(world, deploy)

    assert list_texts(world) == []
    assert world.thread(deploy)[-1][2].endswith("Blocked by: nothing.")


def test_another_plan_leaves_what_blocks(world: World) -> None:
    build = register(world, "Build")
    deploy = register(world, "Deploy", build)

    world.call("task_plan_update", task_id=deploy, new_plan=["Push"], reason="Shorter.")

    assert list_blockers(world, deploy) == (build,)


def test_ready_are_those_that_nothing_blocks(world: World) -> None:
    build = register(world, "Build")
    deploy = register(world, "Deploy", build)

    def list_ready() -> list[str]:
        listed = world.call("task_list", Caller(person=True), status="ready")
        return [task["task_id"] for task in listed["tasks"]]

    assert list_ready() == [build]
    listed = world.call("task_list", Caller(person=True), status="active")["tasks"]
    assert {task["task_id"]: task.get("blocked_by") for task in listed} == {
        build: None,
        deploy: [build],
    }
    end(world, build)
    assert list_ready() == [deploy]


def test_a_blocked_task_is_not_silent_until_it_is_ready(world: World) -> None:
    build = register(world, "Build")
    deploy = register(world, "Deploy", build)
    assert world.store.read_task(deploy).task.stuck_due_at is None
    world.clock.tick(3600)

    end(world, build)

    task = world.store.read_task(deploy).task
    assert task.updated_at == world.clock.now()
    assert task.stuck_due_at is not None


def test_what_is_queued_is_claimed_once_nothing_blocks_it(world: World) -> None:
    build = register(world, "Build")
    deploy = register(world, "Deploy", build, role="writer")
    assert find_claimable(world.context, "writer") is None
    with pytest.raises(RunNotFound):
        world.call("task_claim", worker("1"), role="writer")

    end(world, build)

    found = find_claimable(world.context, "writer")
    assert found is not None
    assert found.task_id == deploy
    assert list_texts(world) == []  # the queue tells
    assert world.call("task_claim", worker("1"), role="writer")["task_id"] == deploy


def test_a_paused_task_is_released_and_not_woken(world: World) -> None:
    build = register(world, "Build")
    deploy = register(world, "Deploy", build)
    world.call("task_update", task_id=deploy, status="paused")

    end(world, build)

    assert list_blockers(world, deploy) == ()
    assert list_texts(world) == []


def test_a_task_that_ends_is_blocked_by_nothing(world: World) -> None:
    build = register(world, "Build")
    deploy = register(world, "Deploy", build)

    end(world, deploy, "cancelled")
    end(world, build)

    assert list_blockers(world, deploy) == ()
    assert list_texts(world) == []


def test_the_wake_goes_to_the_session_and_is_acknowledged(world: World) -> None:
    build = register(world, "Build")
    deploy = register(world, "Deploy", build)
    end(world, build)
    [wake] = world.wakes()
    assert (wake.session_key, wake.cause, wake.task_id) == (SESSION, WakeCause.WAIT, deploy)
    world.deliver()

    world.narrate(deploy)

    [wake] = world.wakes()
    assert wake.state is WakeState.ACKNOWLEDGED


def test_a_task_is_not_blocked_by_what_its_agent_may_not_read(world: World) -> None:
    theirs = Session(world).works()
    owner = Owner(role="other", session_key="agent:other:main", boot="boot_1")
    stranger = Caller(session_key=owner.session_key, owner=owner)
    given = {"name": "Deploy", "plan": ["Push"], "blocked_by": [theirs]}

    with pytest.raises(NotAllowed, match="so you may not read it"):
        world.call("task_register", stranger, **given)
    with pytest.raises(TaskNotFound):
        world.call("task_register", stranger, **{**given, "blocked_by": ["task_9999"]})


def test_two_homes_release_each_others_tasks(world: World) -> None:
    other = World(world.store, world.clock, home="home_2")
    other._numbers = world._numbers
    build = register(world, "Build")
    deploy = other.register("Deploy", session_key=SESSION)
    person = Caller(person=True)
    plan = {"new_plan": ["Push"], "reason": "It depends.", "blocked_by": [build]}
    other.call("task_plan_update", person, task_id=deploy, **plan)

    end(world, build)

    [wake] = [wake for wake in other.wakes() if wake.key.startswith("ready:")]
    assert (wake.home, wake.task_id) == ("home_2", deploy)


def test_two_updates_at_once_close_no_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    other = World(world.store, world.clock)
    one, two, three = (register(world, name) for name in ("One", "Two", "Three"))
    block(world, three, two)
    read_blockers, first = tasks._read_blockers, [True]

    def read_before_another_writes(*args: object, **given: object) -> object:
        known = read_blockers(*args, **given)
        if first.pop() if first else False:
            block(other, two, one)
        return known

    monkeypatch.setattr(tasks, "_read_blockers", read_before_another_writes)

    with pytest.raises(InvalidArguments, match=f"{one} -> {three} -> {two} -> {one}"):
        block(world, one, three)


def test_a_task_of_a_turn_blocks_nothing(world: World) -> None:
    row = world.task(register(world, "Answer")).model_copy(update={"implicit": True})
    world.store.commit(Change(tasks=(row,)))

    with pytest.raises(InvalidArguments, match="stands for a turn, which no task waits for"):
        register(world, "Deploy", row.task_id)


def test_people_and_packets_are_told_what_blocks_a_task(world: World) -> None:
    build = register(world, "Build")
    deploy = register(world, "Deploy", build)

    assert read_line(world.context, deploy).says == "blocked by “Build”"
    assert [line.task_id for line in list_lines(world.context, 9, ready=True)] == [build]
    facts = ResumeFacts(
        task=world.task(deploy),
        verdict=StuckVerdict(idle_seconds=0, reason="You lost track."),
        wake_id="wake_1",
        now=world.clock.now(),
    )
    assert suggest_action(facts).startswith(f"Leave it until {build} has ended, which blocks it.")
    end(world, build)
    [wake] = world.wakes()
    line = describe_wake(WakeFacts(wake=wake, task=world.task(deploy)))
    assert line.startswith(f'"Build" ({build}) has completed; nothing blocks "Deploy"')


STEPS = st.tuples(
    st.sampled_from(("register", "block", "block", "complete", "cancel", "reopen")),
    st.integers(0, 5),
    st.lists(st.integers(0, 5), max_size=3, unique=True),
)


@with_given(st.lists(STEPS, max_size=25))
def test_no_circle_is_stored_and_ready_is_whom_nothing_blocks(
    steps: Sequence[tuple[str, int, list[int]]],
) -> None:
    world = World()
    names: list[str] = [world.register("First", plan=["a"])]
    blocked: dict[str, set[str]] = {names[0]: set()}
    over: set[str] = set()

    def reaches(start: str, goal: str) -> bool:
        return start == goal or any(reaches(each, goal) for each in blocked[start])

    for deed, number, others in steps:
        task = names[number % len(names)]
        named = [names[other % len(names)] for other in others]
        still = {each for each in named if each not in over}
        if deed == "register":
            made = world.register(f"Task {len(names)}", plan=["a"], blocked_by=named)
            names.append(made)
            blocked[made] = still
        elif deed == "block" and task not in over:
            try:
                block(world, task, *named)
            except InvalidArguments:
                assert any(reaches(each, task) for each in named)
            else:
                assert not any(reaches(each, task) for each in named)
                blocked[task] = still
        elif deed in ("complete", "cancel") and task not in over:
            status = "completed" if deed == "complete" else "cancelled"
            world.call("task_update", task_id=task, status=status, completed_steps=[1])
            over.add(task)
            blocked[task] = set()
            for each in blocked.values():
                each.discard(task)
        elif deed == "reopen" and task in over:
            world.call("task_update", task_id=task, status="active", message="Once more.")
            over.discard(task)
        assert {name: {*list_blockers(world, name)} for name in names} == blocked
        listed = world.call("task_list", Caller(person=True), status="ready", limit=100)["tasks"]
        ready = {name for name in names if name not in over and not blocked[name]}
        assert {row["task_id"] for row in listed} == ready
