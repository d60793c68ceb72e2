from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.gateway import (
    LONGEST_TURN,
    SETTLES,
    Presence,
    hold,
    open_task,
)
from taskmem_hookspecs import Task, TaskStatus
from taskmem_hookspecs.testing import a_task
from taskmem_hookspecs.testing.clock import DAWN

MAIN, OTHER = "agent:main:main", "agent:main:other"
SETTLED = DAWN + SETTLES
MILLI = timedelta(milliseconds=1)


def a_gateway(*running: str, started_at: datetime = DAWN) -> Presence:
    return Presence(
        boot="boot_1",
        transport="openclaw-plugin",
        version="1",
        started_at=started_at,
        main_session=MAIN,
    ).runs(running, started_at)


# --- who is held ------------------------------------------------------------


def test_a_gateway_that_has_just_started_is_left_to_its_own_recovery() -> None:
    early = hold([a_gateway()], OTHER, SETTLED - MILLI)

    assert early is not None
    assert "just started" in early.why
    assert early.until == SETTLED
    assert hold([a_gateway()], OTHER, SETTLED) is None


def test_a_session_is_held_while_a_turn_of_it_runs_but_not_for_ever() -> None:
    held = hold([a_gateway(OTHER)], OTHER, SETTLED)

    assert held is not None
    assert "a turn of the session is running" in held.why
    assert held.until == DAWN + LONGEST_TURN
    assert hold([a_gateway(OTHER)], OTHER, DAWN + LONGEST_TURN) is None


def test_a_turn_that_goes_on_is_as_old_as_it_was() -> None:
    later = DAWN + SETTLES
    gateway = a_gateway(OTHER).runs([MAIN, OTHER], later)

    assert gateway.running == {MAIN: later, OTHER: DAWN}
    assert gateway.runs([MAIN], later).running == {MAIN: later}


@pytest.mark.parametrize("running", [[], [OTHER]], ids=["started", "running"])
def test_a_clock_that_is_set_back_holds_nobody(running: list[str]) -> None:
    assert hold([a_gateway(*running)], OTHER, DAWN - timedelta(hours=1)) is None


def test_a_turn_of_one_session_holds_no_other() -> None:
    assert hold([a_gateway(OTHER)], MAIN, SETTLED) is None
    assert hold([a_gateway(OTHER)], None, SETTLED) is None


def test_a_wake_that_names_no_session_is_held_by_a_turn_of_the_main_one() -> None:
    assert hold([a_gateway(MAIN)], None, SETTLED) is not None


@pytest.mark.parametrize("session_key", [None, MAIN])
def test_where_no_gateway_is_known_nobody_is_held(session_key: str | None) -> None:
    assert hold([], session_key, DAWN) is None


def test_one_gateway_that_holds_is_enough() -> None:
    free = a_gateway()

    assert hold([free, a_gateway(OTHER)], OTHER, SETTLED) is not None
    late = a_gateway(started_at=SETTLED)
    assert hold([free, late], OTHER, SETTLED) is not None


# --- what an agent is reminded of -------------------------------------------


def at(minutes: float) -> datetime:
    return DAWN + timedelta(minutes=minutes)


def task(number: int, minutes: float, **changes: object) -> Task:
    fresh = {"task_id": f"task_{number}", "session_key": MAIN}
    return a_task(**(fresh | {"updated_at": at(minutes)} | changes))


def test_of_the_sessions_open_tasks_it_is_the_one_that_moved_last() -> None:
    tasks = [task(1, 1), task(2, 3), task(3, 2)]

    found = open_task(tasks, MAIN, None)

    assert found is not None
    assert found.task_id == "task_2"


@pytest.mark.parametrize("status", [s for s in TaskStatus if s != "active"])
def test_a_task_that_rests_or_has_ended_is_nothing_to_be_reminded_of(
    status: TaskStatus,
) -> None:
    tasks = [task(1, 1), task(2, 3, status=status)]

    found = open_task(tasks, MAIN, None)

    assert found is not None
    assert found.task_id == "task_1"


@pytest.mark.parametrize("session_key", [None, OTHER])
def test_nobody_is_reminded_of_another_sessions_task(session_key: str | None) -> None:
    assert open_task([task(1, 1, session_key=session_key)], MAIN, None) is None


def test_a_task_that_was_reported_on_since_is_no_news_unless_it_is_asked_for() -> None:
    tasks = [task(1, 5)]

    assert open_task(tasks, MAIN, at(5) - MILLI) is None
    assert open_task(tasks, MAIN, at(5)) == tasks[0]
    assert open_task(tasks, MAIN, None) == tasks[0]


def test_one_who_has_just_reported_on_a_task_has_not_forgotten_an_older_one() -> None:
    assert open_task([task(1, 1), task(2, 5)], MAIN, at(3)) is None


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9))),
    st.none() | st.integers(0, 9),
    st.randoms(),
)
def test_the_order_of_the_tasks_does_not_matter(
    drawn: list[tuple[int, int]], since: int | None, random: Random
) -> None:
    tasks = [task(number, minutes) for number, minutes in drawn]
    shuffled = random.sample(tasks, len(tasks))
    instant = None if since is None else at(since)

    assert open_task(tasks, MAIN, instant) == open_task(shuffled, MAIN, instant)
