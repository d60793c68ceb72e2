"""Sessions as callers name them, and wakes as they are shown."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_taskmem.domain.wakes.outbox import Hold
from openclaw_taskmem.engine import wakes
from openclaw_taskmem.tools import views
from taskmem_hookspecs import WakeState
from tests.support.world import PERSON, World


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("agent:main:Main", "agent:main:main"),
        ("agent:Ops:telegram:group:-100ABC", "agent:ops:telegram:group:-100abc"),
        ("Build Server 7", "Build Server 7"),
        ("xagent:Main", "xagent:Main"),
    ],
)
def test_openclaw_session_key_is_kept_as_its_gateway_writes_it(
    world: World, given: str, kept: str
) -> None:
    task = world.register(session_key=given)
    told = world.call("smart_wait", target="pty:x", wake_when="x ends", session_key=given)

    assert world.task(task).session_key == kept
    assert world.store.read_wait(told["wait_id"]).session_key == kept


def test_whoever_writes_a_session_another_way_means_the_same(world: World) -> None:
    task = world.register(session_key="agent:main:main")
    world.pass_time(300)
    named = {"task_id": task, "session_key": "agent:Main:MAIN"}

    world.call("task_update", PERSON, message="Awake.", **named)

    assert [wake.state for wake in world.wakes()] == [WakeState.ACKNOWLEDGED]


# --- how wakes are shown --------------------------------------------------------


def hold_session(session_key: str | None) -> Hold | None:
    return Hold(why="a turn runs") if session_key == "s" else None


def list_wakes(world: World, holds: wakes.Holds = hold_session, **params: object) -> list[Any]:
    return list(views.list_wakes(world.context, params, holds))


def test_a_wake_that_is_due_says_why_it_is_held(world: World) -> None:
    for session in ("s", "t"):
        world.register(session_key=session)
    world.clock.tick(300)
    world.sweep()

    by_session = {wake["session_key"]: wake["held"] for wake in list_wakes(world)}

    assert by_session == {"s": "a turn runs", "t": None}
    assert {wake["held"] for wake in list_wakes(world, wakes.hold_nothing)} == {None}


def test_a_wake_that_is_out_is_held_by_nothing(world: World) -> None:
    task = world.register(session_key="s")
    world.pass_time(300)
    assert [(w["state"], w["held"]) for w in list_wakes(world)] == [("sent", None)]

    world.narrate(task)
    assert [w["held"] for w in list_wakes(world, all=True)] == [None]


def test_what_the_transport_said_of_a_wake_is_shown(world: World) -> None:
    task = world.register()
    world.clock.tick(300)
    world.sweep()
    (delivery,) = world.claim()
    assert [wake["note"] for wake in list_wakes(world)] == [None]

    wakes.settle_delivered(world.context, delivery, "openclaw-plugin", "turn: heartbeat")

    assert [wake["note"] for wake in list_wakes(world)] == ["turn: heartbeat"]
    in_task: Any = views.show_by_id(world.context, task)
    assert [wake["note"] for wake in in_task["wakes"]] == ["turn: heartbeat"]
