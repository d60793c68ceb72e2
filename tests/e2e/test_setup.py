"""One command moves into a real OpenClaw, and another out again without a trace."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from taskmem_openclaw.setup.prompts import _NEXT_STEP
from tests.e2e.agent import obedient
from tests.e2e.gateway import Gateway
from tests.e2e.openclaw import OpenClaw
from tests.e2e.room import Room, until
from tests.e2e.scripted_model import ScriptedModel
from tests.e2e.taskmem import PLUGIN, PROGRAM, Taskmem

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

DOCS = Path(__file__).parents[2] / "docs" / "first-run.md"
LIMIT = 300
"""Seconds for one set-up: OpenClaw's command takes up to 20 of them, twice."""


def set_up(taskmem: Taskmem, *arguments: str) -> str:
    """Run `taskmem setup openclaw`, and give what it says."""
    done = taskmem.try_run("setup", "openclaw", *arguments, limit=LIMIT)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    assert done.stderr == ""
    return done.stdout


def read_configuration(room: Room) -> dict[str, Any]:
    """The configuration, but for what OpenClaw says of itself in it."""
    found = json.loads(room.config.read_text())
    found.pop("meta", None)
    return found


def test_one_command_moves_in_and_proves_itself_as_the_docs_show(
    openclaw: OpenClaw, room: Room, model: ScriptedModel, taskmem: Taskmem, tmp_path: Path
):
    gateway = Gateway(openclaw, room, model.url)
    taskmem.settings.update(
        OPENCLAW_STATE_DIR=str(room.state),
        OPENCLAW_CONFIG_PATH=str(room.config),
        TASKMEM_WAKE_TRANSPORT="auto",
        TASKMEM_OPENCLAW_CLI_TEXT="",
    )
    model.decide = obedient
    gateway.start()
    try:
        moved, looked = set_up(taskmem, "--yes"), taskmem.run("doctor")
        again = at_terminal(taskmem, "setup", "openclaw", answers="y\ny\n")
    finally:
        gateway.stop()
    shown = f"$ taskmem setup openclaw --yes\n{moved}"
    for path, name in {
        PLUGIN: "~/.local/pipx/venvs/openclaw-taskmem/lib/python3.11/site-packages/"
        "taskmem_openclaw/gateway",
        PROGRAM: "~/.local/bin/taskmem",
        room.openclaw: "/usr/local/bin/openclaw",
        room.taskmem: "~/.openclaw/taskmem",
        room.state: "~/.openclaw",
    }.items():
        shown = re.sub(rf"{re.escape(str(path))}(?![\w-]|\.\w)", name, shown)
    (tmp_path / "transcript.txt").write_text(shown)
    [recorded] = re.findall(r"```console\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert plain(shown) == plain(recorded)
    end = f"All is well. {_NEXT_STEP}"
    assert " ".join(moved.split()).endswith(end)
    assert looked.endswith("All is well.\n")
    # What is chosen later is proved once the gateway has loaded the plug-in anew.
    assert "the gateway loads the plug-in" in again
    assert "It has not" not in again
    assert " ".join(again.split()).endswith(end)


def at_terminal(taskmem: Taskmem, *arguments: str, answers: str) -> str:
    """Run taskmem at a terminal, and give what it shows."""
    ours, theirs = pty.openpty()
    os.write(ours, answers.encode())
    with subprocess.Popen(
        [str(PROGRAM), *arguments],
        env=taskmem.room.environment(taskmem.environment),
        **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
    ) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # which is how a terminal ends
            while more := os.read(ours, 4096):
                shown += more
        os.close(ours)
        assert process.wait(LIMIT) == 0, shown.decode()
    return shown.decode().replace("\r\n", "\n")


def plain(transcript: str) -> list[str]:
    """The lines of a transcript, without what no two runs share."""
    return re.sub(r"-[0-9a-f]{8}\b|\d+", "#", transcript).splitlines()


def test_a_gateway_that_is_stopped_is_set_up_and_left_as_it_was(
    openclaw: OpenClaw, room: Room, taskmem: Taskmem
):
    Gateway(openclaw, room, "http://127.0.0.1:9/v1")
    before = room.config.read_bytes(), read_configuration(room)

    # A dry run shows what would be, and changes nothing.
    shown = set_up(taskmem, "--yes", "--dry-run")
    assert '+          "allowConversationAccess": true' in shown
    assert f"plugins install --link {PLUGIN}" in shown
    assert room.config.read_bytes() == before[0]
    assert list(room.taskmem.iterdir()) == []

    # The first time sets up; the second finds everything in place.
    assert "takes it up when it starts" in set_up(taskmem, "--yes", "--no-proof")
    after = read_configuration(room)
    assert after["plugins"] == {
        "load": {"paths": [str(PLUGIN)]},
        "entries": {
            "taskmem": {
                "enabled": True,
                "hooks": {"allowConversationAccess": True},
                "config": {"command": [str(PROGRAM)], "home": str(room.taskmem)},
            }
        },
    }
    text = room.config.read_bytes()
    assert "Everything is in place" in set_up(taskmem, "--yes", "--no-proof")
    assert room.config.read_bytes() == text

    # Removed: the configuration is as it was, without what was empty.
    set_up(taskmem, "--remove")
    assert read_configuration(room) == {k: v for k, v in before[1].items() if v != {}}


def test_running_gateway_gains_and_loses_the_tools_at_once(
    openclaw: OpenClaw, room: Room, model: ScriptedModel, taskmem: Taskmem
):
    def has_tools() -> bool:
        """Whether the model is shown our tools in the next turn."""
        # A turn that begins while the gateway loads plug-ins anew may be given up.
        until(lambda: gateway.turn("Hello")["status"] == "ok", "a turn")
        return {"task_register", "smart_wait"} <= model.requests[-1].tools

    def has_greeted() -> bool:
        """Whether the plug-in serves."""
        return bool(json.loads(taskmem.run("status", "--json"))["gateways"])

    gateway = Gateway(openclaw, room, model.url, {"mine": taskmem.mcp_server})
    taskmem.run("daemon", "--detach")
    gateway.reconfigure(
        lambda said: said.update(tools={"allow": ["read"]}, plugins={"allow": ["memory-core"]})
    )
    model.decide = lambda _: "Hello."
    gateway.start()
    try:
        assert not has_tools()
        before = read_configuration(room)

        said = set_up(taskmem, "--yes", "--no-proof")
        assert "the running gateway takes it up" in said
        # A turn that runs would keep the gateway from taking it up.
        until(has_greeted, "the plug-in has come")
        until(has_tools, "the tools are in sight")
        now = read_configuration(room)
        assert now["plugins"]["allow"] == ["memory-core", "taskmem"]
        assert now["tools"] == {"allow": ["read", "taskmem"]}
        assert now["mcp"]["servers"]["mine"]["enabled"] is False
        assert "Everything is in place" in set_up(taskmem, "--yes", "--no-proof")

        set_up(taskmem, "--remove")
        assert read_configuration(room) == {k: v for k, v in before.items() if k != "mcp"}
        until(lambda: not has_greeted(), "the plug-in has gone")
        until(lambda: not has_tools(), "the tools are out of sight")
    finally:
        gateway.stop()
