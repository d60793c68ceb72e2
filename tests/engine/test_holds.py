"""Sessions that are left alone: nothing goes to them, and nobody looks in vain."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from openclaw_taskmem.domain.wakes.outbox import Hold
from openclaw_taskmem.engine import wakes
from taskmem_hookspecs import Change, WakeCause
from taskmem_hookspecs.testing import a_task, a_wake
from tests.support.world import World

THRESHOLD = 300
HORIZON = timedelta(seconds=60)


def hold_sessions(**sessions: datetime | None) -> wakes.Holds:
    """Hold these sessions, each until an instant or for as long as it takes."""

    def hold(session_key: str | None) -> Hold | None:
        if session_key not in sessions:
            return None
        return Hold(why="a turn runs", until=sessions[session_key])

    return hold


@pytest.fixture
def stuck_world(world: World) -> World:
    """A world in which the sessions a, b and c are owed a wake."""
    for session in ("a", "b", "c"):
        world.register(session, session_key=session)
    world.clock.tick(THRESHOLD)
    world.sweep()
    return world


def next_due(world: World, holds: wakes.Holds = wakes.hold_nothing) -> datetime | None:
    return wakes.find_next_due(world.context, holds, HORIZON)


def test_held_session_gets_no_wake_until_it_is_free(stuck_world: World) -> None:
    before = stuck_world.wakes()
    first = wakes.claim_deliveries(stuck_world.context, hold_sessions(a=None, b=None, c=None))
    assert first == []
    assert stuck_world.wakes() == before

    second = wakes.claim_deliveries(stuck_world.context, hold_sessions(b=None))
    assert [d.message.session_key for d in second] == ["a", "c"]
    third = wakes.claim_deliveries(stuck_world.context)
    assert [d.message.session_key for d in third] == ["b"]


def test_a_session_that_is_held_takes_no_room_from_the_others(stuck_world: World) -> None:
    claimed = wakes.claim_deliveries(stuck_world.context, hold_sessions(a=None), ["x", "y"])

    assert [d.message.session_key for d in claimed] == ["b", "c"]


def test_one_agents_sessions_leave_a_place_to_others(world: World) -> None:
    for session in ("agent:a:1", "agent:a:2", "agent:a:3", "agent:a:4", "agent:b:1"):
        world.register(session, session_key=session)
    world.clock.tick(THRESHOLD)
    world.sweep()

    claimed = wakes.claim_deliveries(world.context, on_the_way=["agent:a:0"])

    sessions = [delivery.message.session_key for delivery in claimed]
    assert sessions == ["agent:a:1", "agent:a:2", "agent:b:1"]


def test_however_many_are_held_the_others_go_out(
    stuck_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakes, "BATCH", 1)
    held = hold_sessions(a=None, b=None)

    assert next_due(stuck_world, held) == stuck_world.clock.now()
    (delivery,) = wakes.claim_deliveries(stuck_world.context, held)
    assert delivery.message.session_key == "c"
    assert wakes.claim_deliveries(stuck_world.context, held) == []


def test_what_is_due_and_free_is_due_now(stuck_world: World) -> None:
    assert next_due(stuck_world, hold_sessions(a=None)) == stuck_world.clock.now()


def test_for_what_is_held_until_it_is_said_nobody_looks(stuck_world: World) -> None:
    assert next_due(stuck_world, hold_sessions(a=None, b=None, c=None)) is None


def test_a_hold_that_ends_by_itself_is_looked_at_when_it_ends(stuck_world: World) -> None:
    soon, later = (stuck_world.clock.now() + timedelta(seconds=s) for s in (12, 30))

    assert next_due(stuck_world, hold_sessions(a=None, b=later, c=soon)) == soon


def test_what_is_held_does_not_hide_what_is_due_next(stuck_world: World) -> None:
    wakes.claim_deliveries(stuck_world.context, hold_sessions(a=None, b=None))
    (leased,) = [wake for wake in stuck_world.wakes() if wake.session_key == "c"]
    assert leased.due_at is not None
    stuck_world.clock.tick((leased.due_at - stuck_world.clock.now()).total_seconds() - 10)

    assert next_due(stuck_world, hold_sessions(a=None, b=None)) == leased.due_at


def test_before_anything_is_due_the_first_due_is_the_answer(world: World) -> None:
    assert next_due(world) is None
    world.register()
    world.clock.tick(THRESHOLD)
    world.sweep()
    world.claim()
    (leased,) = world.wakes()

    assert next_due(world, hold_sessions()) == leased.due_at
    assert leased.due_at is not None
    assert leased.due_at > world.clock.now() + HORIZON


def test_a_message_has_one_line_for_people_which_is_not_stored(world: World) -> None:
    task = world.register("Deploy", session_key="a")
    world.end_wait(world.open_wait(task))

    (delivery,) = wakes.claim_deliveries(world.context)

    line = "Deploy: Build finished after 0 s."
    assert delivery.message.line == line
    assert [wake.line for wake in world.wakes()] == [None]


@pytest.mark.parametrize(
    "owed",
    [
        (("task_1", None), ("task_1", "openclaw:desk"), ("task_2", "openclaw:laptop")),
        (("task_1", None), ("task_2", None)),
    ],
    ids=["one unnamed", "all unnamed"],
)
def test_each_gateways_session_gets_one_message_at_a_time(
    world: World, owed: tuple[tuple[str, str | None], ...]
) -> None:
    """A wake that names no gateway goes with those of its task's, if there are two."""
    desk, laptop = "openclaw:desk", "openclaw:laptop"
    tasks = (
        a_task(session_key="a", host=desk),
        a_task(task_id="task_2", session_key="a", host=laptop),
    )
    unsent = [
        a_wake(
            wake_id=f"wake_{number}",
            host=host,
            session_key="a",
            task_id=task_id,
            cause=WakeCause.RUN,
        )
        for number, (task_id, host) in enumerate(owed)
    ]
    world.context.commit(Change(tasks=tasks, wakes=tuple(unsent)))

    claimed = wakes.claim_deliveries(world.context)

    assert [d.message.host for d in claimed] == [desk, laptop]
