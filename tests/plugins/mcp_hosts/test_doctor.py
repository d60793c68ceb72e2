"""What `taskmem doctor` says where Claude Code and Codex are set up."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from taskmem_hookspecs import DoctorState
from taskmem_mcp_hosts import hosts
from taskmem_mcp_hosts import hosts as apply
from taskmem_mcp_hosts.doctor import HostsCheck
from taskmem_openclaw.doctor import rows as openclaw_rows
from tests.plugins.openclaw.test_doctor import FakeCheckup

OK, OFF, WARN, FAIL = DoctorState


@pytest.fixture
def environ(tmp_path, monkeypatch):
    """A user with an empty home, in a folder of theirs."""
    user = tmp_path / "user"
    (user / "project").mkdir(parents=True)
    monkeypatch.chdir(user / "project")
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("TASKMEM_HOME", str(user / ".openclaw" / "taskmem"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCLAW_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(user), "PATH": programs}


def look_at_hosts(check, *transports, seen=()):
    async def look():
        checkup = FakeCheckup(*transports)
        checkup.rows += seen
        return [row async for row in check.look(checkup)]

    return asyncio.run(look())


def rows(environ, *transports):
    named = transports or ("claude-inbox", "codex-queue", "openclaw")
    return {row.id: row for row in look_at_hosts(HostsCheck(environ), *named)}


def set_up(environ, *names, project=None):
    for name in names:
        apply.set_up_host(
            getattr(hosts, f"build_{name}_host")(environ, project), environ, dry_run=False
        )


def test_there_is_a_row_for_each_host_that_is_set_up(environ):
    assert rows(environ) == {}
    set_up(environ, "codex")
    assert [*rows(environ)] == ["hosts.codex"]
    set_up(environ, "claude", project=Path.cwd())
    found = rows(environ)
    assert [*found] == ["hosts.claude", "hosts.codex"]
    for row in found.values():
        assert (row.state, row.cure) == (OK, None)
        assert "is woken in the session that asked" in row.detail


def test_a_host_that_the_setting_leaves_out_is_not_told_as_woken(environ):
    set_up(environ, "codex", "claude")
    claude, codex = rows(environ, "codex-queue", "stdout").values()
    assert (claude.state, codex.state) == (OK, OK)
    assert "is woken" in codex.detail
    left = (
        " Its sessions are not woken: wakes go out by codex-queue, stdout (setting wake_transport)."
    )
    assert claude.detail.endswith(left)


@pytest.mark.parametrize("twice", [False, True])
def test_a_plug_in_counts_as_set_up_and_both_are_warned_of(environ, twice):
    if twice:
        set_up(environ, "claude")
    settings = Path(environ["HOME"]) / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    there = json.loads(settings.read_text()) if twice else {}
    settings.write_text(json.dumps({**there, "enabledPlugins": {hosts.PLUGIN: True}}))
    row = rows(environ)["hosts.claude"]
    assert row.state is (WARN if twice else OK)
    assert ("each hook is called twice" in row.detail) is twice
    assert row.cure == ("Run: taskmem setup claude --remove" if twice else None)


def entry(environ):
    """The server's entry, as a test is to change it."""
    set_up(environ, "claude")
    file = Path(environ["HOME"]) / ".claude.json"
    config = json.loads(file.read_text())
    return config["mcpServers"]["taskmem"], lambda: file.write_text(json.dumps(config))


def test_hooks_that_are_missing_are_a_warning(environ):
    set_up(environ, "codex")
    (Path(environ["HOME"]) / ".codex" / "hooks.json").unlink()
    row = rows(environ)["hosts.codex"]
    assert (row.state, row.cure) == (WARN, "Run: taskmem setup codex")
    assert "not this version's hooks" in row.detail


def test_a_command_that_is_gone_fails(environ):
    server, write = entry(environ)
    server["command"] = "/nowhere/taskmem"
    write()
    row = rows(environ)["hosts.claude"]
    assert (row.state, row.cure) == (FAIL, "Run: taskmem setup claude")
    assert "/nowhere/taskmem is not there" in row.detail


def test_a_server_of_another_home_is_named(environ):
    server, write = entry(environ)
    server["env"] = {"TASKMEM_HOME": "/elsewhere"}
    write()
    row = rows(environ)["hosts.claude"]
    assert row.state is WARN
    assert "for the home /elsewhere" in row.detail
    assert "TASKMEM_HOME=/elsewhere taskmem doctor" in row.cure


def test_a_skill_of_another_version_is_named(environ):
    set_up(environ, "claude")
    folder = Path(environ["HOME"]) / ".claude" / "skills" / "task-memory"
    (folder / "SKILL.md").write_text("---\nname: task-memory\n---\n")
    assert rows(environ)["hosts.claude"].state is WARN


def test_a_command_that_is_not_on_the_path_is_a_warning(environ):
    set_up(environ, "claude")
    environ["PATH"] = ""
    row = rows(environ)["hosts.claude"]
    assert row.state is WARN
    assert "not on your PATH" in row.cure


def test_a_file_that_is_broken_is_named(environ):
    (Path(environ["HOME"]) / ".claude.json").write_text("{ broken")
    row = rows(environ)["hosts.claude"]
    assert row.state is WARN
    assert "cannot be read" in row.detail


# --- OpenClaw beside them -------------------------------------------------------


def openclaw(environ, transport="openclaw"):
    """What is said of OpenClaw, once the other hosts were look_at_hosts at."""
    seen = look_at_hosts(HostsCheck(environ))
    check = openclaw_rows.OpenClawCheck(environ)
    return {row.id: row for row in look_at_hosts(check, transport, seen=seen)}


def test_where_only_others_are_set_up_openclaw_is_not_missed(environ):
    set_up(environ, "claude")
    [row] = openclaw(environ).values()
    assert (row.id, row.state) == ("openclaw.used", OFF)
    assert (row.effect, row.cure) == (None, None)


def test_who_has_no_openclaw_is_not_told_that_it_fails(environ):
    environ["PATH"] = ""
    [row] = openclaw(environ).values()
    assert (row.id, row.state) == ("openclaw.used", OFF)


def test_openclaw_is_looked_at_where_its_transport_is_named(environ):
    set_up(environ, "claude")
    assert "openclaw.version" in openclaw(environ, "openclaw-plugin")


def test_openclaw_is_looked_at_where_its_command_is_there(environ, tmp_path):
    program = tmp_path / "openclaw"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environ["TASKMEM_OPENCLAW_BIN"] = str(program)
    assert "openclaw.version" in openclaw(environ)


@pytest.mark.parametrize(
    "config",
    [
        {"plugins": {"entries": {"taskmem": {"enabled": False}}}},
        {"mcp": {"servers": {"taskmem": {"command": "taskmem", "args": ["mcp"]}}}},
        {"$include": "./more.json"},
    ],
)
def test_openclaw_is_looked_at_where_it_has_a_trace_of_us(environ, config):
    set_up(environ, "claude")
    file = Path(environ["HOME"]) / ".openclaw" / "openclaw.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(config))
    assert "openclaw.configuration" in openclaw(environ)


def test_a_configuration_that_is_broken_is_looked_at(environ):
    set_up(environ, "claude")
    file = Path(environ["HOME"]) / ".openclaw" / "openclaw.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text("{ broken")
    assert openclaw(environ)["openclaw.configuration"].state is FAIL
