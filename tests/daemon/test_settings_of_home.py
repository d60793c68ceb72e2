"""Settings are the home's: whoever starts its daemon decides for no other host."""

from __future__ import annotations

import json

import pytest

from openclaw_taskmem.cli.client import connect
from tests.support.daemons import SOON, command
from tests.support.gateways import MAIN, FakeGateway
from tests.support.waiting import PATIENCE, until

HELLO = {
    "kind": "gateway",
    "boot": "boot_1",
    "age": 60_000,
    "transport": "openclaw-plugin",
    "version": "1",
    "host": "openclaw:one",
    "main": MAIN,
    "running": [],
}


@pytest.fixture
def gateway(home):
    """A gateway of the home, whose sessions take wakes."""
    home.prepare()
    with FakeGateway() as made:
        made.path = home.folder / "openclaw.sock"
        yield made.open()


def in_background(home, **settings):
    """Start a daemon as a command of a host does."""
    status, _, complained = command(home, "daemon", "--detach", **SOON, **settings)
    assert status == 0, complained


def wake_silent_agent(home):
    """Have an agent of the gateway fall silent; return its wake, once it was sent."""
    with connect(home, "gateway") as line:
        line.call("report", {"events": [HELLO]}, PATIENCE)
        given = {"name": "Deploy", "plan": ["Build"], "session_key": MAIN}
        asked = {"tool": "task_register", "arguments": given, "session_key": MAIN}
        line.call("call", asked, PATIENCE)
        with connect(home) as person:

            def look():
                wakes = person.call("wakes", {"all": True}, PATIENCE)
                return [wake for wake in wakes if wake["sent_at"]]

            return until(look, "the wake is sent")[0]


@pytest.mark.parametrize("named", ["stdout", "openclaw-cli"])
def test_connected_gateway_gets_wakes_whoever_started_the_daemon(home, gateway, openclaw, named):
    openclaw.install()
    settings = {"TASKMEM_OPENCLAW_BIN": str(openclaw.binary)}
    in_background(home, TASKMEM_WAKE_TRANSPORT=named, **settings)
    wake = wake_silent_agent(home)
    assert wake["transport"] == "openclaw-plugin"
    assert gateway.seen == [wake["text"]]
    assert openclaw.calls == []


def test_a_transport_that_the_homes_file_names_is_the_homes(home, gateway, openclaw):
    openclaw.install()
    home.config.write_text('wake_transport = "openclaw-cli"\n')
    (home.folder / "host.id").write_text("one")
    in_background(
        home,
        TASKMEM_WAKE_TRANSPORT="stdout",
        TASKMEM_OPENCLAW_BIN=str(openclaw.binary),
        OPENCLAW_STATE_DIR=str(home.folder.parent),
        HOME=str(home.folder.parent),
    )
    (home.folder.parent / "taskmem").symlink_to(home.folder)
    assert wake_silent_agent(home)["transport"] == "openclaw-cli"
    assert gateway.seen == []


def test_what_nobody_reads_is_kept_for_its_agent_not_sent(home):
    in_background(home, TASKMEM_WAKE_TRANSPORT="stdout")
    with connect(home) as person:
        given = {"name": "Deploy", "plan": ["Build"]}
        person.call("call", {"tool": "task_register", "arguments": given}, PATIENCE)

        def look():
            return person.call("wakes", {"all": True}, PATIENCE)

        [wake] = until(look, "the task is stuck")
        assert (wake["sent_at"], wake["state"]) == (None, "due")
    assert "[task_stuck_resume]" not in home.log.read_text()


def test_status_and_doctor_tell_what_the_daemon_really_uses(home):
    in_background(home, TASKMEM_WAKE_TRANSPORT="stdout")
    here = {**SOON, "TASKMEM_WAKE_TRANSPORT": "auto", "TASKMEM_NOTIFY": "off"}
    differs = [
        "The daemon has no TASKMEM_NOTIFY, and here it is off.",
        "The daemon has TASKMEM_WAKE_TRANSPORT=stdout, and here it is not set.",
    ]
    _, said, _ = command(home, "status", **here)
    assert ": stdout is named, and nobody reads" in said
    _, document, _ = command(home, "status", "--json", **here)
    assert json.loads(document)["differences"] == differs
    _, document, _ = command(home, "doctor", "--json", "--no-proof", **here)
    rows = {row["id"]: row for row in json.loads(document)["rows"]}
    assert "nobody reads" in rows["transport"]["detail"]
    named = [row for name, row in rows.items() if name.startswith("settings.")]
    assert [row["detail"] for row in named] == differs
    assert all(line in said for line in differs)
