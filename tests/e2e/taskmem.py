"""taskmem as a person uses it: through its command, in a room of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import taskmem_openclaw
from taskmem_openclaw.plugin_socket import find_socket
from tests.e2e.room import Room, last_lines, until

PROGRAM = Path(sys.executable).with_name("taskmem")
PLUGIN = Path(taskmem_openclaw.__file__).parent / "gateway"
"""The native plug-in, as it is shipped."""

CALL_LIMIT = 240
"""Seconds for one command; it takes a fraction of one."""


@dataclass
class Taskmem:
    """The command, its settings, and the daemon that it starts."""

    room: Room
    settings: dict[str, str] = field(default_factory=dict)
    program: Path = PROGRAM

    @property
    def environment(self) -> dict[str, str]:
        """The variables that taskmem is configured by."""
        given = {
            "TASKMEM_HOME": str(self.room.taskmem),
            "TASKMEM_OPENCLAW_BIN": str(self.room.openclaw),
            "TASKMEM_WAKE_TRANSPORT": "openclaw-cli",
            # As on a machine with more than one user; the agent is told the whole text.
            "TASKMEM_OPENCLAW_CLI_TEXT": "brief",
            **self.settings,
        }
        return {name: value for name, value in given.items() if value}

    @property
    def mcp_server(self) -> dict[str, Any]:
        """The entry that makes it an MCP server of an OpenClaw gateway."""
        return {
            "command": str(PROGRAM),
            "args": ["mcp"],
            "env": self.room.environment(self.environment),
        }

    def try_run(self, *args: str, limit: float = CALL_LIMIT) -> subprocess.CompletedProcess[str]:
        """Run `taskmem ARGS`, and give how it ended."""
        return subprocess.run(
            [str(self.program), *args],
            cwd=self.room.root,
            env=self.room.environment(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit,
        )

    def run(self, *args: str, check: bool = True) -> str:
        """Run `taskmem ARGS`, and give what it prints."""
        done = self.try_run(*args)
        if check:
            assert done.returncode == 0, f"taskmem {args}: {done.stdout}{done.stderr}"
        return done.stdout

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool as a person would."""
        return json.loads(self.run("call", tool, json.dumps(arguments)))

    def show(self, task_id: str) -> dict[str, Any]:
        """A task with all that hangs on it."""
        return json.loads(self.run("show", task_id, "--json"))

    def wakes(self, task_id: str | None = None) -> list[dict[str, Any]]:
        """All wakes there ever were, or those of one task; oldest first."""
        rows = json.loads(self.run("wakes", "--all", "--json"))
        wanted = [row for row in rows if task_id in (None, row["task_id"])]
        return sorted(wanted, key=lambda row: row["created_at"])

    def waits(self) -> list[dict[str, Any]]:
        """What is waited for."""
        return json.loads(self.run("waits", "--json"))

    @property
    def is_running(self) -> bool:
        """Whether the daemon runs."""
        return bool(json.loads(self.run("status", "--json", check=False))["running"])

    def wait_for_plugin(self) -> None:
        """Wait until a gateway's plug-in listens; that is shortly after the gateway is ready."""
        until(find_socket(self.environment).is_socket, "the plug-in listens")

    def restart(self, settings: Mapping[str, str]) -> None:
        """Start the daemon anew, with other settings.

        A gateway's plug-in that finds none may start one first, which has not these settings, and
        is of its own program.
        """
        self.settings.update(settings)
        wanted = {f"{name}={value}".encode() for name, value in self.environment.items()}

        def is_started() -> bool:
            self.stop()
            self.run("daemon", "--detach")
            pid = json.loads(self.run("status", "--json"))["pid"]
            python = Path(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0])
            is_own = python.parent == self.program.parent
            return is_own and wanted <= {*Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")}

        until(is_started, "a daemon with these settings runs")

    def kill(self) -> None:
        """Kill the daemon, as the system does that has no memory left."""
        os.kill(json.loads(self.run("status", "--json"))["pid"], signal.SIGKILL)

    def stop(self) -> None:
        """Stop the daemon; none to stop is fine."""
        self.run("daemon", "stop", check=False)

    def report(self) -> str:
        """The ends of the logs in its folder."""
        logs = sorted(self.room.taskmem.rglob("*.log"))
        return "\n".join(f"{log.name}:\n{last_lines(log, 30)}" for log in logs)


def plugins(taskmem: Taskmem, folder: Path = PLUGIN) -> dict[str, Any]:
    """The configuration that `taskmem setup openclaw --yes` would leave."""
    entry = {
        "enabled": True,
        "hooks": {"allowConversationAccess": True},
        "config": {"command": [str(PROGRAM)], "home": str(taskmem.room.taskmem)},
    }
    return {"load": {"paths": [str(folder)]}, "entries": {"taskmem": entry}}
