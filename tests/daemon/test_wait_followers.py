"""Those who follow the waits are answered when there is news, and when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from openclaw_taskmem.daemon.followers import ChangeCounter, Followers
from openclaw_taskmem.domain.errors import DaemonUnavailable
from taskmem_hookspecs import WaitStatus
from tests.support.world import World

PATIENCE = 5.0
"""Seconds within which an answer comes that nothing is waited for."""


@pytest.fixture
def news() -> ChangeCounter:
    return ChangeCounter()


class Threads:
    """Plays `Apart`: makes each call at once, and says when it is made."""

    def __init__(self) -> None:
        self.reads = 0
        self.read = asyncio.Event()

    async def __call__(self, call: Callable[..., Any], *values: Any) -> Any:
        found = call(*values)
        self.reads += 1
        self.read.set()
        return found


@pytest.fixture
def threads() -> Threads:
    return Threads()


@pytest.fixture
def followers(world: World, news: ChangeCounter, threads: Threads) -> Followers:
    return Followers(world.context, news, threads)


async def test_one_who_waits_is_answered_how_it_ended(
    world: World, news: ChangeCounter, followers: Followers, threads: Threads
) -> None:
    wait = world.open_wait(None)
    asking = asyncio.create_task(followers.wait({"id": wait.wait_id}))
    await threads.read.wait()
    world.end_wait(wait, WaitStatus.TIMEOUT, "Still at 85 %.")
    news.notify([wait.wait_id])
    assert await asking == {
        "ended": True,
        "status": "timeout",
        "text": world.wakes()[0].text,
        "exit": 124,
    }


async def test_a_wait_is_read_again_only_when_it_has_changed(
    world: World, news: ChangeCounter, followers: Followers, threads: Threads
) -> None:
    waits = [world.open_wait(None) for _ in range(2)]
    asking = [asyncio.create_task(followers.wait({"id": wait.wait_id})) for wait in waits]
    while threads.reads < 2:
        threads.read.clear()
        await threads.read.wait()
    for _ in range(20):
        news.notify()
        news.notify([waits[1].wait_id])
    world.end_wait(waits[1])
    answer = await asking[1]
    assert answer["ended"]
    assert threads.reads == 3
    asking[0].cancel()
    await asyncio.wait(asking)


async def test_a_wait_is_waited_for_by_the_id_that_lists_show(
    world: World, followers: Followers
) -> None:
    wait = world.open_wait(None)
    world.end_wait(wait, WaitStatus.TIMEOUT, "Still at 85 %.")
    assert (await followers.wait({"id": wait.wait_id.removeprefix("wait_")}))["exit"] == 124


async def test_who_waits_at_a_daemon_that_stops_is_told_so(
    world: World, news: ChangeCounter, followers: Followers, threads: Threads
) -> None:
    wait = world.open_wait(None)
    asking = asyncio.create_task(followers.wait({"id": wait.wait_id}))
    await threads.read.wait()
    world.context.stopping.set()
    news.notify_all()
    assert await asking == {"ended": False, "stopping": True}


async def test_no_call_is_kept_once_the_daemon_has_said_that_it_stops(
    world: World, news: ChangeCounter, followers: Followers
) -> None:
    wait = world.open_wait(None)
    world.context.stopping.set()
    news.notify_all()
    async with asyncio.timeout(PATIENCE):
        answer = await followers.wait({"id": wait.wait_id})
        assert answer == {"ended": False, "stopping": True}
        with pytest.raises(DaemonUnavailable, match="is stopping"):
            await followers.follow({"seen": news.count})


async def test_each_commit_is_told_once(followers: Followers) -> None:
    answer = await followers.watch_changes({})
    asking = asyncio.create_task(followers.watch_changes(answer))
    await asyncio.sleep(0)
    await asyncio.to_thread(followers.note_commit)
    first = await asking
    asking = asyncio.create_task(followers.watch_changes(first))
    await asyncio.sleep(0)
    await asyncio.to_thread(followers.note_commit)
    second = await asking
    counts = [each["seen"] for each in (answer, first, second)]
    assert [each[2] - counts[0][2] for each in counts] == [0, 1, 2]
    assert followers.format_counts() == ".".join(map(str, counts[2]))
