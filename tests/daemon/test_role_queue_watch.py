"""A role waits for its queue: the core's own sensor, and its one condition."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from openclaw_taskmem.daemon.role_queues import ALONE_SECONDS, SHARED_SECONDS
from openclaw_taskmem.domain.callers import Caller
from taskmem_hookspecs import (
    ConditionUnclear,
    InvalidArguments,
    Owner,
    Run,
    RunQuery,
    RunState,
    WaitQuery,
    WaitStatus,
)
from tests.daemon.watched import WatchedWorld, watch_world
from tests.support.memory_store import MemoryStore
from tests.support.sessions import Session
from tests.support.world import World, worker

QUEUE = "queue:writer"


def queue(world: World, role: str = "writer") -> str:
    """Register a task for a role; its id."""
    return world.register("Write report", role=role)


def describe(task: str) -> str:
    """What is observed of a task that is queued."""
    return (
        f'{task} "Write report" is queued, and writer may claim it: call task_claim '
        'with role "writer".'
    )


async def waits(room: WatchedWorld, **given: object) -> str:
    """Wait for the queue, as with no condition, and return the wait's id."""
    answer = await room.call("smart_wait", target=QUEUE, **given)
    wait = str(answer["wait_id"])
    await room.until(lambda: room.room.read_observation(wait) is not None)
    return wait


class CountingStore(MemoryStore):
    """A store that counts how often a queue is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        self.reads += query.oldest_first
        return super().find_runs(query)


async def test_a_role_is_woken_when_a_task_is_queued_for_it() -> None:
    async with watch_world() as room:
        wait = await waits(room, timeout=3600)
        await room.clock.advance(47)
        assert room.row(wait).status is WaitStatus.WATCHING

        task = queue(room.world)

        ended = await room.wait_for_end(wait)
        assert (ended.status, ended.wake_when) == (*(WaitStatus.RESOLVED, "a task is queued"),)
        [wake] = room.world.wakes()
        assert wake.text == (
            f"[system] smart_wait resolved ({wait}): {describe(task)} Elapsed: 47s."
        )


async def test_what_is_queued_already_wakes_a_role_at_once() -> None:
    async with watch_world() as room:
        first = queue(room.world)
        room.clock.tick(1)
        queue(room.world)

        answer = await room.call("smart_wait", target="queue:WRITER", wake_when="A task is queued.")

        ended = await room.wait_for_end(answer["wait_id"])
        assert ended.last_observation == describe(first)
        assert answer["understood"] == [
            {
                "side": "A task is queued.",
                "form": "a task is queued",
                "judged_by": "rules",
            }
        ]


async def test_what_this_role_cannot_claim_does_not_wake_it() -> None:
    async with watch_world() as room:
        world = room.world
        queue(world, "tester")
        session = Session(world)
        asks = session.works()
        world.call("task_reset", Caller(person=True), task_id=asks)
        await room.call("smart_wait", target="queue:main")
        wait = await waits(room)

        await room.settle()

        [here] = {w.status for w in world.store.find_waits(WaitQuery())}
        assert here is WaitStatus.WATCHING
        assert room.room.read_observation(wait) == "Nothing is queued for writer."


async def test_what_comes_back_for_anybody_wakes_a_role_too() -> None:
    async with watch_world() as room:
        world = room.world
        task = world.register()
        world.call("task_claim", worker("1"), task_id=task, role="writer")
        wait = await waits(room)

        world.call("task_reset", Caller(person=True), task_id=task)

        await room.wait_for_end(wait)
        assert [
            run.role
            for run in world.store.find_runs(
                RunQuery(states=(RunState.QUEUED,), oldest_first=True, role="writer")
            )
        ] == [None]
        assert task in (room.row(wait).last_observation or "")


async def test_after_a_claim_the_role_waits_for_the_next_task() -> None:
    async with watch_world() as room:
        queue(room.world)
        wait = (await room.call("smart_wait", target=QUEUE))["wait_id"]
        await room.wait_for_end(wait)
        room.world.call("task_claim", worker("1"), role="writer")

        await room.call("wait_update", wait_id=wait)
        await room.settle()
        assert room.row(wait).status is WaitStatus.WATCHING
        task = queue(room.world)

        assert (await room.wait_for_end(wait)).last_observation == describe(task)


async def test_a_restarted_daemon_goes_on_waiting_for_a_queue() -> None:
    store = MemoryStore()
    async with watch_world(store=store) as room:
        wait = await waits(room, timeout=3600)
    async with watch_world(store=store, clock=room.clock, worlds=[room.world]) as again:
        await again.until(lambda: again.room.read_observation(wait) is not None)

        task = queue(again.world)

        assert (await again.wait_for_end(wait)).last_observation == describe(task)


@pytest.mark.parametrize(("sole", "rest"), [(True, ALONE_SECONDS), (False, SHARED_SECONDS)])
async def test_store_is_read_after_a_commit_and_rarely_otherwise(sole: bool, rest: float) -> None:
    store = CountingStore()
    async with watch_world(store=store, sole=sole) as room:
        wait = await waits(room, timeout=86_400)
        await room.pass_time(1)
        reads, began = store.reads, room.clock.monotonic()

        while store.reads < reads + 10:
            await room.pass_time(0.5)

        assert room.clock.monotonic() - began >= rest * 8
        assert room.row(wait).status is WaitStatus.WATCHING


@pytest.mark.parametrize("role", [{}, {"role": "writer"}])
async def test_work_on_what_is_claimed_has_no_queue_read_again(role: dict[str, str]) -> None:
    store = CountingStore()
    async with watch_world(store=store, sole=True) as room:
        world, builder = room.world, worker("1")
        task = world.register(**role)
        world.call("task_claim", builder, task_id=task, **role)
        await waits(room, timeout=3600)
        before, written = store.reads, store.read_task(task).run

        for _ in range(10):
            room.clock.tick(ALONE_SECONDS / 20)
            world.call("task_update", builder, task_id=task, message="Still at it.")
        await room.settle()

        assert store.read_task(task).run != written
        assert store.reads == before


async def test_another_home_on_the_database_queues_for_the_role_too() -> None:
    store = MemoryStore()
    async with watch_world(store=store) as room:
        wait = await waits(room, timeout=3600)
        other = World(store, room.clock, home="home_2")
        other._numbers = room.world._numbers
        task = queue(other)

        await room.pass_time(4 * SHARED_SECONDS)

        assert (await room.wait_for_end(wait)).last_observation == describe(task)


@pytest.mark.parametrize(
    "given",
    [
        {"wake_when": '"READY" appears'},
        {"wake_when": "a task is queued or it exits"},
        {"wake_when": "something interesting is queued"},
        {"signals": [{"exit": "any"}]},
    ],
)
async def test_another_condition_on_a_queue_is_refused_with_the_form(
    given: dict[str, object],
) -> None:
    async with watch_world() as room:
        with pytest.raises(ConditionUnclear, match='"a task is queued": give') as raised:
            await room.call("smart_wait", target=QUEUE, **given)

        assert raised.value.details["forms"] == ["a task is queued"]
        assert not room.world.store.find_waits(WaitQuery())


async def test_only_a_queue_is_waited_for_without_a_condition() -> None:
    async with watch_world() as room:
        with pytest.raises(InvalidArguments, match="wake_when is missing; give it, or signals"):
            await room.call("smart_wait", target="screen")


async def test_who_could_claim_nothing_for_a_role_does_not_wait_for_it() -> None:
    async with watch_world() as room:
        owner = Owner(role="main", session_key="agent:main:main", boot="boot_1")
        caller = Caller(session_key=owner.session_key, owner=owner)

        with pytest.raises(InvalidArguments, match="you are main, so you cannot claim"):
            await asyncio.to_thread(room.world.call, "smart_wait", caller, target=QUEUE)
