"""`taskmem doctor` on a real gateway: all is well, and each thing that is not is named.

Nothing is faked but the model.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any

import pytest

from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.home import find_home
from tests.e2e.agent import obedient
from tests.e2e.gateway import Gateway
from tests.e2e.house import House
from tests.e2e.room import Room, until
from tests.e2e.scripted_model import ModelRequest, Reply, ScriptedModel
from tests.e2e.shared_house import session_of
from tests.e2e.taskmem import PROGRAM, Taskmem

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

Rows = Mapping[str, Any]
MARK = "taskmem-doctor-"
LIMIT = 300
"""Seconds for one examination; it takes ten."""
SOUND = {"ok", "off"}
"""States of rows that ask for nothing: what is not in use is off."""

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}
SHARES_GATEWAY = True
LEAVES_IT_STOPPED = True


@pytest.fixture
def at_home(house: House) -> Gateway:
    """The gateway of this module; it runs."""
    return house.gateway


@pytest.fixture
def model(house: House) -> ScriptedModel:
    """Its model."""
    return house.model


@pytest.fixture
def room(at_home: Gateway) -> Room:
    """Its room."""
    return at_home.room


@pytest.fixture
def taskmem(house: House, room: Room) -> Taskmem:
    """The command, with what a user's own shell would have."""
    house.taskmem.settings["OPENCLAW_STATE_DIR"] = str(room.state)
    # A daemon that the gateway starts has its environment, which does not say it.
    config = room.taskmem / "config.toml"
    config.write_text("stuck_threshold_seconds = 3600\n")
    return house.taskmem


def examine(taskmem: Taskmem, *more: str) -> Rows:
    """Run `taskmem doctor --json`, and give its rows by id."""
    done = taskmem.try_run("doctor", "--json", *more, limit=LIMIT)
    assert done.stderr == ""
    found = json.loads(done.stdout)
    rows = {row["id"]: row for row in found["rows"]}
    assert len(rows) == len(found["rows"])
    failing = [row for row in rows.values() if row["state"] == "fail"]
    assert (done.returncode == 0) is found["ok"] is (not failing)
    assert all(row["cure"] for row in rows.values() if row["state"] not in SOUND)
    return rows


def list_odd_rows(rows: Rows) -> dict[str, str]:
    """What is not as it should be."""
    return {name: row["state"] for name, row in rows.items() if row["state"] not in SOUND}


def sessions(gateway: Gateway) -> list[str]:
    """The sessions that the gateway knows."""
    with gateway.rpc() as rpc:
        return [row["key"] for row in rpc.call("sessions.list")["sessions"]]


def gateways(taskmem: Taskmem) -> list[dict[str, Any]]:
    """The gateways that are connected to the daemon, if one answers."""
    try:
        with connect(find_home(taskmem.environment)) as link:
            return link.call("status", {}, 120)["gateways"]
    except LinkError:
        return []


def entry_of(config: dict[str, Any]) -> dict[str, Any]:
    """What the operator has set for the plug-in."""
    return config["plugins"]["entries"]["taskmem"]


def leaves(gateway: Gateway, taskmem: Taskmem, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the configuration, and wait until the plug-in has left this daemon."""
    gateway.reconfigure(change)
    until(lambda: not gateways(taskmem), "the plug-in has left")


def test_doctor_proves_a_wake_and_leaves_nothing_behind(
    at_home: Gateway, model: ScriptedModel, taskmem: Taskmem, room: Room
):
    model.decide = obedient
    at_home.say("hello")
    before = sessions(at_home)
    files = sorted(each.name for each in room.taskmem.iterdir())

    rows = examine(taskmem)

    assert list_odd_rows(rows) == {}
    assert "openclaw-plugin" in rows["openclaw.wake"]["detail"]
    for hook in (
        *("session_start", "agent_event", "turn_ended"),
        *("after_tool_call", "before_prompt_build"),
    ):
        assert f"openclaw.hook.{hook}" in rows
    assert sessions(at_home) == before
    assert sorted(each.name for each in room.taskmem.iterdir()) == files
    for what in (("wakes", "--all"), ("waits", "--all"), ("events",)):
        assert json.loads(taskmem.run(*what, "--json")) == [], what

    # Two turns of a model, and without the proof none.
    assert count_trial_turns(model) == 2
    assert list_odd_rows(examine(taskmem, "--no-proof")) == {}
    assert count_trial_turns(model) == 2


def count_trial_turns(model: ScriptedModel) -> int:
    """The turns in sessions of the doctor; sessions of modules before may still have some."""
    turns = (each for each in model.requests if each.opens_turn)
    return sum("taskmem-doctor-" in (session_of(each) or "") for each in turns)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_examination_that_is_broken_off_leaves_nothing_behind(
    at_home: Gateway, model: ScriptedModel, taskmem: Taskmem, room: Room, number: signal.Signals
):
    asked, answer = Event(), Event()

    def slow(request: ModelRequest) -> Reply:
        asked.set()
        answer.wait(240)
        return obedient(request)

    model.decide = slow
    with subprocess.Popen(
        [str(PROGRAM), "doctor"],
        env=room.environment(taskmem.environment),
        stdout=subprocess.PIPE,
        text=True,
    ) as doctor:
        assert asked.wait(240)
        assert any(MARK in key for key in sessions(at_home))
        os.kill(doctor.pid, number)
        answer.set()
        assert doctor.wait(240) == 128 + number
    until(lambda: not any(MARK in key for key in sessions(at_home)), "the session is gone")
    assert list(room.taskmem.glob("doctor-*")) == []
    assert taskmem.waits() == []


def test_doctor_waits_for_the_gateway_after_the_daemon_has_ended(
    at_home: Gateway, model: ScriptedModel, taskmem: Taskmem
):
    model.decide = obedient
    until(lambda: gateways(taskmem), "the plug-in is connected")

    def kill_daemon() -> None:
        os.kill(json.loads(taskmem.run("status", "--json"))["pid"], signal.SIGKILL)

    for end in (taskmem.stop, kill_daemon):
        end()
        rows = examine(taskmem, "--no-proof")
        assert list_odd_rows(rows) == {}
        assert "A gateway is connected" in rows["openclaw.gateway"]["detail"]


def test_each_broken_link_is_named_with_its_cure(
    house: House, at_home: Gateway, model: ScriptedModel, taskmem: Taskmem, room: Room
):
    # Conversations are not shown to the plug-in: it works, and something is lost.
    model.decide = obedient
    house.load_anew(lambda config: entry_of(config).pop("hooks"))
    rows = examine(taskmem)
    assert list_odd_rows(rows) == {
        "openclaw.conversation": "warn",
        "openclaw.hook.before_prompt_build": "warn",
    }
    assert "allowConversationAccess true" in rows["openclaw.conversation"]["cure"]

    # A tool policy hides the tools, and the model calls none.
    def narrow(config: dict[str, Any]) -> None:
        config["tools"] = {"profile": "minimal"}

    model.decide = lambda _: "I have no such tool."
    at_home.reconfigure(narrow)
    rows = examine(taskmem)
    assert list_odd_rows(rows)["openclaw.tools"] == "fail"
    assert list_odd_rows(rows)["openclaw.hook.after_tool_call"] == "warn"
    assert rows["openclaw.tools"]["cure"] == "Run: taskmem setup openclaw"
    at_home.reconfigure(lambda config: config.pop("tools"))

    # The plug-in speaks with another home's daemon.
    elsewhere = room.root / "elsewhere"

    def move(config: dict[str, Any]) -> None:
        entry_of(config)["config"]["home"] = str(elsewhere)

    leaves(at_home, taskmem, move)
    other = Taskmem(room, {**taskmem.settings, "TASKMEM_HOME": str(elsewhere)})
    until(lambda: gateways(other), "the plug-in has come to the other home")
    try:
        rows = examine(taskmem)
        assert list_odd_rows(rows)["openclaw.home"] == "fail"
        assert str(elsewhere) in rows["openclaw.home"]["detail"]
        assert rows["openclaw.home"]["cure"].startswith("Run: taskmem setup openclaw")
        assert list_odd_rows(rows)["openclaw.gateway"] == "fail"
        assert "openclaw.wake" not in rows
    finally:
        at_home.reconfigure(lambda config: entry_of(config).update(enabled=False))
        until(lambda: not gateways(other), "the plug-in has left that, too")
        other.stop()

    # The plug-in is switched off.
    rows = examine(taskmem)
    assert list_odd_rows(rows)["openclaw.plugin"] == "fail"
    assert rows["openclaw.plugin"]["cure"] == "Run: openclaw plugins enable taskmem"

    # The gateway is down.
    at_home.stop()
    rows = examine(taskmem)
    assert list_odd_rows(rows)["openclaw.gateway"] == "fail"
    assert rows["openclaw.gateway"]["cure"].startswith("Run: openclaw gateway start")
