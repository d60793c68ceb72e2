"""From the outbox by the plug-in to a turn, and what that tells the daemon."""

import asyncio
import json

import pytest

from openclaw_taskmem.daemon.gateways import Gateways
from openclaw_taskmem.engine import wakes
from taskmem_hookspecs import WakeReceipt
from taskmem_openclaw.transports.plugin import OpenClawPlugin
from tests.daemon.looped import inline
from tests.support.gateways import MAIN


@pytest.fixture
def sent(gateway, world):
    """Delivers what is due, as the daemon does."""
    gateway.open().quick = False

    def send():
        (delivery,) = world.claim()
        receipt = asyncio.run(OpenClawPlugin(gateway.environ).deliver(delivery.message))
        assert isinstance(receipt, WakeReceipt)
        wakes.delivered(world.shell, delivery, "openclaw-plugin", receipt.note)

    return send


@pytest.fixture
def report(gateway, world):
    """Takes what the plug-in tells, as the daemon does, and returns what it makes."""
    gateways = Gateways(world.shell, inline, lambda: None)

    def take():
        asyncio.run(gateways.report(gateway, {"events": gateway.told}))
        gateway.told.clear()
        return [wake.state.value for wake in world.wakes()]

    return take


def test_the_turn_that_takes_a_message_acknowledges_every_wake_in_it(
    gateway, world, sent, report
):
    task = world.register(session_key=MAIN)
    for _ in range(2):
        world.end_wait(world.open_wait(task))
    sent()
    gateway.begin(MAIN)
    assert report() == ["sent", "sent"]
    gateway.model_answers(MAIN)
    assert report() == ["acknowledged"] * 2
    gateway.end(MAIN, error="cut off")
    assert report() == ["acknowledged"] * 2
    (text,) = gateway.seen
    assert len(text.splitlines()) == 2


def test_a_message_whose_turn_failed_comes_again_and_is_seen_once_more(
    gateway, world, sent, report
):
    task = world.register(session_key=MAIN)
    world.clock.tick(300)
    world.sweep()
    for error, becomes in (("503", "due"), (None, "acknowledged")):
        sent()
        gateway.begin(MAIN)
        gateway.end(MAIN, error)
        assert report() == [becomes]
        world.clock.tick(5)
    packets = [json.loads(text.partition(" ")[2]) for text in gateway.seen]
    assert [packet["task_id"] for packet in packets] == [task, task]


def test_what_arrived_before_a_crash_is_told_when_it_is_sent_again(
    gateway, world, report
):
    gateway.open()
    world.register(session_key=MAIN)
    world.clock.tick(300)
    world.sweep()
    (delivery,) = world.claim()
    asyncio.run(OpenClawPlugin(gateway.environ).deliver(delivery.message))
    gateway.told.clear()  # the daemon died before it wrote anything down
    world.clock.tick(300)
    (again,) = world.claim()
    receipt = asyncio.run(OpenClawPlugin(gateway.environ).deliver(again.message))
    wakes.delivered(world.shell, again, "openclaw-plugin", receipt.note)
    assert report() == ["acknowledged"]
    assert len(gateway.seen) == 1
