"""A session gets no more turns than its budget, and its user is told of it calmly."""

from __future__ import annotations

import itertools

from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.policies import OutboxPolicy
from tests.support.sessions import Session
from tests.support.world import World

POLICY = OutboxPolicy()


CALLS = itertools.count()


def work_fast(session: Session, turns: int) -> int:
    """Work in turns of no time, each with progress; return how many of ours began."""
    begun = 0
    for _ in range(turns):
        session.does(f"call {next(CALLS)}")
        session.ends("At it.")
        if not session.world.deliver():
            return begun
        begun += 1
        session.begins(Origin.TASKMEM)
    return begun


def test_a_session_gets_six_turns_a_minute_and_goes_on_then() -> None:
    session = Session(World())
    session.takes_up()
    assert work_fast(session, 20) == POLICY.turns_per_minute
    held = [line for line in session.lines if "as many turns as are begun" in line]
    assert len(held) == 1
    assert held[0].startswith("Deploy: goes on at ")

    session.world.clock.tick(60)
    assert len(session.world.deliver()) == 1
    session.begins(Origin.TASKMEM)
    assert work_fast(session, 20) == POLICY.turns_per_minute - 1
    assert [line for line in session.lines if "as many turns as are begun" in line] == held


def test_a_session_gets_sixty_turns_an_hour() -> None:
    session = Session(World())
    session.takes_up()
    begun, seconds = work_fast(session, 20), 0
    while seconds < 3_590:
        session.world.clock.tick(10)
        seconds += 10
        if session.world.deliver():
            session.begins(Origin.TASKMEM)
            begun += 1 + work_fast(session, 20)
    assert begun == POLICY.turns_per_hour
    session.world.clock.tick(10)
    assert session.world.deliver(), "what waited comes later"
