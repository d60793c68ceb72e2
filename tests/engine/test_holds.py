"""Sessions that are left alone: nothing goes to them, and nobody looks in vain."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from openclaw_taskmem.domain.gateway import Hold
from openclaw_taskmem.engine import wakes
from tests.support.world import World

THRESHOLD = 300
HORIZON = timedelta(seconds=60)


def holding(**sessions: datetime | None) -> wakes.Holds:
    """Hold these sessions, each until an instant or for as long as it takes."""

    def hold(session_key: str | None) -> Hold | None:
        if session_key not in sessions:
            return None
        return Hold(why="a turn runs", until=sessions[session_key])

    return hold


@pytest.fixture
def stuck(world: World) -> World:
    """A world in which the sessions a, b and c are owed a wake."""
    for session in ("a", "b", "c"):
        world.register(session, session_key=session)
    world.clock.tick(THRESHOLD)
    world.sweep()
    return world


def next_due(world: World, holds: wakes.Holds = wakes.never) -> datetime | None:
    return wakes.next_due(world.shell, holds, HORIZON)


def test_nothing_goes_to_a_session_that_is_held_and_all_goes_once_it_is_free(
    stuck: World,
) -> None:
    before = stuck.wakes()
    first = wakes.claim(stuck.shell, holding(a=None, b=None, c=None))
    assert first == []
    assert stuck.wakes() == before

    second = wakes.claim(stuck.shell, holding(b=None))
    assert [d.message.session_key for d in second] == ["a", "c"]
    third = wakes.claim(stuck.shell)
    assert [d.message.session_key for d in third] == ["b"]


def test_a_session_that_is_held_takes_no_room_from_the_others(stuck: World) -> None:
    claimed = wakes.claim(stuck.shell, holding(a=None), ["x", "y"])

    assert [d.message.session_key for d in claimed] == ["b", "c"]


def test_one_agents_sessions_leave_a_place_to_others(world: World) -> None:
    for session in ("agent:a:1", "agent:a:2", "agent:a:3", "agent:a:4", "agent:b:1"):
        world.register(session, session_key=session)
    world.clock.tick(THRESHOLD)
    world.sweep()

    claimed = wakes.claim(world.shell, on_the_way=["agent:a:0"])

    sessions = [delivery.message.session_key for delivery in claimed]
    assert sessions == ["agent:a:1", "agent:a:2", "agent:b:1"]


def test_however_many_are_held_the_others_go_out(
    stuck: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakes, "BATCH", 1)
    held = holding(a=None, b=None)

    assert next_due(stuck, held) == stuck.clock.now()
    (delivery,) = wakes.claim(stuck.shell, held)
    assert delivery.message.session_key == "c"
    assert wakes.claim(stuck.shell, held) == []


def test_what_is_due_and_free_is_due_now(stuck: World) -> None:
    assert next_due(stuck, holding(a=None)) == stuck.clock.now()


def test_for_what_is_held_until_it_is_said_nobody_looks(stuck: World) -> None:
    assert next_due(stuck, holding(a=None, b=None, c=None)) is None


def test_a_hold_that_ends_by_itself_is_looked_at_when_it_ends(stuck: World) -> None:
    soon, later = (stuck.clock.now() + timedelta(seconds=s) for s in (12, 30))

    assert next_due(stuck, holding(a=None, b=later, c=soon)) == soon


def test_what_is_held_does_not_hide_what_is_due_next(stuck: World) -> None:
    wakes.claim(stuck.shell, holding(a=None, b=None))
    (leased,) = [wake for wake in stuck.wakes() if wake.session_key == "c"]
    assert leased.due_at is not None
    stuck.clock.tick((leased.due_at - stuck.clock.now()).total_seconds() - 10)

    assert next_due(stuck, holding(a=None, b=None)) == leased.due_at


def test_before_anything_is_due_the_first_due_is_the_answer(world: World) -> None:
    assert next_due(world) is None
    world.register()
    world.clock.tick(THRESHOLD)
    world.sweep()
    world.claim()
    (leased,) = world.wakes()

    assert next_due(world, holding()) == leased.due_at
    assert leased.due_at is not None
    assert leased.due_at > world.clock.now() + HORIZON


def test_a_message_has_one_line_for_people_which_is_not_stored(world: World) -> None:
    task = world.register("Deploy", session_key="a")
    world.end_wait(world.open_wait(task))

    (delivery,) = wakes.claim(world.shell)

    line = "build: Build finished after 0 s; on to step 1 of 4."
    assert delivery.message.line == line
    assert [wake.line for wake in world.wakes()] == [None]
