"""Those who follow the waits are answered when there is news, and when it is over."""

from __future__ import annotations

import asyncio

import pytest

from openclaw_taskmem.daemon.followers import Followers
from openclaw_taskmem.daemon.news import News
from taskmem_hookspecs import WaitStatus
from tests.support.world import World


@pytest.fixture
def news() -> News:
    return News()


@pytest.fixture
def followers(world: World, news: News) -> Followers:
    return Followers(world.shell, news, asyncio.to_thread)


async def test_one_who_waits_is_answered_how_it_ended(
    world: World, news: News, followers: Followers
) -> None:
    wait = world.open_wait(None)
    asking = asyncio.create_task(followers.wait({"id": wait.wait_id}))
    await asyncio.sleep(0)
    world.end_wait(wait, WaitStatus.TIMEOUT, "Still at 85 %.")
    news.tell()
    first = await asking
    ended = first if first["ended"] else await followers.wait({"id": wait.wait_id})
    assert ended == {
        "ended": True,
        "status": "timeout",
        "text": world.wakes()[0].text,
        "exit": 124,
    }


async def test_who_waits_at_a_daemon_that_stops_is_told_so(
    world: World, news: News, followers: Followers
) -> None:
    wait = world.open_wait(None)
    world.shell.stopping.set()
    asking = asyncio.create_task(followers.wait({"id": wait.wait_id}))
    while not asking.done():
        news.tell()
        await asyncio.sleep(0)
    assert await asking == {"ended": False, "stopping": True}
