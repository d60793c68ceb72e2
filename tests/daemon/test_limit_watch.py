"""The end of a host's limit of use is waited for: what its hooks tell, the sensor, its judge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from openclaw_taskmem.daemon import host_hooks
from openclaw_taskmem.daemon.session_watches import LimitSensor
from openclaw_taskmem.domain.conditions.conditions import parse_condition
from taskmem_hookspecs import (
    ConditionUnclear,
    Frame,
    InvalidArguments,
    Judge,
    Target,
    WaitQuery,
    WaitStatus,
)
from taskmem_hookspecs.conditions import State
from taskmem_hookspecs.testing import JudgeSuite, SensorSuite
from tests.daemon.watched import watch_world
from tests.support.world import World

LIMIT = Target(scheme="limit", name="claude")
WORDS = "You have reached your limit; token: sk-ant-api03-" + "x" * 90


def tell(world: World, kind: str, **more: object) -> None:
    """Have a hook of a session tell of an event."""
    event = {"hook_event_name": kind, "session_id": "s-1", **more}
    host_hooks.answer_hook(world.context, {"event": event})


def reach(world: World, error: str = "rate_limit") -> None:
    tell(world, "StopFailure", error=error, last_assistant_message=WORDS)


class TestLimitSensor(SensorSuite):
    @pytest.fixture(autouse=True)
    def _make_world(self) -> None:
        self.world = World()
        reach(self.world)

    def make_sensor(self, tmp_path: Path) -> LimitSensor:
        return LimitSensor(self.world.clock, lambda: self.world.context)

    def make_target(self, tmp_path: Path) -> Target:
        return LIMIT

    def show(self, tmp_path: Path, text: str) -> None:
        self.world.clock.tick(1)
        tell(self.world, "Stop")

    def is_shown(self, frame: Frame, text: str) -> bool:
        return State.ENDED in frame.states


class TestLimitJudge(JudgeSuite):
    def make_judge(self, tmp_path: Path) -> Judge:
        return LimitSensor.find_judges(LIMIT, parse_condition("it is over", "limit")).found[0]

    def make_met(self, tmp_path: Path) -> Sequence[Frame]:
        return look_after("Stop")

    def make_unmet(self, tmp_path: Path) -> Sequence[Frame]:
        return look_after("SessionStart")


def look_after(kind: str) -> Sequence[Frame]:
    """The frames of a limit when it is reached and after an event."""
    world = World()
    reach(world)

    async def look() -> Sequence[Frame]:
        watch = await LimitSensor(world.clock, lambda: world.context).watch(LIMIT)
        before = await watch.here()
        tell(world, kind)
        return before, await watch.look("", before.place)

    return asyncio.run(look())


async def test_an_answer_of_the_model_ends_the_wait_for_a_limit():
    async with watch_world() as room:
        reach(room.world)
        wait_id = await room.wait("limit: claude-code", wake_when="the limit is over")
        assert room.row(wait_id).target == "limit:claude"
        reach(room.world)
        await room.pass_time(61)
        assert room.row(wait_id).status is WaitStatus.WATCHING
        seen = room.room.read_observation(wait_id) or ""
        assert "You have reached your limit" in seen
        assert "x" * 90 not in seen

        tell(room.world, "Stop", turn_id="of Codex")
        tell(room.world, "Stop", seconds_late=600.0)
        await room.settle()
        assert room.row(wait_id).status is WaitStatus.WATCHING
        tell(room.world, "Stop")

        ended = await room.wait_for_end(wait_id)
        assert ended.status is WaitStatus.RESOLVED
        assert "its model has answered again" in (ended.last_observation or "")


@pytest.mark.parametrize("error", [None, "server_error"])
async def test_where_no_limit_was_told_of_it_is_over_at_once(error: str | None):
    async with watch_world() as room:
        if error:
            reach(room.world, error)
        answer = await room.call("smart_wait", target="limit:claude")
        ended = await room.wait_for_end(answer["wait_id"])
        assert ended.status is WaitStatus.RESOLVED
        assert "told of no limit" in (ended.last_observation or "")


@pytest.mark.parametrize(
    ("target", "words", "error", "why"),
    [
        ("limit:codex", "is over", InvalidArguments, "is not told here; it is of Claude Code"),
        ("limit:claude", "fails", ConditionUnclear, "Of a limit one thing can be waited for"),
    ],
)
async def test_what_is_not_told_of_a_limit_is_refused(
    target: str, words: str, error: type[Exception], why: str
):
    async with watch_world() as room:
        with pytest.raises(error, match=why):
            await room.call("smart_wait", target=target, wake_when=words)
        assert not room.world.store.find_waits(WaitQuery())
