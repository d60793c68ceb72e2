import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from taskmem_hookspecs.testing import DAWN, FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def wake_log():
    return []


@pytest.fixture
async def start_sleeper(clock, wake_log):
    """Starts tasks that sleep and then tell their name and the time."""
    tasks = []

    async def sleep(name, seconds):
        await clock.sleep(seconds)
        wake_log.append((name, (clock.now() - DAWN).total_seconds()))

    def start(name, seconds):
        tasks.append(asyncio.create_task(sleep(name, seconds)))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_time_stands_still_until_it_is_turned(clock):
    assert (clock.now(), clock.monotonic()) == (DAWN, 0.0)
    assert clock.now() == clock.now()


def test_it_starts_when_it_is_told_to():
    start = datetime(2030, 1, 1, tzinfo=UTC)
    assert FakeClock(start).now() == start


def test_a_tick_moves_both_clocks(clock):
    assert clock.tick(1.5, minutes=1) == DAWN + timedelta(seconds=61.5)
    assert (clock.now(), clock.monotonic()) == (DAWN + timedelta(seconds=61.5), 61.5)


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_jump_moves_only_the_wall(clock, seconds):
    clock.jump(seconds)
    assert clock.now() == DAWN + timedelta(seconds=seconds)
    assert clock.monotonic() == 0.0


async def test_sleepers_wake_in_the_order_they_are_due(clock, start_sleeper, wake_log):
    for name, seconds in (("last", 30), ("first", 10), ("second", 20)):
        start_sleeper(name, seconds)
    await clock.advance(minutes=1)
    assert wake_log == [("first", 10), ("second", 20), ("last", 30)]
    assert clock.monotonic() == 60


async def test_those_due_together_wake_in_the_order_they_lay_down(clock, start_sleeper, wake_log):
    for name in "abc":
        start_sleeper(name, 10)
    await clock.advance(10)
    assert wake_log == [("a", 10), ("b", 10), ("c", 10)]


async def test_who_is_not_due_sleeps_on(clock, start_sleeper, wake_log):
    start_sleeper("early", 10)
    start_sleeper("late", 11)
    await clock.advance(10)
    assert (wake_log, clock.sleepers) == ([("early", 10)], 1)
    await clock.advance(1)
    assert (wake_log[1:], clock.sleepers) == ([("late", 11)], 0)


@pytest.mark.parametrize("seconds", [0, -5])
async def test_no_sleep_at_all_still_waits_for_the_next_turn(
    clock, start_sleeper, wake_log, seconds
):
    start_sleeper("awake", seconds)
    await asyncio.sleep(0)
    assert wake_log == []
    await clock.advance(0)
    assert wake_log == [("awake", 0)]


async def test_a_loop_gets_every_tick_of_an_hour(clock):
    ticks = []

    async def loop():
        while True:
            await clock.sleep(60)
            ticks.append(clock.monotonic())

    task = asyncio.create_task(loop())
    await clock.advance(hours=1)
    task.cancel()
    assert ticks == [60.0 * n for n in range(1, 61)]


async def test_nobody_is_woken_by_a_tick_or_a_jump(clock, start_sleeper, wake_log):
    start_sleeper("a", 10)
    await asyncio.sleep(0)
    clock.tick(20)
    clock.jump(20)
    await asyncio.sleep(0)
    assert (wake_log, clock.sleepers) == ([], 1)


async def test_a_jump_changes_no_sleep(clock, start_sleeper, wake_log):
    start_sleeper("a", 10)
    await asyncio.sleep(0)
    clock.jump(-3600)
    await clock.advance(10)
    assert wake_log == [("a", -3590)]


async def test_who_gave_up_sleeping_is_passed_over(clock, start_sleeper, wake_log):
    gone = start_sleeper("gone", 10)
    start_sleeper("there", 20)
    await asyncio.sleep(0)
    gone.cancel()
    await clock.advance(30)
    assert (wake_log, clock.sleepers) == ([("there", 20)], 0)


async def test_who_needs_many_turns_sleeps_before_time_passes(clock, wake_log):
    async def start_late():
        for _ in range(60):
            await asyncio.sleep(0)
        await clock.sleep(10)
        wake_log.append(clock.monotonic())

    late = asyncio.create_task(start_late())
    await clock.advance(minutes=1)
    await late
    assert wake_log == [10]


async def test_a_task_that_never_waits_is_told(clock):
    async def spin():
        for _ in range(5000):
            await asyncio.sleep(0)

    spinning = asyncio.create_task(spin())
    with pytest.raises(AssertionError, match="still to run"):
        await clock.advance(1)
    spinning.cancel()
