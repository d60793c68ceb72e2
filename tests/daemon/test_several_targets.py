"""A wait on several targets: any of them ends it, or all do."""

from __future__ import annotations

from typing import Any

import pytest

from taskmem_hookspecs import InvalidArguments, WaitStatus
from tests.daemon.watched import WatchedWorld, watch_world
from tests.support.memory_store import MemoryStore
from tests.support.stage import Stage

OTHERS = [
    {"target": "pty:tests", "wake_when": "READY"},
    {"target": "pty:lint", "wake_when": "READY"},
]


@pytest.fixture
def _three(stage: Stage) -> None:
    for name in ("build", "tests", "lint"):
        stage.scene(name)


async def begin(room: WatchedWorld, **given: Any) -> str:
    """Begin a wait on three terminals; return its id once all are looked at."""
    answer = await room.call(
        "smart_wait", target="pty:build", wake_when="READY", **{"also": OTHERS, **given}
    )
    wait = str(answer["wait_id"])
    count = 1 + len(given.get("also", OTHERS))
    await room.until(lambda: (room.room.read_observation(wait) or "").count("pty:") == count)
    return wait


@pytest.mark.usefixtures("_three")
async def test_the_first_of_several_ends_the_wait_by_one_wake(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await begin(room)
        await room.clock.advance(5)
        stage.scene("lint").show("READY\n")

        ended = await room.wait_for_end(wait)

        assert ended.status is WaitStatus.RESOLVED
        assert [part.met is not None for part in ended.parts] == [False, False, True]
        (wake,) = room.world.wakes()
        assert wake.text == (
            f"[system] smart_wait resolved ({wait}): pty:lint: READY was shown. Elapsed: 5s."
        )


@pytest.mark.usefixtures("_three")
async def test_where_all_are_needed_the_last_ends_the_wait(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await begin(room, all=True)
        for name in ("lint", "build"):
            stage.scene(name).show("READY\n")
            await room.settle()
            assert room.row(wait).status is WaitStatus.WATCHING
        stage.scene("tests").show("READY\n")

        ended = await room.wait_for_end(wait)

        assert ended.status is WaitStatus.RESOLVED
        assert ended.last_observation == (
            "pty:build: READY was shown. pty:tests: READY was shown. pty:lint: READY was shown."
        )
        assert len(room.world.wakes()) == 1


@pytest.mark.usefixtures("_three")
async def test_what_was_met_is_remembered_over_a_restart(stage: Stage) -> None:
    store = MemoryStore()
    async with watch_world(("stage", stage.plugin()), store=store) as room:
        wait = await begin(room, all=True)
        stage.scene("lint").show("READY\n")
        await room.until(lambda: room.row(wait).parts[2].met is not None)
    stage.scene("lint").text, stage.scene("lint").gone = "", "It is gone."
    again = watch_world(
        ("stage", stage.plugin()), store=store, clock=room.clock, worlds=[room.world]
    )
    async with again as room:
        await room.until(lambda: room.room.read_observation(wait) is not None)
        for name in ("build", "tests"):
            stage.scene(name).show("READY\n")

        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


@pytest.mark.usefixtures("_three")
@pytest.mark.parametrize("needs_all", [False, True])
async def test_a_lost_target_ends_only_what_needs_all(stage: Stage, *, needs_all: bool) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await begin(room, all=needs_all)
        stage.scene("tests").leave("The command ended with status 1.")
        await room.settle()
        if not needs_all:
            assert room.row(wait).status is WaitStatus.WATCHING
            stage.scene("build").leave("It ended.")
            stage.scene("lint").leave("It ended.")

        ended = await room.wait_for_end(wait)

        assert ended.status is WaitStatus.ERROR
        assert "pty:tests: " in str(ended.last_observation)
        assert ("pty:build" in str(ended.last_observation)) is not needs_all


@pytest.mark.usefixtures("_three")
async def test_a_timeout_tells_what_was_met_and_what_not(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await begin(room, all=True, timeout=60)
        stage.scene("lint").show("READY\n")
        stage.scene("build").show("at 85%")
        await room.until(lambda: "85%" in (room.room.read_observation(wait) or ""))
        await room.pass_time(62)

        ended = await room.wait_for_end(wait)

        assert ended.status is WaitStatus.TIMEOUT
        assert str(ended.last_observation).startswith("pty:build: Last seen: 'at 85%'. pty:tests:")
        assert str(ended.last_observation).endswith("Met: pty:lint: READY was shown.")
        assert len(room.world.wakes()) == 1


@pytest.mark.usefixtures("_three")
async def test_armed_again_it_waits_for_what_comes_next(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await begin(room)
        stage.scene("lint").show("READY\n")
        await room.wait_for_end(wait)

        await room.call("wait_update", wait_id=wait, timeout=60)
        await room.settle()
        assert room.row(wait).status is WaitStatus.WATCHING
        assert not any(part.met for part in room.row(wait).parts)
        stage.scene("tests").show("READY\n")

        assert (await room.wait_for_end(wait)).last_observation == "pty:tests: READY was shown."


@pytest.mark.usefixtures("_three")
async def test_a_new_condition_for_several_is_refused(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await begin(room)
        with pytest.raises(InvalidArguments, match="several targets"):
            await room.call("wait_update", wait_id=wait, wake_when="DONE")


@pytest.mark.usefixtures("_three")
async def test_a_cancelled_wait_leaves_all_its_targets(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await begin(room)
        await room.call("wait_cancel", wait_id=wait)
        await room.until(lambda: all(stage.scene(n).closed for n in ("build", "tests", "lint")))


@pytest.mark.usefixtures("_three")
async def test_two_conditions_of_one_target_are_two_parts(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await begin(room, also=[{"target": "pty:build", "wake_when": "DONE"}], all=True)
        stage.scene("build").show("READY\n")
        await room.until(lambda: room.row(wait).parts[0].met is not None)
        stage.scene("build").show("DONE\n")

        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED
