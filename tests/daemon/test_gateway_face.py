"""The face of a gateway, through the socket of a real daemon."""

from __future__ import annotations

import json

import pytest

from openclaw_taskmem.faces.link import LinkError, connect
from tests.support.daemons import rows
from tests.support.waiting import PATIENCE, until

MAIN, OTHER = "agent:main:main", "agent:main:other"
SOON = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "0.05"}


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


def known(daemon):
    return [gateway["boot"] for gateway in daemon.ask("status")["gateways"]]


def state(daemon):
    (wake,) = daemon.wakes()
    return wake["state"]


def test_a_gateway_is_known_from_its_hello_until_it_hangs_up(daemon, gateway):
    assert known(daemon) == []
    assert report(gateway, hello()) == {}
    assert known(daemon) == ["boot_1"]
    gateway.close()
    until(lambda: known(daemon) == [], "the gateway is forgotten")


def test_two_gateways_are_two(daemon, gateway):
    report(gateway, hello())
    with connect(daemon.home, "gateway") as second:
        report(second, hello(boot="boot_2"))
        assert sorted(known(daemon)) == ["boot_1", "boot_2"]
    until(lambda: known(daemon) == ["boot_1"], "the second is forgotten")


def test_an_agent_in_the_gateway_calls_as_itself(daemon, gateway):
    given = {"name": "Deploy", "plan": ["Build"]}
    asked = {"tool": "task_register", "arguments": given, "session_key": MAIN}
    task_id = gateway.call("call", asked, PATIENCE)["task_id"]
    assert daemon.ask("show", id=task_id)["session_key"] == MAIN
    answer = gateway.call("packet", {"session_key": MAIN, "age": None}, PATIENCE)
    assert answer["task_id"] == task_id
    assert answer["text"].startswith("[task_resume] {")


def test_what_a_gateway_may_not_ask_is_refused_and_the_line_stays(daemon, gateway):
    with pytest.raises(LinkError, match="older than the plug-in"):
        gateway.call("wakes", {}, PATIENCE)
    with pytest.raises(LinkError, match=r"In a report, events\.age"):
        report(gateway, hello(age=-1))
    gateway.socket.sendall(b"nonsense\n")
    assert json.loads(gateway.socket.makefile("rb").readline())["id"] is None
    assert report(gateway, hello()) == {}


def held(daemon):
    """The wake that is held, once nothing else goes on."""

    def look():
        wakes = daemon.wakes()
        due = [wake for wake in wakes if wake["state"] == "due"]
        return due if len(due) == 1 and due[0]["held"] else None

    (wake,) = until(look, "one wake is held, and all others are out")
    daemon.ask("status")
    return wake


def test_a_wake_waits_for_the_turn_that_runs_and_follows_it_at_once(start):
    daemon = start(**SOON, TASKMEM_STUCK_INTERVAL_SECONDS="3600")
    with connect(daemon.home, "gateway") as gateway:
        report(gateway, hello(MAIN))
        daemon.register(session_key=MAIN)
        other = daemon.register(session_key=OTHER)
        assert daemon.out.wait_for(other)
        wake = held(daemon)
        assert (wake["session_key"], wake["attempts"]) == (MAIN, 0)
        assert wake["held"] == "a turn of the session is running"
        report(gateway, {"kind": "turn_ended", "session_key": MAIN, "running": []})
        assert daemon.out.wait_for(wake["task_id"])


def test_what_a_turn_took_is_acknowledged_and_what_failed_is_not(start):
    daemon = start(**SOON, TASKMEM_STUCK_INTERVAL_SECONDS="3600")
    with connect(daemon.home, "gateway") as gateway:
        report(gateway, hello())
        task_id = daemon.register(session_key=MAIN)
        for sent, error, becomes in ((1, "503", "due"), (2, None, "acknowledged")):
            assert daemon.out.wait_for(task_id, times=sent)
            until(lambda: state(daemon) == "sent", "the wake is written down")
            turn = {"session_key": MAIN, "running": [], "error": error}
            ended = {"kind": "turn_ended", **turn, "deliveries": deliveries(daemon)}
            report(gateway, ended)
            assert state(daemon) == becomes


def deliveries(daemon):
    """The delivery of the only wake, as the plug-in was told it."""
    return [
        delivery for (delivery,) in rows(daemon.home, "SELECT delivery_id FROM wakes")
    ]


def test_a_gateway_that_dies_in_a_turn_holds_nobody_up(start):
    daemon = start(**SOON, TASKMEM_STUCK_INTERVAL_SECONDS="3600")
    gateway = connect(daemon.home, "gateway")
    report(gateway, hello(MAIN))
    task_id = daemon.register(session_key=MAIN)
    assert held(daemon)["task_id"] == task_id
    gateway.close()
    assert daemon.out.wait_for(task_id)


def test_who_has_said_hello_before_a_restart_is_known_after_it(start):
    """The plug-in says hello to every daemon that it reaches."""
    daemon = start()
    with connect(daemon.home, "gateway") as gateway:
        report(gateway, hello())
    daemon.restart()
    assert known(daemon) == []
    with connect(daemon.home, "gateway") as gateway:
        report(gateway, hello())
        assert known(daemon) == ["boot_1"]
