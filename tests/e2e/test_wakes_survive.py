"""What can go wrong between a wake and its turn, each on the real gateway.

Every wake is consumed once, or is still owed and says why.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from secrets import token_hex
from threading import Event

import pytest

from tests.e2e.gateway import MAIN_SESSION
from tests.e2e.house import House, woken_by
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.taskmem import PLUGIN

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

RESTARTS = int(os.environ.get("TASKMEM_RESTARTS", "2"))
"""Graceful restarts of the gateway; TASKMEM_RESTARTS makes more of them."""
OTHER = "agent:main:other"
RESUMED = "Your previous turn was interrupted by a gateway restart"


def test_gateway_killed_before_the_turn_still_delivers_the_wake(house: House):
    house.gateway.say("hello")
    for number in range(5):
        wait = house.wake(f"try {number}")
        wake = until(
            lambda wait=wait: house.wake_of(wait) if house.wake_of(wait)["sent_at"] else None,
            "it is accepted",
        )
        house.gateway.kill()
        in_time = house.arrivals(wait) == 0
        house.gateway.start()
        again = house.reaches(wait, "acknowledged")
        assert again["wake_id"] == wake["wake_id"]
        if in_time:
            assert house.arrivals(wait) == 1
            return
        # The turn had begun; one that was cut counts as none.
        assert house.arrivals(wait) <= 2
    pytest.fail("every kill came too late")


def test_gateway_killed_in_the_turn_of_a_wake_delivers_it_again(house: House):
    house.gateway.say("hello")
    reached = Event()
    forever = Event()

    def wait_to_be_cut(request: ModelRequest) -> str:
        if woken_by(request) and not reached.is_set():
            reached.set()
            forever.wait(300)
        return "Done."

    house.model.decide = wait_to_be_cut
    wait = house.wake("now")
    assert reached.wait(120)
    house.gateway.kill()
    forever.set()
    assert house.wake_of(wait)["state"] == "sent"
    house.gateway.start()
    house.reaches(wait, "acknowledged")
    # The turn that was cut is resumed by OpenClaw, without what was put before it.
    resumed = [
        each for each in house.model.requests if RESUMED in each.turn.text and each.opens_turn
    ]
    assert len(resumed) == 1
    assert "[taskmem] watched.log" in resumed[0].turn.text
    assert house.arrivals(wait) == 2


def test_graceful_restart_loses_no_wake_and_leaves_no_process(house: House):
    house.gateway.say("hello")
    before = len(house.taskmem.room.processes())
    wait = house.open_wait("it restarts")

    def has_greeted() -> bool:
        return bool(house.ask("status")["gateways"])

    for n in range(RESTARTS):
        house.gateway.stop()
        until(lambda: not has_greeted(), "the gateway has left")
        if n == 0:
            house.end("it restarts")
            house.wake_of(wait)
        house.gateway.start(has_greeted if n < RESTARTS - 1 else None)
    house.reaches(wait, "acknowledged")
    assert house.arrivals(wait) == 1
    until(lambda: len(house.taskmem.room.processes()) == before, "nothing is left behind")


def test_daemon_killed_during_a_wakes_turn_learns_that_it_ended(house: House):
    house.gateway.say("hello")
    reached, go = Event(), Event()

    def slow(request: ModelRequest) -> Reply:
        if woken_by(request):
            reached.set()
            assert go.wait(300)
            return [Call("task_register", {"name": "Sow", "plan": ["Dig"]})]
        return "Done."

    house.model.decide = slow
    wait = house.wake("now")
    assert reached.wait(120)
    house.reaches(wait, "sent")
    os.kill(house.ask("status")["pid"], signal.SIGKILL)
    # The plug-in starts another one, and the turn goes on against that.
    until(lambda: house.answers, "another daemon runs")
    go.set()
    house.reaches(wait, "acknowledged")
    assert house.arrivals(wait) == 1
    [task] = until(lambda: house.call("task_list")["tasks"], "it is registered")
    assert house.ask("show", id=task["task_id"])["session_key"] == MAIN_SESSION


def test_changed_token_and_disabled_plugin_lose_no_wake(house: House):
    house.gateway.say("hello")
    # The gateway's token is nothing to the plug-in.
    house.gateway.token = token_hex(16)

    def change(found: dict) -> None:
        found["gateway"]["auth"]["token"] = house.gateway.token

    house.gateway.reconfigure(change)
    house.gateway.restart()
    first = house.wake("first")
    assert house.reaches(first, "acknowledged")["transport"] == "openclaw-plugin"
    assert house.arrivals(first) == 1

    # Switched off, another way is taken, and the wake says so.
    def switch(found: dict, *, on: bool) -> None:
        found["plugins"]["entries"]["taskmem"]["enabled"] = on

    house.gateway.reconfigure(lambda found: switch(found, on=False))
    until(lambda: house.ask("status")["gateways"] == [], "the plug-in has left")
    second = house.wake("second")
    sent = house.reaches(second, "sent", 240)
    assert sent["transport"] == "openclaw-cli"
    assert "openclaw-plugin: No gateway with the plug-in listens" in sent["note"]
    assert "openclaw-hooks: Webhooks are not switched on" in sent["note"]
    until(lambda: house.arrivals(second) == 1, "it has arrived")

    # Switched on again, it serves again, and what was seen does not come twice.
    house.gateway.reconfigure(lambda found: switch(found, on=True))
    until(lambda: house.ask("status")["gateways"], "the plug-in is back")
    third = house.wake("third")
    assert house.reaches(third, "acknowledged")["transport"] == "openclaw-plugin"
    assert house.arrivals(third) == 1
    assert house.arrivals(second) == 1


def test_webhook_refusing_its_token_is_named_and_used_once_fixed(house: House, tmp_path: Path):
    house.gateway.say("hello")
    token = token_hex(16)

    def by_webhooks(found: dict) -> None:
        found["plugins"]["entries"]["taskmem"]["enabled"] = False
        found["hooks"] = {"enabled": True, "token": token}
        found["hooks"]["allowRequestSessionKey"] = True

    house.gateway.reconfigure(by_webhooks)
    house.gateway.restart()
    # The daemon reads a configuration in which the token is another one.
    theirs = json.loads(house.gateway.room.config.read_text())
    stale = tmp_path / "stale.json"
    stale.write_text(json.dumps({**theirs, "hooks": {"enabled": True, "token": "old"}}))
    house.taskmem.restart({"OPENCLAW_CONFIG_PATH": str(stale)})
    first = house.wake("past the webhook")
    sent = house.reaches(first, "sent", 240)
    assert sent["transport"] == "openclaw-cli"
    assert "refuses its token (hooks.token)" in sent["note"]
    until(lambda: house.arrivals(first) == 1, "it has arrived")

    stale.write_text(json.dumps(theirs))
    second = house.wake("by the webhook")
    sent = house.reaches(second, "sent")
    assert sent["transport"] == "openclaw-hooks"
    assert "openclaw-plugin: No gateway with the plug-in listens" in sent["note"]
    until(lambda: house.arrivals(second) == 1, "it has arrived")
    assert house.arrivals(first) == 1


def test_plugin_upgrade_disturbs_no_agent_with_an_open_task(house: House, tmp_path: Path):
    newer = tmp_path / "newer"
    shutil.copytree(PLUGIN, newer)
    manifest = newer / "openclaw.plugin.json"
    described = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**described, "version": "99.0.0"}))
    house.gateway.say("hello")
    house.call("task_register", name="Reap", plan=["Cut"], session_key=MAIN_SESSION)

    def move(found: dict) -> None:
        found["plugins"]["load"]["paths"] = [str(newer)]

    wait = house.open_wait("the upgrade is over")
    house.gateway.reconfigure(move)

    def is_upgraded() -> bool:
        return [g["version"] for g in house.ask("status")["gateways"]] == ["99.0.0"]

    until(is_upgraded, "the new plug-in serves")
    house.end("the upgrade is over")
    wake = house.reaches(wait, "acknowledged")
    assert wake["transport"] == "openclaw-plugin"
    assert house.arrivals(wait) == 1
    [task] = until(lambda: house.call("task_list")["tasks"], "it is registered")
    assert task["name"] == "Reap"


SLOW = """
import { existsSync } from "node:fs";
import { setTimeout as rest } from "node:timers/promises";
async function start({ stateDir }) {
  while (!existsSync(`${stateDir}/go`)) await rest(50);
}
export default { id: "slow", register: (api) => api.registerService({ id: "slow", start }) };
"""


def add_slow_plugin(house: House, folder: Path) -> Path:
    """Have a plug-in start before ours; it takes until there is the file that is returned."""
    folder.mkdir()
    schema = {"type": "object", "additionalProperties": False, "properties": {}}
    manifest = {"id": "slow", "activation": {"onStartup": True}, "configSchema": schema}
    package = {"name": "slow", "type": "module", "openclaw": {"extensions": ["./index.js"]}}
    (folder / "openclaw.plugin.json").write_text(json.dumps(manifest))
    (folder / "package.json").write_text(json.dumps(package))
    (folder / "index.js").write_text(SLOW)

    def load_first(found: dict) -> None:
        found["plugins"]["load"]["paths"].insert(0, str(folder))
        found["plugins"]["entries"] = {"slow": {"enabled": True}, **found["plugins"]["entries"]}

    house.gateway.reconfigure(load_first)
    return house.gateway.room.state / "go"


def test_wake_awaits_a_gateway_that_loads_the_plugin_late(house: House, tmp_path: Path):
    house.gateway.say("hello", OTHER)
    house.gateway.stop()
    go = add_slow_plugin(house, tmp_path / "slow")
    house.gateway.start(house.gateway.listens)
    wait = house.wake("late", OTHER)

    def is_held() -> bool:
        return "is still starting" in (house.wake_of(wait)["last_error"] or "")

    until(is_held, "it waits for the plug-in", shown=lambda: house.wake_of(wait))
    go.touch()
    assert house.reaches(wait, "acknowledged", 240)["transport"] == "openclaw-plugin"
    assert house.arrivals(wait) == 1
