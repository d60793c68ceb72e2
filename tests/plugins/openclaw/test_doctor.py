"""Every row of OpenClaw's side of `taskmem doctor`, in each of its states."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_hookspecs import DoctorCheck, DoctorState, TaskmemError
from taskmem_hookspecs.testing import check_plugin
from taskmem_openclaw import configuration
from taskmem_openclaw.doctor import rows as openclaw_rows
from taskmem_openclaw.setup import package_files
from taskmem_setup import find_command
from tests.support.gateways import FakeGateway
from tests.support.waiting import PATIENCE

OK, OFF, WARN, FAIL = DoctorState
FOLDER = package_files.find_plugin().folder
SETUP = "taskmem setup openclaw"
CONNECTED = {
    "version": package_files.read_version(),
    "started_at": "2026-11-22T06:00:00.000Z",
    "main_session": "agent:main:main",
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(openclaw_rows.plugin_socket, "LOAD_SECONDS", 0.05)


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "taskmem"
    folder.mkdir()
    monkeypatch.setenv("TASKMEM_HOME", str(folder))
    return folder


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    return folder


def make_config(home: Path) -> dict[str, Any]:
    """What `taskmem setup openclaw --yes` leaves."""
    entry = {
        "enabled": True,
        "hooks": {"allowConversationAccess": True},
        "config": {"command": list(find_command()), "home": str(home)},
    }
    return {"plugins": {"load": {"paths": [str(FOLDER)]}, "entries": {"taskmem": entry}}}


@pytest.fixture
def config(home):
    return make_config(home)


@pytest.fixture
def entry(config):
    return config["plugins"]["entries"]["taskmem"]


@dataclass(frozen=True)
class Facts:
    """What the rows are read from."""

    config: dict[str, Any]
    state: Path
    gateways: Sequence[dict[str, Any]] = ()


@pytest.fixture
def facts(config, state):
    """What the rows are read from; a test changes the configuration under it."""
    return Facts(config=config, state=state)


def check_links(facts, **desired):
    """The rows of a configuration; `desired` differ from those of this installation."""
    found = package_files.build_desired_state(facts.config, "", facts.state)
    found = replace(found, **desired)
    return [*openclaw_rows._check_configured_links(facts.config, facts.state, found)]


def look_at(name, facts, **desired):
    """One of these rows."""
    [row] = [row for row in check_links(facts, **desired) if row.id == f"openclaw.{name}"]
    return row


def assert_row(row, state, detail="", cure=""):
    assert row.state is state, row
    assert detail in row.detail
    if state in (OK, OFF):
        assert row.cure is None
    else:
        assert row.cure
        assert cure in row.cure


def test_after_setup_every_row_is_fine(facts):
    found = list(check_links(facts))
    assert {row.state for row in found} == {OK}
    assert [row.id.removeprefix("openclaw.") for row in found] == [
        *("plugin", "folder", "command", "home", "conversation", "tools"),
        *("doubled", "recall", "skill"),
    ]


# --- the plug-in ----------------------------------------------------------------


def test_a_plugin_that_is_not_installed_is_set_up(facts, config):
    config["plugins"]["load"]["paths"] = []
    [row] = check_links(facts)
    assert_row(row, FAIL, "not installed", SETUP)


def test_a_folder_of_another_plugin_is_not_ours(facts, config, tmp_path):
    manifest = tmp_path / "openclaw.plugin.json"
    config["plugins"]["load"]["paths"] = [str(tmp_path)]
    for text in ('{"id": "other"}', "no JSON", "[]"):
        manifest.write_text(text)
        assert_row(look_at("plugin", facts), FAIL, "not installed")


def test_plugins_that_are_all_switched_off_are_switched_on(facts, config):
    config["plugins"]["enabled"] = False
    assert_row(look_at("plugin", facts), FAIL, "switched off", "plugins.enabled true")


def test_a_plugin_that_is_denied_is_taken_out_of_the_list(facts, config):
    config["plugins"]["deny"] = ["taskmem"]
    assert_row(look_at("plugin", facts), FAIL, "denied", "plugins.deny")


def test_a_plugin_that_a_list_leaves_out_is_added_to_it(facts, config):
    config["plugins"]["allow"] = ["voice-call"]
    row = look_at("plugin", facts)
    assert_row(row, FAIL, "plugins.allow", SETUP)


@pytest.mark.parametrize("allowed", [[], ["voice-call", "taskmem"]])
def test_a_list_that_is_empty_or_names_it_allows_it(facts, config, allowed):
    config["plugins"]["allow"] = allowed
    assert_row(look_at("plugin", facts), OK)


def test_a_plugin_that_is_switched_off_is_enabled(facts, entry):
    entry["enabled"] = False
    row = look_at("plugin", facts)
    assert_row(row, FAIL, "switched off", "openclaw plugins enable taskmem")


def test_copied_plugin_is_reported_as_not_of_this_installation(facts, config, state):
    copied = state / "extensions" / "taskmem"
    copied.mkdir(parents=True)
    (copied / "openclaw.plugin.json").write_text('{"id": "taskmem"}')
    assert_row(look_at("folder", facts), WARN, str(copied), SETUP)
    config["plugins"]["load"]["paths"] = []
    assert_row(look_at("plugin", facts), OK)
    assert_row(look_at("folder", facts), FAIL, str(copied), SETUP)


def test_a_link_to_the_folder_is_the_folder(facts, config, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(FOLDER)
    config["plugins"]["load"]["paths"] = [str(link)]
    assert_row(look_at("folder", facts), OK, str(link))


def test_a_command_that_is_left_to_the_path_is_set(facts, entry):
    del entry["config"]["command"]
    assert_row(look_at("command", facts), WARN, "PATH", SETUP)


def test_a_command_that_is_gone_is_set(facts, entry):
    entry["config"]["command"] = ["/nowhere/taskmem"]
    assert_row(look_at("command", facts), FAIL, "/nowhere/taskmem", SETUP)


@pytest.mark.parametrize("said", [[sys.executable], [*find_command(), "--version"]])
def test_a_command_that_is_another_program_is_set(facts, entry, said):
    entry["config"]["command"] = said
    assert_row(look_at("command", facts), WARN, said[-1], SETUP)


def test_a_home_that_is_another_is_set(facts, entry, tmp_path, home):
    entry["config"]["home"] = str(tmp_path / "other")
    row = look_at("home", facts)
    assert_row(row, FAIL, str(home), SETUP)
    assert str(tmp_path / "other") in row.detail


def test_a_home_that_is_not_said_is_the_one_in_openclaws_folder(facts, entry, state):
    del entry["config"]["home"]
    assert_row(look_at("home", facts), FAIL, str(state / "taskmem"))
    assert_row(look_at("home", facts, home=str(state / "taskmem")), OK)


# --- permissions, and what the agent sees ---------------------------------------


@pytest.mark.parametrize("granted", [{}, {"allowConversationAccess": False}])
def test_missing_conversation_access_is_a_warning_with_its_loss(facts, entry, granted):
    entry["hooks"] = granted
    row = look_at("conversation", facts)
    assert_row(row, WARN, "compaction", "hooks.allowConversationAccess true")


def test_a_prompt_that_must_not_be_added_to_is_a_greater_loss(facts, entry):
    entry["hooks"]["allowPromptInjection"] = False
    row = look_at("conversation", facts)
    assert_row(row, WARN, "outlive", "hooks.allowPromptInjection true")


@pytest.mark.parametrize(
    "policy",
    [
        *({"profile": "minimal"}, {"profile": "coding"}, {"profile": "messaging"}),
        {"allow": ["exec"]},
    ],
)
def test_a_tool_policy_that_hides_the_tools_is_named(facts, config, policy):
    config["tools"] = policy
    row = look_at("tools", facts, profiles=frozenset())
    assert_row(row, FAIL, "taskmem in tools.", SETUP)


@pytest.mark.parametrize(
    "policy",
    [
        *({}, {"profile": "full"}, {"profile": "coding", "alsoAllow": ["taskmem"]}),
        *({"allow": ["group:plugins"]}, {"allow": ["*"]}),
    ],
)
def test_a_tool_policy_that_shows_them_is_fine(facts, config, policy):
    config["tools"] = policy
    assert_row(look_at("tools", facts), OK)


def test_tools_that_are_denied_are_the_operators_to_allow(facts, config):
    config["tools"] = {"deny": ["taskmem"]}
    assert_row(look_at("tools", facts), WARN, "deny", "configuration")


def test_tools_that_come_twice_are_named_with_the_server(facts, config):
    server = {"command": "/usr/bin/taskmem", "args": ["mcp"]}
    config["mcp"] = {"servers": {"mine": server}}
    assert_row(look_at("doubled", facts), WARN, "mine", "openclaw mcp unset mine")
    server["enabled"] = False
    assert_row(look_at("doubled", facts), OK)
    config["mcp"] = {"servers": {"docs": {"command": "uvx", "args": ["fetch"]}}}
    assert_row(look_at("doubled", facts), OK)


def install_rival(folder):
    """A plug-in that has a tool of the name `memory_recall`."""
    folder.mkdir(parents=True)
    found = {"id": "rival", "contracts": {"tools": ["memory_recall"]}}
    (folder / "openclaw.plugin.json").write_text(json.dumps(found))


def test_the_slot_of_memory_decides_whose_tool_recalls(facts, config):
    assert_row(look_at("recall", facts), OK, "found by memory_recall")
    config["plugins"]["slots"] = {"memory": "memory-lancedb"}
    assert_row(look_at("recall", facts), OK, "memory-lancedb", "ours is left out")
    config["plugins"]["entries"]["memory-lancedb"] = {"enabled": False}
    assert_row(look_at("recall", facts), OK, "found by memory_recall")


@pytest.mark.parametrize("place", ["linked", "installed"])
def test_any_plugin_that_has_the_name_recalls_instead(facts, config, tmp_path, place):
    folder = (tmp_path if place == "linked" else facts.state / "extensions") / "rival"
    install_rival(folder)
    if place == "linked":
        config["plugins"]["load"]["paths"].append(str(folder))
    assert_row(look_at("recall", facts), OK, "The plug-in rival has")
    config["plugins"]["deny"] = ["rival"]
    assert_row(look_at("recall", facts), OK, "found by memory_recall")


def test_a_skill_that_is_switched_off_is_switched_on(facts, config):
    config["skills"] = {"entries": {"task-memory": {"enabled": False}}}
    row = look_at("skill", facts)
    assert_row(row, WARN, "switched off", "skills.entries.task-memory.enabled true")


def test_a_skill_that_is_linked_is_in_place_and_else_it_comes(facts, state):
    assert_row(look_at("skill", facts), OK, "next turn")
    (state / "plugin-skills" / "task-memory").mkdir(parents=True)
    assert_row(look_at("skill", facts), OK, "in place")


def test_a_skill_that_is_nowhere_is_missing(facts):
    assert_row(look_at("skill", facts, has_skill=False), FAIL, "missing", "Reinstall")


# --- the command and the configuration ------------------------------------------


@pytest.fixture
def program(tmp_path):
    """OpenClaw's command, which prints what it is told."""

    def make_program(said, status=0):
        path = tmp_path / "openclaw"
        path.write_text(f"#!/bin/sh\nprintf '%s' '{said}'\nexit {status}\n")
        path.chmod(0o755)
        return str(path)

    return make_program


def version(program, *, found=False):
    binary = program or "openclaw"
    return asyncio.run(openclaw_rows._check_version(binary, program, os.environ, found=found))


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("OpenClaw 2026.9.6 (eb377ac)", " 2026.9.6 is"),
        ("2026.10", " 2026.10 is"),
        ("2027.1.0", " 2027.1.0 is"),
    ],
)
def test_a_version_that_is_new_enough_is_fine(program, said, number):
    assert_row(version(program(said)), OK, number)


@pytest.mark.parametrize("said", ["OpenClaw 2026.9.5", "2026.9", "2025.12.1"])
def test_a_version_that_is_too_old_is_updated(program, said):
    assert_row(version(program(said)), FAIL, "2026.9.6", "openclaw update")


@pytest.mark.parametrize(("said", "status"), [("Hello", 0), ("2026.9.6", 1)])
def test_a_version_that_is_not_told_is_a_warning(program, said, status):
    assert_row(version(program(said, status)), WARN, "does not tell", "--version")


def test_a_command_that_cannot_be_run_tells_no_version(tmp_path):
    assert_row(version(str(tmp_path)), WARN, "does not tell")


def test_a_command_that_hangs_is_ended(program, tmp_path, monkeypatch):
    monkeypatch.setattr(openclaw_rows, "_COMMAND_SECONDS", 0.2)
    path = Path(program(""))
    path.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    assert_row(version(str(path)), WARN, "does not tell")
    process = tmp_path / "pid"
    if process.exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int(process.read_text()), 0)


def test_without_the_command_the_way_in_is_what_counts():
    assert_row(version(None), FAIL, "no command", "openclaw_bin")
    assert_row(version(None), FAIL, "no command", "remove wake_transport")
    assert_row(version(None, found=True), WARN, "no command", "openclaw_bin")


def test_a_configuration_that_is_not_there_is_made(tmp_path):
    file = tmp_path / "openclaw.json"
    config, row = openclaw_rows._check_configuration(file, {"OPENCLAW_CONFIG_PATH": str(file)})
    assert config is None
    assert_row(row, FAIL, str(file), "OPENCLAW_CONFIG_PATH")


def test_a_configuration_that_cannot_be_read_is_validated(tmp_path):
    file = tmp_path / "openclaw.json"
    file.write_text("{")
    config, row = openclaw_rows._check_configuration(file, {"OPENCLAW_CONFIG_PATH": str(file)})
    assert config is None
    assert_row(row, FAIL, "cannot be read", "openclaw config validate")


@pytest.mark.parametrize(
    ("config", "found"),
    [
        *(({"$include": "a"}, True), ({"plugins": {"$include": "a"}}, True)),
        *(({"models": {"$include": "a"}}, False), ({}, False)),
    ],
)
def test_only_what_matters_is_asked_of_openclaw(config, found):
    assert configuration.has_includes(config) is found


# --- the gateway ----------------------------------------------------------------

TOKEN = "a-token-of-nobody"  # noqa: S105


class Network:
    """What answers at the gateway's port; None: nobody."""

    def __init__(self):
        self.health = 200
        self.wake = 400
        self.asked = []

    def transport(self):
        return httpx.MockTransport(self.answer)

    def answer(self, request):
        self.asked.append(request)
        status = self.health if request.url.path == "/healthz" else self.wake
        if status is None:
            raise httpx.ConnectError("refused")
        return httpx.Response(status)


@pytest.fixture
def network():
    return Network()


@pytest.fixture
def door(home):
    """The home of a gateway whose door answers `seen`."""
    with FakeGateway() as gateway:
        gateway.answer = lambda _: json.dumps(gateway.said).encode()
        gateway.said = {}
        yield gateway


def gateway_rows(facts, network, environ, program="/usr/bin/openclaw", *, bundle=False):
    async def look():
        there = facts.config, facts.gateways
        asking = openclaw_rows.GatewayProbe(*there, environ, network.transport())
        return [row async for row in asking.check_ways(program, bundle=bundle)]

    found = asyncio.run(look())
    return {row.id.removeprefix("openclaw."): row for row in found}


def test_a_gateway_that_is_connected_is_fine_and_lets_wakes_in(facts, network, door):
    door.open()
    facts = replace(facts, gateways=[CONNECTED])
    rows = gateway_rows(facts, network, door.environ)
    assert {row.state for row in rows.values()} == {OK}
    assert CONNECTED["started_at"] in rows["gateway"].detail
    expected = ["gateway", "door", "notices", "shown"]
    assert [*rows] == [*expected, "webhooks", "cli", "heartbeats"]


def test_a_second_gateway_is_told_of():
    assert_row(openclaw_rows._check_connected([CONNECTED] * 3), WARN, "and 2 more", "TASKMEM_HOME")


def test_a_gateway_that_runs_an_older_plugin_loads_the_new_one():
    row = openclaw_rows._check_connected([{**CONNECTED, "version": "0.0.1"}])
    assert_row(row, FAIL, "version 0.0.1", "openclaw plugins reload taskmem")


def test_a_door_that_is_shut_is_named(facts, network, door):
    facts = replace(facts, gateways=[CONNECTED])
    row = gateway_rows(facts, network, door.environ)["door"]
    assert_row(row, FAIL, str(door.path), "openclaw plugins reload taskmem")


def test_a_door_behind_which_nothing_works_is_named(facts, network, door):
    door.open()
    door.said = {"failed": "there is no seen"}
    facts = replace(facts, gateways=[CONNECTED])
    row = gateway_rows(facts, network, door.environ)["door"]
    assert_row(row, FAIL, "there is no seen", "openclaw plugins reload taskmem")


def test_who_gets_no_answer_in_time_is_told_to_try_later(facts, network, door, monkeypatch):
    monkeypatch.setattr(openclaw_rows, "_GATEWAY_SECONDS", 0.05)
    door.rude = lambda _: door.over.wait(60)
    door.open()
    facts = replace(facts, gateways=[CONNECTED])
    row = gateway_rows(facts, network, door.environ)["door"]
    assert_row(row, FAIL, "no answer within 0.05 s", "once the gateway is less busy")


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ({"cards": "unknown method"}, "no progress cards (unknown method); lines"),
        (
            {"cards": "forbidden", "buttons": "forbidden"},
            "no progress cards and no buttons (forbidden); lines of text are used",
        ),
    ],
)
def test_what_this_openclaw_cannot_show_is_named(facts, network, door, missing, sentence):
    door.open()
    door.said = {"shown": missing}
    facts = replace(facts, gateways=[CONNECTED])
    row = gateway_rows(facts, network, door.environ)["shown"]
    assert_row(row, WARN, sentence, "openclaw update")


def test_a_gateway_whose_plugin_is_not_here_is_looked_at_again(facts, network, home):
    rows = gateway_rows(facts, network, {"TASKMEM_HOME": str(home)})
    assert_row(rows["gateway"], FAIL, "not connected", "plugins reload taskmem")
    assert "door" not in rows
    assert_row(rows["heartbeats"], WARN, "lost", "openclaw system heartbeat enable")


def test_bundle_needs_neither_the_plugin_nor_its_connection(facts, config, network, home):
    config["plugins"] = {"entries": {"taskmem-mcp": {"enabled": True}}}
    (row,) = check_links(facts)
    assert_row(row, OK, "MCP bundle")
    rows = gateway_rows(facts, network, {"TASKMEM_HOME": str(home)}, bundle=True)
    assert_row(rows["gateway"], OK, "with the bundle")
    assert_row(rows["webhooks"], OK, "off, so wakes go by OpenClaw's command")
    environ = {"TASKMEM_HOME": str(home)}
    rows = gateway_rows(facts, network, environ, program=None, bundle=True)
    assert_row(rows["cli"], WARN, "no way but those above")
    network.health = None
    rows = gateway_rows(facts, network, {"TASKMEM_HOME": str(home)}, bundle=True)
    assert_row(rows["gateway"], FAIL, "No gateway listens")


@pytest.mark.parametrize(
    "case", [("4711", {}, 4711), (4711, {"OPENCLAW_GATEWAY_PORT": "4712"}, 4712), (True, {}, 18789)]
)
def test_the_gateway_is_looked_for_where_wakes_look_for_it(facts, config, network, home, case):
    port, environ, expected = case
    config["gateway"] = {"port": port}
    network.health = None
    rows = gateway_rows(facts, network, {"TASKMEM_HOME": str(home), **environ})
    assert_row(rows["gateway"], FAIL, f"127.0.0.1:{expected}", "openclaw gateway start")
    assert_row(rows["heartbeats"], OK)


@pytest.mark.parametrize("said", [[None, 7], ["~nobody-of-that-name/x"], ["a\0b"], ["x" * 5000]])
def test_odd_folders_are_no_plugin_and_break_nothing(facts, config, entry, said):
    config["plugins"]["load"]["paths"] = said
    assert_row(look_at("plugin", facts), FAIL, "not installed")
    config["plugins"]["load"]["paths"] = [*said, str(FOLDER)]
    entry["config"]["home"] = "~nobody-of-that-name/\0"
    assert look_at("home", facts).state is FAIL


@pytest.fixture
def webhooks(facts, network, tmp_path, home, config):
    """The row of webhooks that are configured like this."""

    def row(**hooks):
        config["hooks"] = {"enabled": True, "token": TOKEN, **hooks}
        file = tmp_path / "openclaw.json"
        file.write_text(json.dumps(config))
        environ = {"TASKMEM_HOME": str(home), "OPENCLAW_CONFIG_PATH": str(file)}
        return gateway_rows(facts, network, environ)["webhooks"]

    return row


def test_webhooks_that_are_off_are_fine(webhooks, network):
    assert_row(webhooks(enabled=False), OK, "off")
    assert len(network.asked) == 1


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, (OK, "take the token", "")),
        (403, (FAIL, "hooks.token", "openclaw gateway restart")),
        (404, (WARN, "answers 404", "hooks.path")),
    ],
)
def test_webhooks_are_tried_with_their_token(webhooks, network, status, expected):
    network.wake = status
    row = webhooks()
    assert_row(row, *expected)
    assert TOKEN not in f"{row.detail}{row.cure}"
    *_, asked = network.asked
    assert asked.headers["Authorization"] == f"Bearer {TOKEN}"
    # A wake without a text starts no turn, whoever sends it.
    assert json.loads(asked.content) == {"text": ""}


def test_webhooks_at_another_users_port_are_not_tried(webhooks, network, monkeypatch):
    monkeypatch.setattr(openclaw_rows, "find_stranger", lambda _: 12002)
    assert_row(webhooks(), FAIL, "User 12002 listens")


def test_a_token_that_cannot_be_read_is_named(webhooks):
    row = webhooks(token={"source": "exec"})
    assert_row(row, WARN, "hooks.token", "configuration")


def test_webhooks_of_a_gateway_that_is_down_are_not_tried(webhooks, network):
    network.health = None
    assert_row(webhooks(), OK, "nobody listens")
    assert len(network.asked) == 1


def test_without_the_command_there_is_no_last_way(facts, network, home):
    environ = {"TASKMEM_HOME": str(home)}
    row = gateway_rows(facts, network, environ)["cli"]
    assert_row(row, OK, "Else wakes go by /usr/bin/openclaw, in seconds.")
    row = gateway_rows(facts, network, environ, None)["cli"]
    assert_row(row, WARN, "no way", "TASKMEM_OPENCLAW_BIN")


# --- the whole ------------------------------------------------------------------


class FakeCheckup:
    """Plays `Checkup`."""

    def __init__(self, *transports, **status: Any):
        self.transports = transports or ("openclaw",)
        self.status = status or None
        self.database = ""
        self.rows = []


def check_rows(checkup, environ, network):
    async def look():
        check = openclaw_rows.OpenClawCheck(environ, network.transport())
        return [row async for row in check.look(checkup)]

    return {row.id.removeprefix("openclaw."): row for row in asyncio.run(look())}


@pytest.fixture
def environ(tmp_path, home, config, program):
    file = tmp_path / "openclaw.json"
    file.write_text(json.dumps(config))
    return {
        "TASKMEM_HOME": str(home),
        "TASKMEM_OPENCLAW_BIN": program("OpenClaw 2026.9.6"),
        "OPENCLAW_CONFIG_PATH": str(file),
        "OPENCLAW_STATE_DIR": str(tmp_path / "state"),
        "PATH": os.environ["PATH"],
    }


def test_where_all_is_well_every_row_is_fine(environ, network, door, monkeypatch):
    door.open()
    monkeypatch.setenv("TASKMEM_HOME", str(door.home))
    file = Path(environ["OPENCLAW_CONFIG_PATH"])
    file.write_text(json.dumps(make_config(door.home)))
    environ["TASKMEM_HOME"] = str(door.home)
    rows = check_rows(FakeCheckup(gateways=[CONNECTED]), environ, network)
    assert {row.state for row in rows.values()} == {OK}
    assert len(rows) == 18


@pytest.mark.parametrize("transport", ["stdout", "ntfy"])
def test_where_wakes_go_elsewhere_nothing_is_asked_of_openclaw(environ, network, transport):
    [row] = check_rows(FakeCheckup(transport), environ, network).values()
    assert_row(row, OFF, transport)
    assert network.asked == []
    assert "gateway" in check_rows(FakeCheckup(transport, gateways=[CONNECTED]), environ, network)


def test_doctor_looks_no_further_without_a_configuration(environ, network):
    Path(environ["OPENCLAW_CONFIG_PATH"]).unlink()
    rows = check_rows(FakeCheckup(), environ, network)
    assert [*rows] == ["version", "configuration"]


@pytest.mark.parametrize(
    ("gateways", "state", "cure"),
    [([CONNECTED], WARN, "openclaw gateway restart"), ([], OFF, "taskmem setup openclaw")],
)
def test_after_a_removal_nothing_fails(environ, network, gateways, state, cure):
    Path(environ["OPENCLAW_CONFIG_PATH"]).write_text('{"gateway": {"port": 18789}}')
    rows = check_rows(FakeCheckup(gateways=gateways), environ, network)
    assert [*rows] == ["version", "configuration", "used"]
    assert rows["used"].state is state
    assert cure in rows["used"].cure
    assert network.asked == []


@pytest.fixture
def included_config(environ, config):
    """The plug-ins stand in another file, and OpenClaw tells what is in it."""
    file = Path(environ["OPENCLAW_CONFIG_PATH"])
    file.write_text(json.dumps({"plugins": {"$include": "./plugins.json"}}))
    said = json.dumps(config["plugins"])
    path = Path(environ["TASKMEM_OPENCLAW_BIN"])
    path.write_text(
        f"""#!/bin/sh
        echo "$*" >> {path}.calls
        [ "$1" = --version ] && echo 2026.9.6
        [ "$*" = "config get plugins --json" ] && printf '%s' '{said}' || true
        """
    )
    return path.with_name("openclaw.calls")


def test_what_the_configuration_includes_is_asked_of_openclaw(environ, network, included_config):
    assert_row(check_rows(FakeCheckup(), environ, network)["plugin"], OK)
    assert included_config.read_text().split("\n")[1] == "config get plugins --json"


def test_openclaw_is_asked_only_what_its_file_does_not_say(
    environ, network, config, included_config
):
    Path(environ["OPENCLAW_CONFIG_PATH"]).write_text(json.dumps(config))
    assert_row(check_rows(FakeCheckup(), environ, network)["plugin"], OK)
    assert included_config.read_text() == "--version\n"


def test_without_the_command_what_is_included_is_not_known(environ, network, included_config):
    environ["TASKMEM_OPENCLAW_BIN"] = "/nowhere/openclaw"
    rows = check_rows(FakeCheckup(), environ, network)
    assert_row(rows["version"], FAIL, "/nowhere/openclaw", "openclaw_bin")
    assert_row(rows["plugin"], FAIL, "not installed")


def test_the_command_is_openclaw_on_the_path_unless_it_is_said(environ, network):
    folder = Path(environ.pop("TASKMEM_OPENCLAW_BIN")).parent
    environ["PATH"] = f"{folder}{os.pathsep}{environ['PATH']}"
    row = check_rows(FakeCheckup(), environ, network)["version"]
    assert_row(row, OK, str(folder / "openclaw"))


@given(
    st.none() | st.dictionaries(st.just("gateways"), st.none() | st.lists(st.none() | st.text()))
)
def test_a_status_of_any_form_tells_only_of_gateways(status):
    assert all(each == {} for each in openclaw_rows._read_gateways(status))


async def await_gateways(asked, door, *, seconds=PATIENCE):
    checkup = FakeCheckup(gateways=[])
    checkup.ask = asked
    return await openclaw_rows.await_gateways(checkup, door.environ, seconds)


async def test_doctor_waits_for_a_gateway_to_rejoin_a_new_daemon(door):
    door.open()
    told = iter([None, {"gateways": []}, {"gateways": [CONNECTED]}])

    async def ask(method, params):
        said = next(told)
        if said is None:
            raise TaskmemError("The daemon is starting.")
        return said

    assert await await_gateways(ask, door) == [CONNECTED]


async def test_doctor_stops_waiting_for_a_gateway_that_stays_away(door):
    door.open()

    async def ask(method, params):
        return {"gateways": []}

    assert await await_gateways(ask, door, seconds=0.01) == ()


async def test_where_no_plugin_listens_no_gateway_is_waited_for(door):
    assert await await_gateways(None, door) == []


def test_the_plugin_fits_the_hooks_and_brings_its_checks_along():
    from taskmem_openclaw import hooks

    check_plugin(hooks)
    checks = hooks.health_checks()
    assert all(isinstance(check, DoctorCheck) for check in checks)
    assert [check.costs for check in checks] == [False, True]
