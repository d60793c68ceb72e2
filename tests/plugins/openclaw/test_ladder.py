"""`auto`: the best way to the gateway that is there, and none after it."""

import asyncio
import sys

import pytest

from taskmem_hookspecs import (
    SelectiveTransport,
    WakeReceipt,
    WakeRefused,
    WakeTransport,
    WakeUndelivered,
)
from taskmem_hookspecs.testing import DAWN, a_wake
from taskmem_openclaw import hooks
from taskmem_openclaw.transports.auto import FirstAvailable, TransportUnavailable
from taskmem_openclaw.transports.cli import OpenClawCli
from taskmem_openclaw.transports.plugin import PluginTransport
from taskmem_openclaw.transports.stdout import Stdout
from taskmem_openclaw.transports.webhook import WebhookTransport
from tests.support.gateways import MAIN

NOTES = f"""#!{sys.executable} -IS
import os
with open(os.path.join(os.path.dirname(__file__), "calls"), "a") as calls:
    calls.write("called\\n")
"""
"""An `openclaw` that notes that it was called."""


class Rung:
    """A way that does as it is told."""

    def __init__(self, name, outcome=None):
        self.name = name
        self.outcome = outcome or WakeReceipt(delivered_at=DAWN)
        self.asked = []

    async def deliver(self, wake):
        self.asked.append(wake)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def deliver(*rungs):
    return asyncio.run(FirstAvailable(rungs).deliver(a_wake()))


def test_it_plays_the_part():
    assert isinstance(FirstAvailable([]), WakeTransport)
    assert FirstAvailable([]).name == "openclaw"


def test_the_first_that_takes_it_is_the_one_that_is_named():
    first, second = Rung("first"), Rung("second")
    receipt = deliver(first, second)
    assert receipt == WakeReceipt(delivered_at=DAWN, transport="first")
    assert len(first.asked) == 1
    assert second.asked == []


def test_what_the_one_that_takes_it_says_is_kept():
    said = WakeReceipt(delivered_at=DAWN, note="turn: heartbeat")
    assert deliver(Rung("first", said)).note == "turn: heartbeat"


def test_ladder_notes_each_missing_way_and_tries_the_next():
    said = WakeReceipt(delivered_at=DAWN, note="It took long.")
    receipt = deliver(
        Rung("first", TransportUnavailable("Nobody listens.")),
        Rung("second", TransportUnavailable("Not switched on.")),
        Rung("third", said),
    )
    assert receipt.transport == "third"
    assert receipt.note == ("first: Nobody listens. second: Not switched on. It took long.")


@pytest.mark.parametrize("seconds", [0.0, 42.0, None])
def test_when_the_one_that_is_there_expects_to_work_is_passed_on(seconds):
    rung = Rung("second", WakeUndelivered("Not now.", seconds))
    with pytest.raises(WakeUndelivered) as raised:
        deliver(Rung("first", TransportUnavailable("Nobody listens.")), rung)
    assert raised.value.retry_seconds == seconds


@pytest.mark.parametrize("error", [WakeUndelivered, WakeRefused])
def test_ladder_ends_at_a_way_that_exists_but_fails(error):
    last = Rung("third")
    with pytest.raises(error, match="not now") as raised:
        deliver(
            Rung("first", TransportUnavailable("Nobody listens.")),
            Rung("second", error("not now")),
            last,
        )
    assert not isinstance(raised.value, TransportUnavailable)
    assert last.asked == []


def test_what_is_undelivered_says_all_that_was_tried():
    with pytest.raises(WakeUndelivered) as raised:
        deliver(
            Rung("first", TransportUnavailable("Nobody listens.")),
            Rung("second", WakeUndelivered("It hangs.")),
        )
    assert str(raised.value) == "first: Nobody listens. second: It hangs."


def test_where_no_way_is_there_nothing_is_delivered():
    with pytest.raises(WakeUndelivered) as raised:
        deliver(
            Rung("first", TransportUnavailable("One.")),
            Rung("second", TransportUnavailable("Two.")),
        )
    assert str(raised.value) == "first: One. second: Two."


def test_what_waits_says_only_what_it_waits_for():
    with pytest.raises(WakeUndelivered) as raised:
        deliver(
            Rung("first", TransportUnavailable("It is not set up.", waits=True)),
            Rung("second", WakeUndelivered("It hangs.")),
        )
    assert (str(raised.value), raised.value.waits) == ("It is not set up.", True)


# --- the ways there are -------------------------------------------------------


def test_auto_is_the_plugin_then_webhooks_then_the_command_line():
    ladder = hooks.wake_transport("auto")
    assert isinstance(ladder, FirstAvailable)
    kinds = [type(rung) for rung in ladder._rungs]
    assert kinds == [PluginTransport, WebhookTransport, OpenClawCli]


def test_a_name_of_another_transport_is_left_to_it():
    assert isinstance(hooks.wake_transport("stdout"), Stdout)
    assert hooks.wake_transport("ntfy") is None


@pytest.fixture
def auto(gateway, tmp_path):
    """All ways into a gateway, of which only the command is there."""
    binary = tmp_path / "openclaw"
    binary.write_text(NOTES)
    binary.chmod(0o700)
    environ = {**gateway.environ, "HOME": str(tmp_path), "TASKMEM_OPENCLAW_BIN": str(binary)}
    return FirstAvailable(
        [PluginTransport(environ), WebhookTransport(environ), OpenClawCli(environ)]
    )


def send(auto):
    return asyncio.run(auto.deliver(a_wake(session_key=MAIN, delivery_id="d")))


def test_gateway_without_plugin_and_webhooks_gets_wakes_by_cli(auto, tmp_path):
    receipt = send(auto)
    assert receipt.transport == "openclaw-cli"
    assert receipt.note.startswith("openclaw-plugin: No gateway with the plug-in")
    assert "openclaw-hooks: Webhooks are not switched on" in receipt.note
    assert (tmp_path / "calls").read_text() == "called\n"


def test_a_plugin_that_is_there_is_all_that_is_used(auto, gateway, tmp_path):
    gateway.open()
    assert send(auto).transport == "openclaw-plugin"
    gateway.quick, gateway.idle = False, True
    with pytest.raises(WakeUndelivered, match="openclaw-plugin: The plug-in did not"):
        asyncio.run(auto.deliver(a_wake(wake_id="wake_2", session_key=MAIN)))
    assert not (tmp_path / "calls").exists()


# --- whom they reach ------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("openclaw", True),
        ("openclaw:one", True),
        ("openclaws", False),
        ("mcp:openclaw-bundle-mcp", True),
        (None, True),
        ("mcp:claude-code", False),
        ("mcp", False),
        ("shell:codex", False),
    ],
)
@pytest.mark.parametrize("name", ["openclaw-plugin", "openclaw-hooks", "openclaw-cli"])
def test_what_goes_to_openclaw_reaches_its_own_agents(name, host, reached):
    transport = hooks.wake_transport(name)
    assert isinstance(transport, SelectiveTransport)
    assert transport.reaches(host, None) is reached
    assert FirstAvailable([]).reaches(host, MAIN) is reached


def test_auto_reaches_no_session_that_is_not_known():
    assert not FirstAvailable([]).reaches("openclaw", None)


def test_the_standard_output_reaches_everybody():
    assert not isinstance(hooks.wake_transport("stdout"), SelectiveTransport)
