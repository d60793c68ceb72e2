"""Wakes that a gateway keeps back: none is lost, and none costs a look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from openclaw_taskmem.daemon.background_loops import BackgroundLoops
from openclaw_taskmem.daemon.gateways import Gateways
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.wakes.outbox import Hold
from openclaw_taskmem.engine import wakes
from taskmem_hookspecs import Wake, WakeQuery, WakeReceipt, WakeState
from taskmem_hookspecs.roles import FOREVER
from taskmem_setup import mark_running
from tests.daemon.looped import Gateway, inline, run_loops
from tests.support.gateways import MAIN
from tests.support.sessions import Session
from tests.support.world import World

THRESHOLD = 300


@pytest.fixture
def gateway(world: World) -> Gateway:
    return Gateway(world.clock)


class SessionHolds:
    """Keeps sessions back, each until an instant or until it is freed."""

    def __init__(self) -> None:
        self.sessions: dict[str | None, datetime | None] = {}

    def __call__(self) -> wakes.Holds:
        sessions = dict(self.sessions)

        def hold(key: str | None) -> Hold | None:
            return Hold(why="busy", until=sessions[key]) if key in sessions else None

        return hold


class Looks:
    """Counts how often the store is asked for what is due."""

    def __init__(self, world: World) -> None:
        self.times = 0
        self._ask: Callable[..., Sequence[Wake]] = world.store.find_wakes
        world.store.find_wakes = self._count  # type: ignore[method-assign]

    def _count(self, query: WakeQuery) -> Sequence[Wake]:
        self.times += query.due_by not in (None, FOREVER)
        return self._ask(query)


@pytest.fixture
def session_holds() -> SessionHolds:
    return SessionHolds()


async def test_held_wake_is_sent_the_moment_its_session_is_free(
    world: World, gateway: Gateway, session_holds: SessionHolds
) -> None:
    session_holds.sessions = {MAIN: None}
    async with run_loops(world, gateway, longest=3600, holds=session_holds) as loops:
        world.register(session_key=MAIN)
        await world.clock.advance(THRESHOLD + 600)
        assert gateway.received == []
        (owed,) = world.wakes()
        assert (owed.state, owed.attempts, owed.last_error) == ("due", 0, None)

        session_holds.sessions.clear()
        loops.recheck_holds()
        await world.clock.advance(0)

    assert [wake.session_key for wake in gateway.received] == [MAIN]


async def test_a_wake_that_is_held_costs_no_looks(
    world: World, gateway: Gateway, session_holds: SessionHolds
) -> None:
    session_holds.sessions = {MAIN: None}
    async with run_loops(world, gateway, holds=session_holds):
        world.register(session_key=MAIN)
        await world.clock.advance(THRESHOLD + 5)
        looks = Looks(world)
        await world.clock.advance(600)

    assert gateway.received == []
    assert looks.times <= 2 * (600 / 60 + 2)


async def test_message_in_delivery_is_followed_by_none_and_few_looks(
    world: World, gateway: Gateway
) -> None:
    gateway.hangs = {MAIN}
    async with run_loops(world, gateway):
        task = world.register(session_key=MAIN)
        await world.clock.advance(THRESHOLD + 1)
        world.end_wait(world.open_wait(task))
        await world.clock.advance(1)
        looks = Looks(world)
        await world.clock.advance(100)
        second = [wake for wake in world.wakes() if wake.wait_id]
        assert [wake.attempts for wake in second] == [0]

    assert looks.times <= 2 * (100 / 60 + 2)


async def test_a_hold_that_ends_by_itself_ends_to_the_second(
    world: World, gateway: Gateway, session_holds: SessionHolds
) -> None:
    end = world.clock.now() + timedelta(seconds=THRESHOLD + 12)
    session_holds.sessions = {MAIN: end}

    async with run_loops(world, gateway, longest=3600, holds=session_holds):
        world.register(session_key=MAIN)
        await world.clock.advance(THRESHOLD + 11)
        assert gateway.received == []
        session_holds.sessions.clear()  # it is over without anybody saying so
        await world.clock.advance(1)

    assert [wake.session_key for wake in gateway.received] == [MAIN]


# --- with what gateways report --------------------------------------------------


class GatewaysWithLoops:
    """Gateways and loops as a daemon has them."""

    def __init__(self, world: World) -> None:
        self.loops: list[BackgroundLoops] = []
        self.gateways = Gateways(world.context, inline, self._free)

    def _free(self) -> None:
        for loops in self.loops:
            loops.recheck_holds()

    async def say(self, **event: Any) -> None:
        await self.gateways.take_report(self, {"events": [event]})

    async def hello(self, age: float = 60_000, boot: str = "boot_1") -> None:
        told = {"version": "1", "main": MAIN, "running": []}
        transport = {"transport": "openclaw-plugin"}
        await self.say(kind="gateway", boot=boot, age=age, **told, **transport)


async def test_wake_waits_for_a_running_turn_and_is_sent_at_its_end(
    world: World, gateway: Gateway
) -> None:
    reported = GatewaysWithLoops(world)
    holds = reported.gateways.build_hold_finder
    async with run_loops(world, gateway, longest=3600, holds=holds) as loops:
        reported.loops.append(loops)
        await reported.hello()
        world.register(session_key=MAIN)
        await reported.say(kind="turn_started", session_key=MAIN, running=[MAIN])
        await world.clock.advance(THRESHOLD + 600)
        assert gateway.received == []

        await reported.say(kind="turn_ended", session_key=MAIN, running=[])
        await world.clock.advance(0)

    assert len(gateway.received) == 1


async def test_background_rests_between_turns_while_its_chat_works(
    world: World, gateway: Gateway
) -> None:
    reported = GatewaysWithLoops(world)
    holds = reported.gateways.build_hold_finder
    session = Session(world)
    task = session.takes_up()
    session.call("task_background", task_id=task)
    away = Session(world, key=str(session.run(task).session_key))
    async with run_loops(world, gateway, longest=3600, holds=holds) as loops:
        reported.loops.append(loops)
        await reported.hello()
        await reported.say(kind="turn_started", session_key=MAIN, running=[MAIN])
        await world.clock.advance(1)
        assert [wake.session_key for wake in gateway.received] == [away.key]

        away.begins(Origin.TASKMEM)
        away.does("some work")
        away.ends()
        await world.clock.advance(60)
        assert len(gateway.received) == 1

        await reported.say(kind="turn_ended", session_key=MAIN, running=[])
        await world.clock.advance(0)
    assert [wake.session_key for wake in gateway.received] == [away.key] * 2


async def test_no_agent_is_woken_before_set_up_has_ended(
    world: World, gateway: Gateway, tmp_path: Path
) -> None:
    (tmp_path / "setup").mkdir()
    object.__setattr__(world.context, "home_folder", str(tmp_path))
    reported = GatewaysWithLoops(world)
    holds = reported.gateways.build_hold_finder
    async with run_loops(world, gateway, longest=3600, holds=holds):
        await reported.hello()
        with mark_running(tmp_path):
            world.register(session_key=MAIN)
            await world.clock.advance(THRESHOLD + 60)
            assert gateway.received == []
        await world.clock.advance(2)
    assert len(gateway.received) == 1


# --- what the transport says of it ----------------------------------------------


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({}, ("test", None)),
        ({"note": "turn: heartbeat"}, ("test", "turn: heartbeat")),
        ({"transport": "openclaw-cli"}, ("openclaw-cli", None)),
    ],
)
async def test_who_took_a_wake_and_what_was_said_of_it_are_kept(
    world: World, gateway: Gateway, said: dict[str, str], kept: tuple[str, str | None]
) -> None:
    async def deliver(_: Wake) -> WakeReceipt:
        return WakeReceipt(delivered_at=world.clock.now(), **said)

    gateway.deliver = deliver  # type: ignore[method-assign]
    async with run_loops(world, gateway):
        world.register()
        await world.clock.advance(THRESHOLD + 1)

    (wake,) = world.wakes(WakeState.SENT)
    assert (wake.transport, wake.note) == kept


async def test_go_on_wake_is_not_repeated_while_its_turn_runs(
    world: World, gateway: Gateway
) -> None:
    reported = GatewaysWithLoops(world)
    session = Session(world)
    async with run_loops(
        world, gateway, longest=3600, holds=reported.gateways.build_hold_finder
    ) as loops:
        reported.loops.append(loops)
        await reported.hello()
        session.begins()
        session.register()
        session.does("some work")
        session.ends()
        await world.clock.advance(1)
        assert len(gateway.received) == 1

        await reported.say(kind="turn_started", session_key=MAIN, running=[MAIN])
        await world.clock.advance(3 * world.context.policies.outbox.ack_seconds)
        assert len(gateway.received) == 1

        await reported.say(kind="turn_ended", session_key=MAIN, running=[])
        await world.clock.advance(world.context.policies.runs.idle_pauses[0])

    assert len(gateway.received) == 2
    assert gateway.received[0].wake_id != gateway.received[1].wake_id
