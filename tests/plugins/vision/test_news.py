"""When a watch looks again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from taskmem_vision import picture_watch
from taskmem_vision.picture_watch import LIVELY_SECONDS, LOOK_GAP, POLL_GAP, LookThrottle


class Time:
    """A loop's time, which passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self.meanwhile: Iterator[Callable[[], object]] = iter(())

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        next(self.meanwhile, lambda: None)()


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(picture_watch.asyncio, "sleep", made.sleep)
    return made


@pytest.fixture
async def fresh_news(time: Time) -> LookThrottle:
    """News that were looked at just now."""
    made = LookThrottle()
    made._loop = time
    made.record_look()
    return made


async def test_the_first_look_is_due_and_the_next_one_only_after_news(
    time: Time, fresh_news: LookThrottle
) -> None:
    time.now += LOOK_GAP
    assert not fresh_news.is_due()
    fresh_news.note_event()
    assert fresh_news.is_due()
    fresh_news.record_look()
    assert not fresh_news.is_due()
    assert LookThrottle().is_due()


async def test_news_come_when_the_last_look_is_a_gap_ago(
    time: Time, fresh_news: LookThrottle
) -> None:
    fresh_news.note_event()
    assert not fresh_news.is_due()
    await fresh_news.wait_for_event()
    assert sum(time.slept) == pytest.approx(LOOK_GAP)
    assert fresh_news.is_due()


async def test_look_by_another_delays_the_news_but_loses_none(
    time: Time, fresh_news: LookThrottle
) -> None:
    time.meanwhile = iter([lambda: (fresh_news.record_look(), fresh_news.note_event())])
    fresh_news.note_event()
    await fresh_news.wait_for_event()
    assert sum(time.slept) == pytest.approx(2 * LOOK_GAP)
    assert fresh_news.is_due()


async def test_news_that_came_are_news_no_longer(fresh_news: LookThrottle) -> None:
    fresh_news.note_event()
    await fresh_news.wait_for_event()
    fresh_news.record_look()
    again = asyncio.ensure_future(fresh_news.wait_for_event())
    asyncio.get_running_loop().call_soon(again.cancel)
    with pytest.raises(asyncio.CancelledError):
        await again


async def test_polling_is_closer_for_a_while_after_a_change(
    time: Time, fresh_news: LookThrottle
) -> None:
    await fresh_news.wait_for_poll()
    assert sum(time.slept) == pytest.approx(POLL_GAP)
    assert fresh_news.is_due()
    fresh_news.record_look()
    fresh_news.record_motion()
    time.slept.clear()
    await fresh_news.wait_for_poll()
    assert sum(time.slept) == pytest.approx(LOOK_GAP)
    time.now += LIVELY_SECONDS
    fresh_news.record_look()
    time.slept.clear()
    await fresh_news.wait_for_poll()
    assert sum(time.slept) == pytest.approx(POLL_GAP)
