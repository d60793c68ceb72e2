"""Wakes that a gateway keeps back: none is lost, and none costs a look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from openclaw_taskmem.daemon.gateways import Gateways
from openclaw_taskmem.daemon.loops import Loops
from openclaw_taskmem.domain.gateway import Hold
from openclaw_taskmem.engine import wakes
from taskmem_hookspecs import FOREVER, Wake, WakeQuery, WakeReceipt, WakeState
from tests.daemon.looped import Gateway, inline, running
from tests.support.sessions import Session
from tests.support.world import World

THRESHOLD = 300
MAIN, OTHER = "agent:main:main", "agent:main:other"


@pytest.fixture
def gateway(world: World) -> Gateway:
    return Gateway(world.clock)


class Held:
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
def held() -> Held:
    return Held()


async def test_a_wake_that_is_held_goes_out_the_moment_its_session_is_free(
    world: World, gateway: Gateway, held: Held
) -> None:
    held.sessions = {MAIN: None}
    async with running(world, gateway, longest=3600, holds=held) as loops:
        world.register(session_key=MAIN)
        await world.clock.advance(THRESHOLD + 600)
        assert gateway.received == []
        (owed,) = world.wakes()
        assert (owed.state, owed.attempts, owed.last_error) == ("due", 0, None)

        held.sessions.clear()
        loops.free()
        await world.clock.advance(0)

    assert [wake.session_key for wake in gateway.received] == [MAIN]


async def test_a_wake_that_is_held_costs_no_looks(
    world: World, gateway: Gateway, held: Held
) -> None:
    held.sessions = {MAIN: None}
    async with running(world, gateway, holds=held):
        world.register(session_key=MAIN)
        await world.clock.advance(THRESHOLD + 5)
        looks = Looks(world)
        await world.clock.advance(600)

    assert gateway.received == []
    assert looks.times <= 2 * (600 / 60 + 2)


async def test_a_message_on_its_way_is_followed_by_none_and_costs_no_looks(
    world: World, gateway: Gateway
) -> None:
    gateway.hangs = {MAIN}
    async with running(world, gateway):
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
    world: World, gateway: Gateway, held: Held
) -> None:
    end = world.clock.now() + timedelta(seconds=THRESHOLD + 12)
    held.sessions = {MAIN: end}

    async with running(world, gateway, longest=3600, holds=held):
        world.register(session_key=MAIN)
        await world.clock.advance(THRESHOLD + 11)
        assert gateway.received == []
        held.sessions.clear()  # it is over without anybody saying so
        await world.clock.advance(1)

    assert [wake.session_key for wake in gateway.received] == [MAIN]


# --- with what gateways report --------------------------------------------------


class Reported:
    """Gateways and loops as a daemon has them."""

    def __init__(self, world: World) -> None:
        self.loops: list[Loops] = []
        self.gateways = Gateways(world.shell, inline, self._free)

    def _free(self) -> None:
        for loops in self.loops:
            loops.free()

    async def say(self, **event: Any) -> None:
        await self.gateways.report(self, {"events": [event]})

    async def hello(self, age: float = 60_000, boot: str = "boot_1") -> None:
        told = {"version": "1", "main": MAIN, "running": []}
        transport = {"transport": "openclaw-plugin"}
        await self.say(kind="gateway", boot=boot, age=age, **told, **transport)


async def test_a_turn_that_runs_is_not_disturbed_and_its_end_lets_the_wake_go(
    world: World, gateway: Gateway
) -> None:
    reported = Reported(world)
    holds = reported.gateways.holds
    async with running(world, gateway, longest=3600, holds=holds) as loops:
        reported.loops.append(loops)
        await reported.hello()
        world.register(session_key=MAIN)
        await reported.say(kind="turn_started", session_key=MAIN, running=[MAIN])
        await world.clock.advance(THRESHOLD + 600)
        assert gateway.received == []

        await reported.say(kind="turn_ended", session_key=MAIN, running=[])
        await world.clock.advance(0)

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
    world: World,
    gateway: Gateway,
    said: dict[str, str],
    kept: tuple[str, str | None],
) -> None:
    async def deliver(_: Wake) -> WakeReceipt:
        return WakeReceipt(delivered_at=world.clock.now(), **said)

    gateway.deliver = deliver  # type: ignore[method-assign]
    async with running(world, gateway):
        world.register()
        await world.clock.advance(THRESHOLD + 1)

    (wake,) = world.wakes(WakeState.SENT)
    assert (wake.transport, wake.note) == kept


async def test_a_word_to_go_on_is_not_said_again_while_the_turn_it_began_runs(
    world: World, gateway: Gateway
) -> None:
    reported = Reported(world)
    session = Session(world)
    async with running(
        world, gateway, longest=3600, holds=reported.gateways.holds
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
        await world.clock.advance(3 * world.shell.outbox.ack_seconds)
        assert len(gateway.received) == 1

        await reported.say(kind="turn_ended", session_key=MAIN, running=[])
        await world.clock.advance(world.shell.runs.idle_pauses[0])

    assert len(gateway.received) == 2
    assert gateway.received[0].wake_id != gateway.received[1].wake_id
