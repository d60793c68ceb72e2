"""Calls of a gateway, through the socket of a real daemon."""

from __future__ import annotations

import json

import pytest

from openclaw_taskmem.cli.client import LinkError, connect
from tests.support.daemons import SOON
from tests.support.gateways import MAIN
from tests.support.waiting import PATIENCE, until


def hello(*running, age=60_000, boot="boot_1"):
    return {
        "kind": "gateway",
        "boot": boot,
        "age": age,
        "transport": "stdout",
        "version": "1",
        "main": MAIN,
        "running": running,
    }


def report(link, *events):
    return link.call("report", {"events": events}, PATIENCE)


@pytest.fixture
def gateway(daemon):
    """The line that a gateway's plug-in has to the daemon."""
    with connect(daemon.home, "gateway") as link:
        yield link


def list_boots(daemon):
    return [gateway["boot"] for gateway in daemon.ask("status")["gateways"]]


def test_each_gateway_is_known_from_its_hello_until_it_hangs_up(daemon, gateway):
    assert list_boots(daemon) == []
    assert report(gateway, hello()) == {}
    with connect(daemon.home, "gateway") as second:
        report(second, hello(boot="boot_2"))
        assert sorted(list_boots(daemon)) == ["boot_1", "boot_2"]
    until(lambda: list_boots(daemon) == ["boot_1"], "the second is forgotten")
    gateway.close()
    until(lambda: list_boots(daemon) == [], "the first is forgotten")


def test_forbidden_gateway_call_is_refused_and_connection_stays(daemon, gateway):
    with pytest.raises(LinkError, match="older than the plug-in"):
        gateway.call("wakes", {}, PATIENCE)
    with pytest.raises(LinkError, match=r"In a report, events\.age"):
        report(gateway, hello(age=-1))
    gateway.socket.sendall(b"nonsense\n")
    assert json.loads(gateway.socket.makefile("rb").readline())["id"] is None
    assert report(gateway, hello()) == {}


def test_a_daemon_takes_names_of_sessions_from_the_agent_host(daemon):
    task_id = daemon.register(session_key="agent:Main:Main")
    assert daemon.ask("show", id=task_id)["session_key"] == MAIN


def find_held_wake(daemon):
    """The wake that is held, once nothing else goes on."""

    def look():
        wakes = daemon.wakes()
        due = [wake for wake in wakes if wake["state"] == "due"]
        return due if len(due) == 1 and due[0]["held"] else None

    (wake,) = until(look, "one wake is held, and all others are out")
    daemon.ask("status")
    return wake


def test_a_gateway_that_dies_in_a_turn_holds_nobody_up(start):
    daemon = start(**SOON, TASKMEM_STUCK_INTERVAL_SECONDS="3600")
    gateway = connect(daemon.home, "gateway")
    report(gateway, hello(MAIN))
    task_id = daemon.register(session_key=MAIN)
    assert find_held_wake(daemon)["task_id"] == task_id
    gateway.close()
    assert daemon.out.wait_for(task_id)
