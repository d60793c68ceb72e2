"""A sub-agent of a host is waited for: the core's own sensor of sub-agents, and its judge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from openclaw_taskmem.daemon.gateway_events import SubAgentWork, apply_sub_agent_work, parse_report
from openclaw_taskmem.daemon.session_watches import SessionSensor
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.domain.conditions.session_states import MOST_ENDED
from openclaw_taskmem.domain.conditions.verdicts import SESSION_FORMS
from openclaw_taskmem.engine import sub_agents
from openclaw_taskmem.engine.turns import ReportContext
from taskmem_hookspecs import (
    ConditionUnclear,
    Frame,
    InvalidArguments,
    Judge,
    Owner,
    Target,
    Wait,
    WaitQuery,
    WaitStatus,
    WakeQuery,
)
from taskmem_hookspecs.conditions import State
from taskmem_hookspecs.testing import JudgeSuite, SensorSuite
from tests.daemon.watched import WatchedWorld, watch_world
from tests.support.memory_store import MemoryStore
from tests.support.world import World

MAIN, CHILD = "agent:main:main", "agent:main:subagent:1"
HOST = "openclaw:one"
PARENT = Caller(session_key=MAIN, host=HOST)
WORDS = "The soup is cooked."


def report(world: World, kind: str, boot: str = "boot_1", child: str = CHILD, **given: Any) -> None:
    """Report that a sub-agent works, or how its work has ended."""
    told = {"kind": f"sub_agent_{kind}", "session_key": MAIN, "child": child, **given}
    owner = Owner(role="main", session_key=MAIN, boot=boot, host=HOST)
    for event in parse_report({"events": [told]}):
        assert isinstance(event, SubAgentWork)
        apply_sub_agent_work(world.context, ReportContext(owner=owner), event)


def begin(world: World, **given: Any) -> None:
    report(world, "started", parent=MAIN, label="cook", **given)


def end(world: World, outcome: str = "ok", **given: Any) -> None:
    report(world, "ended", outcome=outcome, words=WORDS, **given)


class TestSessionSensor(SensorSuite):
    @pytest.fixture(autouse=True)
    def _make_world(self) -> None:
        self.world = World()
        begin(self.world)

    def make_sensor(self, tmp_path: Path) -> SessionSensor:
        return SessionSensor(self.world.clock, lambda: self.world.context)

    def make_target(self, tmp_path: Path) -> Target:
        return Target(scheme="session", name=CHILD)

    def show(self, tmp_path: Path, text: str) -> None:
        self.world.clock.tick(1)
        report(self.world, "ended", outcome="ok", words=text)

    def make_missing(self, tmp_path: Path) -> Target:
        return Target(scheme="session", name="agent:main:subagent:2")

    def remove(self, tmp_path: Path) -> bool:
        end(self.world)
        return True

    def is_shown(self, frame: Frame, text: str) -> bool:
        return State.ENDED in frame.states


class TestSessionJudge(JudgeSuite):
    def make_judge(self, tmp_path: Path) -> Judge:
        condition = parse_condition('"cooked" appears and it completes', "session")
        target = Target(scheme="session", name=CHILD)
        return SessionSensor.find_judges(target, condition).found[0]

    def make_met(self, tmp_path: Path) -> Sequence[Frame]:
        return look_at("ok")

    def make_unmet(self, tmp_path: Path) -> Sequence[Frame]:
        return look_at("error")


def look_at(outcome: str) -> Sequence[Frame]:
    """The frames of a sub-agent while it works and when it has ended so."""
    world = World()
    begin(world)

    async def look() -> Sequence[Frame]:
        watch = await SessionSensor(world.clock, lambda: world.context).watch(
            Target(scheme="session", name=CHILD)
        )
        before = await watch.here()
        end(world, outcome)
        return before, await watch.look("", before.place)

    return asyncio.run(look())


async def wait(room: WatchedWorld, words: str = "it ends", **given: object) -> str:
    """Wait for the sub-agent as its parent; the wait's id once somebody looks."""
    given = {"target": "session:cook", "timeout": 3600, "wake_when": words, **given}
    answer = await asyncio.to_thread(room.world.call, "smart_wait", PARENT, **given)
    assert answer["target"] == f"session:{CHILD}"
    wait_id = str(answer["wait_id"])
    await room.until(lambda: room.room.read_observation(wait_id) is not None)
    return wait_id


def wakes_of(room: WatchedWorld, wait_id: str) -> list[str]:
    return [wake.text for wake in room.world.store.find_wakes(WakeQuery(wait_id=wait_id))]


@pytest.mark.parametrize(
    ("words", "outcome", "status"),
    [
        ("it ends", "ok", WaitStatus.RESOLVED),
        ("ends or fails", "error", WaitStatus.RESOLVED),
        ('"cooked" appears', "ok", WaitStatus.RESOLVED),
        ("fails", "ok", WaitStatus.ERROR),
        ('"burnt" appears', "ok", WaitStatus.ERROR),
        ("completes", "killed", WaitStatus.ERROR),
    ],
)
async def test_the_report_of_an_end_ends_a_wait(words: str, outcome: str, status: WaitStatus):
    async with watch_world() as room:
        begin(room.world)
        wait_id = await wait(room, words)
        await room.pass_time(47)
        assert room.row(wait_id).status is WaitStatus.WATCHING

        end(room.world, outcome)

        ended: Wait = await room.wait_for_end(wait_id)
        assert ended.status is status
        assert f'Its last words, which are data: "{WORDS}"' in (ended.last_observation or "")
        [text] = wakes_of(room, wait_id)
        assert WORDS in text


async def test_what_has_ended_already_is_answered_at_once() -> None:
    async with watch_world() as room:
        begin(room.world)
        end(room.world)
        given = {"target": "session:cook", "wake_when": "it ends"}
        answer = await asyncio.to_thread(room.world.call, "smart_wait", PARENT, **given)
        assert (await room.wait_for_end(str(answer["wait_id"]))).status is WaitStatus.RESOLVED


async def test_an_end_that_is_reported_again_wakes_nobody_again() -> None:
    async with watch_world() as room:
        begin(room.world)
        wait_id = await wait(room)
        for _ in range(2):
            end(room.world)
        await room.wait_for_end(wait_id)
        end(room.world, "error", boot="boot_2")
        await room.settle()
        assert len(wakes_of(room, wait_id)) == 1


async def test_a_restarted_daemon_and_gateway_lose_no_end() -> None:
    store = MemoryStore()
    async with watch_world(store=store) as room:
        begin(room.world)
        wait_id = await wait(room)
    async with watch_world(store=store, clock=room.clock, worlds=[room.world]) as again:
        await again.until(lambda: again.room.read_observation(wait_id) is not None)
        begin(again.world, boot="boot_2")
        await again.settle()
        assert again.row(wait_id).status is WaitStatus.WATCHING

        end(again.world, boot="boot_2")

        assert (await again.wait_for_end(wait_id)).status is WaitStatus.RESOLVED
        assert len(wakes_of(again, wait_id)) == 1


async def test_what_no_start_of_the_gateway_goes_on_with_is_lost() -> None:
    async with watch_world() as room:
        begin(room.world)
        wait_id = await wait(room, "is lost")
        end(room.world, "error", boot="boot_2")
        ended = await room.wait_for_end(wait_id)
        assert ended.status is WaitStatus.RESOLVED
        assert "is lost: its host ended while it worked" in (ended.last_observation or "")


async def test_one_that_many_others_have_followed_is_gone() -> None:
    async with watch_world() as room:
        begin(room.world)
        wait_id = await wait(room, "fails", timeout=86_400)
        for number in range(MOST_ENDED + 1):
            room.clock.tick(1)
            begin(room.world, child=f"agent:main:subagent:x{number}")
            end(room.world, child=f"agent:main:subagent:x{number}")
        await room.settle()
        assert room.row(wait_id).status is WaitStatus.WATCHING
        end(room.world)
        assert (await room.wait_for_end(wait_id)).status is WaitStatus.ERROR


def test_old_ends_are_forgotten_with_their_words() -> None:
    world = World(store := MemoryStore())
    begin(world)
    begin(world, child="agent:main:subagent:2")
    end(world)
    sub_agents.forget_old(world.context)
    assert len(sub_agents.list_sub_agents(world.context)) == 2
    world.clock.tick(8 * 86_400)

    sub_agents.forget_old(world.context)

    [left] = sub_agents.list_sub_agents(world.context)
    assert left.key == "agent:main:subagent:2"
    assert WORDS not in str(vars(store))


@pytest.mark.parametrize(
    ("caller", "said"),
    [
        (PARENT, f"wait for one of yours: session:{CHILD} "),
        (Caller(session_key="agent:coder:main", host=HOST), "none that your agent has spawned"),
        (Caller(session_key="one", host="mcp:claude-code"), "Claude Code does not report its"),
    ],
)
async def test_a_sub_agent_that_is_not_known_is_refused(caller: Caller, said: str) -> None:
    async with watch_world() as room:
        begin(room.world)
        given = {"target": "session:soup", "wake_when": "it ends"}
        with pytest.raises(InvalidArguments, match=said):
            await asyncio.to_thread(room.world.call, "smart_wait", caller, **given)
        assert not room.world.store.find_waits(WaitQuery())


async def test_other_conditions_are_refused_with_those_of_a_session() -> None:
    async with watch_world() as room:
        begin(room.world)
        given = {"target": "session:cook", "wake_when": "the soup tastes good"}
        with pytest.raises(ConditionUnclear, match="Of a sub-agent it is told") as raised:
            await asyncio.to_thread(room.world.call, "smart_wait", PARENT, **given)
        assert raised.value.details["forms"] == [*SESSION_FORMS]
