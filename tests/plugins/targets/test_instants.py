"""Waits for an instant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from openclaw_taskmem.domain.conditions.conditions import parse_condition
from taskmem_hookspecs import ConditionUnclear, InvalidArguments, Target, TargetGone
from taskmem_hookspecs.conditions import State
from taskmem_targets import hooks, instants
from taskmem_targets.facts import SECONDS_LEFT
from taskmem_targets.instants import TimeSensor, TimeWatch, find_next

MONDAY = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("2026-12-24T18:00Z", "2026-12-24 18:00"),
        ("2026-12-24 18:00:00+01:00", "2026-12-24 17:00"),
        ("2026-12-24T18:00 Europe/Berlin", "2026-12-24 17:00"),
        ("2026-07-24T18:00 Europe/Berlin", "2026-07-24 16:00"),
        ("18:00 UTC", "2026-11-30 18:00"),
        ("at 9:00 UTC", "2026-12-01 09:00"),
        ("9am UTC", "2026-12-01 09:00"),
        ("12 pm UTC", "2026-11-30 12:00"),
        ("12am UTC", "2026-12-01 00:00"),
        ("11:30 Europe/Berlin", "2026-11-30 10:30"),
        ("today 8:00 UTC", "2026-11-30 08:00"),
        ("tomorrow 9:00 UTC", "2026-12-01 09:00"),
        ("Friday 9am Europe/Berlin", "2026-12-04 08:00"),
        ("monday 9:00 UTC", "2026-12-07 09:00"),
        ("monday 11:00 UTC", "2026-11-30 11:00"),
        ("90s", "2026-11-30 10:01:30"),
        ("1h30m", "2026-11-30 11:30"),
        ("in 2 hours and 5 minutes", "2026-11-30 12:05"),
        ("1.5 days", "2026-12-01 22:00"),
        ("cron 0 9 * * 1-5 UTC", "2026-12-01 09:00"),
        ("cron 0 9 * * 1-5 Europe/Berlin", "2026-12-01 08:00"),
        ("cron */5 * * * * UTC", "2026-11-30 10:05"),
    ],
)
def test_instants_are_written_as_people_write_them(text: str, due: str):
    assert find_next(text, MONDAY) == at(due)


@pytest.mark.parametrize(
    ("day", "hour"), [("2026-03-28", "08:00"), ("2026-03-29", "07:00"), ("2026-10-25", "08:00")]
)
def test_a_schedule_follows_the_clock_on_the_wall(day: str, hour: str):
    eve = at(f"{day} 00:00")
    assert find_next("cron 0 9 * * * Europe/Berlin", eve) == at(f"{day} {hour}")


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "now", "due"),
    [
        ("90m", "2026-03-29 00:30", "2026-03-29 02:00"),
        ("24h", "2026-03-28 12:00", "2026-03-29 12:00"),
        ("2:30", "2026-10-25 00:10", "2026-10-25 00:30"),
        ("2:30", "2026-10-25 01:10", "2026-10-25 01:30"),
        ("2:30", "2026-10-25 01:40", "2026-10-26 01:30"),
        ("cron */5 * * * *", "2026-10-25 01:11", "2026-10-25 01:15"),
        ("cron */5 * * * *", "2026-10-25 00:58", "2026-10-25 01:00"),
        ("cron 0 9 * * *", "2026-10-24 12:00", "2026-10-25 08:00"),
    ],
)
def test_a_clock_that_is_put_back_or_on_misses_no_instant(text: str, now: str, due: str):
    assert find_next(text, at(now), BERLIN) == at(due)
    assert find_next(f"{text} Europe/Berlin", at(now), UTC) == at(due)


def test_the_zone_of_the_machine_counts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert find_next("9:00", MONDAY) == at("2026-12-01 00:00")


@pytest.mark.parametrize(
    "text",
    ["soon", "9", "25:00", "5", "cron 61 * * * *", "cron 0 0 30 2 *", "4000 days", "1e9 s", "13pm"],
)
def test_what_names_no_time_is_refused_with_the_forms(text: str):
    with pytest.raises(InvalidArguments, match="write time:2026-12-24T18:00"):
        find_next(text, MONDAY)


def test_an_unknown_zone_is_named():
    with pytest.raises(InvalidArguments, match="Europe/Nowhere is no zone"):
        find_next("9:00 Europe/Nowhere", MONDAY)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = MONDAY

    def __call__(self) -> datetime:
        return self.now


async def watch(name: str, clock: Callable[[], datetime]) -> TimeWatch:
    return await TimeSensor(clock).watch(Target(scheme="time", name=name))


def test_a_wait_ends_at_its_own_instant_after_a_restart():
    async def run() -> None:
        clock = Clock()
        place = (await (await watch("10m", clock)).here()).place
        clock.now += timedelta(minutes=9)
        again = await watch("10m", clock)
        frame = await again.look(place, place)
        assert not frame.states
        assert frame.numbers == {SECONDS_LEFT: 60}
        judge = hooks.wait_judge(
            Target(scheme="time", name="10m"), parse_condition("comes", "time")
        )
        assert judge is not None
        assert (await judge.rule(frame)).look_again_seconds == 60
        clock.now += timedelta(minutes=1)
        assert (await again.look(place, place)).states == {State.DUE}

    asyncio.run(run())


def test_an_instant_that_is_past_is_refused():
    async def run() -> None:
        await (await watch("today 8:00 UTC", Clock())).here()

    with pytest.raises(TargetGone, match="is past already"):
        asyncio.run(run())


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_set_is_looked_at_at_once(monkeypatch: pytest.MonkeyPatch, hours: int):
    monkeypatch.setattr(instants, "_CHECK_SECONDS", 0.01)

    async def run() -> None:
        clock = Clock()
        watched = await watch("10m", clock)
        await asyncio.sleep(0)
        clock.now += timedelta(hours=hours)
        await asyncio.wait_for(watched.wait_for_change(), 10)
        await watched.close()

    asyncio.run(run())


def test_an_instant_has_one_condition():
    target = Target(scheme="time", name="9:00")
    with pytest.raises(ConditionUnclear, match="when it comes"):
        hooks.wait_judge(target, parse_condition("the build ends", target.scheme))
