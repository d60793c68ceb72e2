"""When a watch looks again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from taskmem_vision.capture import news
from taskmem_vision.capture.news import GAP, LIVELY, POLL, News


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
    monkeypatch.setattr(news.asyncio, "sleep", made.sleep)
    return made


@pytest.fixture
async def told(time: Time) -> News:
    """News that were looked at just now."""
    made = News()
    made._loop = time
    made.looked()
    return made


async def test_the_first_look_is_due_and_the_next_one_only_after_news(
    time: Time, told: News
) -> None:
    time.now += GAP
    assert not told.due()
    told.stir()
    assert told.due()
    told.looked()
    assert not told.due()
    assert News().due()


async def test_news_come_when_the_last_look_is_a_gap_ago(
    time: Time, told: News
) -> None:
    told.stir()
    assert not told.due()
    await told.come()
    assert sum(time.slept) == pytest.approx(GAP)
    assert told.due()


async def test_a_look_that_another_had_meanwhile_puts_them_off_and_loses_none(
    time: Time, told: News
) -> None:
    time.meanwhile = iter([lambda: (told.looked(), told.stir())])
    told.stir()
    await told.come()
    assert sum(time.slept) == pytest.approx(2 * GAP)
    assert told.due()


async def test_news_that_came_are_news_no_longer(told: News) -> None:
    told.stir()
    await told.come()
    told.looked()
    again = asyncio.ensure_future(told.come())
    asyncio.get_running_loop().call_soon(again.cancel)
    with pytest.raises(asyncio.CancelledError):
        await again


async def test_where_nobody_says_so_looks_are_closer_for_a_while_after_a_change(
    time: Time, told: News
) -> None:
    await told.poll()
    assert sum(time.slept) == pytest.approx(POLL)
    assert told.due()
    told.looked()
    told.moved()
    time.slept.clear()
    await told.poll()
    assert sum(time.slept) == pytest.approx(GAP)
    time.now += LIVELY
    told.looked()
    time.slept.clear()
    await told.poll()
    assert sum(time.slept) == pytest.approx(POLL)
