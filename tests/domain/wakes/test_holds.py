from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.callers import GatewayPresence
from openclaw_taskmem.domain.changes.continuation import find_open_task
from openclaw_taskmem.domain.wakes.outbox import (
    GATEWAY_RECOVERY_TIME,
    LONGEST_TURN,
    LONGEST_YIELD,
    find_hold,
)
from taskmem_hookspecs import Task, TaskStatus
from taskmem_hookspecs.testing import DAWN, a_task
from tests.support.gateways import MAIN, OTHER

SETTLED = DAWN + GATEWAY_RECOVERY_TIME
MILLI = timedelta(milliseconds=1)


def a_gateway(*running: str, started_at: datetime = DAWN) -> GatewayPresence:
    return GatewayPresence(
        boot="boot_1",
        transport="openclaw-plugin",
        version="1",
        started_at=started_at,
        main_session=MAIN,
    ).with_running(running, started_at)


# --- who is held ------------------------------------------------------------


def test_just_started_gateway_is_left_to_its_own_recovery() -> None:
    early = find_hold([a_gateway()], OTHER, SETTLED - MILLI)

    assert early is not None
    assert "just started" in early.why
    assert early.until == SETTLED
    assert find_hold([a_gateway()], OTHER, SETTLED) is None


def test_running_turn_holds_its_session_but_not_forever() -> None:
    held = find_hold([a_gateway(OTHER)], OTHER, SETTLED)

    assert held is not None
    assert "a turn of the session is running" in held.why
    assert held.until == DAWN + LONGEST_TURN
    assert find_hold([a_gateway(OTHER)], OTHER, DAWN + LONGEST_TURN) is None


def test_a_turn_that_goes_on_is_as_old_as_it_was() -> None:
    later = DAWN + GATEWAY_RECOVERY_TIME
    gateway = a_gateway(OTHER).with_running([MAIN, OTHER], later)

    assert gateway.running == {MAIN: later, OTHER: DAWN}
    assert gateway.with_running([MAIN], later).running == {MAIN: later}


@pytest.mark.parametrize("running", [[], [OTHER]], ids=["started", "running"])
def test_a_clock_that_is_set_back_holds_nobody(running: list[str]) -> None:
    assert find_hold([a_gateway(*running)], OTHER, DAWN - timedelta(hours=1)) is None


def test_a_turn_of_one_session_holds_no_other() -> None:
    assert find_hold([a_gateway(OTHER)], MAIN, SETTLED) is None
    assert find_hold([a_gateway(OTHER)], None, SETTLED) is None


def test_a_turn_of_a_chat_goes_before_its_background_work() -> None:
    held = find_hold([a_gateway(MAIN)], OTHER, SETTLED, chat=MAIN)

    assert held is not None
    assert held.until == DAWN + LONGEST_YIELD
    assert find_hold([a_gateway(MAIN)], OTHER, DAWN + LONGEST_YIELD, chat=MAIN) is None
    assert find_hold([a_gateway()], OTHER, SETTLED, chat=MAIN) is None


def test_turn_of_the_main_session_holds_a_wake_without_session() -> None:
    assert find_hold([a_gateway(MAIN)], None, SETTLED) is not None


@pytest.mark.parametrize("session_key", [None, MAIN])
def test_where_no_gateway_is_known_nobody_is_held(session_key: str | None) -> None:
    assert find_hold([], session_key, DAWN) is None


def test_one_gateway_that_holds_is_enough() -> None:
    free = a_gateway()

    assert find_hold([free, a_gateway(OTHER)], OTHER, SETTLED) is not None
    late = a_gateway(started_at=SETTLED)
    assert find_hold([free, late], OTHER, SETTLED) is not None


# --- what an agent is reminded of -------------------------------------------


def at_minute(minutes: float) -> datetime:
    return DAWN + timedelta(minutes=minutes)


def task(number: int, minutes: float, **changes: object) -> Task:
    fresh = {"task_id": f"task_{number}", "session_key": MAIN}
    return a_task(**(fresh | {"updated_at": at_minute(minutes)} | changes))


def test_open_task_of_a_session_is_the_last_one_that_moved() -> None:
    tasks = [task(1, 1), task(2, 3), task(3, 2)]

    found = find_open_task(tasks, MAIN, None)

    assert found is not None
    assert found.task_id == "task_2"


@pytest.mark.parametrize("status", [s for s in TaskStatus if s != "active"])
def test_paused_or_ended_task_is_not_reminded_of(status: TaskStatus) -> None:
    tasks = [task(1, 1), task(2, 3, status=status)]

    found = find_open_task(tasks, MAIN, None)

    assert found is not None
    assert found.task_id == "task_1"


@pytest.mark.parametrize("session_key", [None, OTHER])
def test_nobody_is_reminded_of_another_sessions_task(session_key: str | None) -> None:
    assert find_open_task([task(1, 1, session_key=session_key)], MAIN, None) is None


def test_task_reported_since_is_no_news_unless_asked_for() -> None:
    tasks = [task(1, 5)]

    assert find_open_task(tasks, MAIN, at_minute(5) - MILLI) is None
    assert find_open_task(tasks, MAIN, at_minute(5)) == tasks[0]
    assert find_open_task(tasks, MAIN, None) == tasks[0]


def test_recent_report_on_a_task_stops_reminders_of_older_ones() -> None:
    assert find_open_task([task(1, 1), task(2, 5)], MAIN, at_minute(3)) is None


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
    instant = None if since is None else at_minute(since)

    assert find_open_task(tasks, MAIN, instant) == find_open_task(shuffled, MAIN, instant)
