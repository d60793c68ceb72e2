"""A real OpenClaw gateway, on loopback, in a room of its own."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from signal import SIGSEGV
from typing import Any

import psutil

from taskmem_resumebench.daemon import kill_group
from taskmem_resumebench.openclaw_gateway import (
    find_free_port,
    is_ready,
    list_places,
    make_configuration,
    write_program,
)
from tests.e2e.openclaw import OpenClaw
from tests.e2e.room import Room, last_lines, until
from tests.e2e.rpc import CallRefused, Rpc, open_rpc
from tests.e2e.scripted_model import text_of

MAIN_SESSION = "agent:main:main"

PAGES = {"AGENTS.md", "BOOTSTRAP.md", "IDENTITY.md", "SOUL.md", "USER.md"}
"""What OpenClaw makes in a workspace once: it makes none anew for a gateway that runs."""

SHELLS = {"bash", "dash", "sh"}
"""The programs that OpenClaw runs an agent's commands in."""

READY_LIMIT = 240
"""Seconds; on an idle machine the gateway is ready after about 15."""

STOP_LIMIT = 120
"""Seconds for an ordered stop; OpenClaw itself would wait for five minutes for what goes on."""

TURN_LIMIT = 180
"""Seconds for one whole agent turn, the command's own start included."""


@dataclass
class Gateway:
    """The gateway of one room; it can be stopped and started again."""

    openclaw: OpenClaw
    room: Room
    model_url: str
    mcp_servers: Mapping[str, Any] = field(default_factory=dict)
    """As `openclaw mcp set NAME JSON` would save them."""
    plugins: Mapping[str, Any] = field(default_factory=dict)
    """The `plugins` of its configuration."""
    port: int = field(default_factory=find_free_port)
    token: str = field(default_factory=lambda: token_hex(16))
    _process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.room.config.write_text(json.dumps(self._config(), indent=2))
        places = list_places(self.room.home, self.room.state, self.room.config)
        write_program(self.room.openclaw, self.openclaw.command(), places)

    @property
    def log(self) -> Path:
        """The gateway's own log."""
        return self.room.state / "gateway.log"

    @property
    def output(self) -> Path:
        """What the gateway printed."""
        return self.room.root / "gateway.out"

    def start(self, ready: Callable[[], bool] | None = None) -> None:
        """Start it, and return when it is ready for turns, or for what is given.

        One that crashes while it starts is started once more, as a service manager does.

        Source: https://github.com/openclaw/openclaw/issues/109831
        """
        probe = ready or (lambda: is_ready(self.port))

        crashes = 0

        def is_up() -> bool:
            nonlocal crashes
            assert self._process is not None
            status = self._process.poll()
            if status == -SIGSEGV and not crashes:
                crashes += 1
                self.kill()
                self._launch()
                return False
            assert status is None, f"the gateway ended with status {status}\n{self.report()}"
            return probe()

        self._launch()
        until(is_up, "the gateway is ready", READY_LIMIT, shown=self.report)

    def _launch(self) -> None:
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [str(self.room.openclaw), "gateway", "run"],
                cwd=self.room.root,
                env=self.room.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        """Whether it does not run."""
        return self._process is None or self._process.poll() is not None

    def tell_to_stop(self) -> None:
        """Tell it to stop in order."""
        assert self._process is not None
        self._process.terminate()

    def end_commands(self) -> None:
        """End the commands that its agents have left running: an ordered stop waits for them."""
        assert self._process is not None
        for each in psutil.Process(self._process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if each.name() in SHELLS:
                    each.kill()

    def ends(self, limit: float = STOP_LIMIT) -> int:
        """Its exit status, once it has ended; one that lives on is killed and fails."""
        assert self._process is not None
        try:
            return self._process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it lives on\n{self.report()}") from None
        finally:
            self.kill()

    def stop(self) -> None:
        """Stop it in order; kill it when that takes too long."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            kill_group(process)

    @property
    def _agent_settings(self) -> Path:
        return self.room.state / "agents" / "main" / "agent" / "settings.json"

    def retry_once(self) -> None:
        """Let its agent ask a provider that fails once more, and not for minutes."""
        self._agent_settings.parent.mkdir(parents=True, exist_ok=True)
        settings = {"retry": {"provider": {"maxRetries": 1}}}
        self._agent_settings.write_text(json.dumps(settings))

    def clear_workspace(self) -> None:
        """Remove what its agent has made, and the agent's settings; its own pages stay."""
        self._agent_settings.unlink(missing_ok=True)
        for made in (self.room.state / "workspace").glob("[!.]*"):
            if made.is_dir():
                shutil.rmtree(made)
            elif made.name not in PAGES:
                made.unlink()

    def kill(self) -> None:
        """Kill it and all that it started, at once; none that runs is fine."""
        process, self._process = self._process, None
        if process is not None:
            kill_group(process)

    def reconfigure(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change its configuration as an editor would.

        A gateway that is told to stop before it has taken a change up never ends.
        """
        found = json.loads(self.room.config.read_text())
        change(found)
        self.room.config.write_text(json.dumps(found, indent=2))

    def rpc(self) -> AbstractContextManager[Rpc]:
        """A connection to it."""
        return open_rpc(self.port, self.token)

    def say(self, message: str, session: str = MAIN_SESSION) -> dict[str, Any]:
        """Say something in a session as its owner, and wait for the turn's end."""
        ended = self.turn(message, session)
        assert ended["status"] == "ok", ended
        return ended

    def turn(self, message: str, session: str = MAIN_SESSION) -> dict[str, Any]:
        """Say something likewise, and return how the turn ended."""
        run_id = token_hex(8)
        with self.rpc() as rpc:
            rpc.call("agent", sessionKey=session, message=message, idempotencyKey=run_id)
            return rpc.call("agent.wait", runId=run_id, timeoutMs=TURN_LIMIT * 1000)

    def lines(self, session: str) -> list[str]:
        """What the user sees in a session's chat, oldest first."""
        with self.rpc() as rpc:
            found = rpc.call("chat.history", sessionKey=session, limit=200)
        return [text_of(each) for each in found["messages"]]

    def wait_until_idle(self, session: str) -> None:
        """Wait until a session has no run: what is sent before may go into its last."""

        def is_idle() -> bool:
            with self.rpc() as rpc:
                found = rpc.call("chat.history", sessionKey=session, limit=1)
            return not found["sessionInfo"]["hasActiveRun"]

        until(is_idle, f"{session} has no run", TURN_LIMIT)

    def compact(self, session: str = MAIN_SESSION) -> None:
        """Compact a session, as soon as its last turn has quite ended."""

        def is_compacted() -> bool:
            with suppress(CallRefused), self.rpc() as rpc:
                rpc.call("sessions.compact", key=session)
                return True
            return False

        until(is_compacted, f"{session} is compacted", TURN_LIMIT)

    def report(self) -> str:
        """What it printed and logged last."""
        return f"{last_lines(self.output, 10)}\n{last_lines(self.log, 40)}"

    def listens(self) -> bool:
        """Whether something listens on its port."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _config(self) -> dict[str, Any]:
        """What a user's configuration would hold, and no more."""
        return {
            **make_configuration(self.model_url, self.port, self.token, self.log),
            "mcp": {"servers": self.mcp_servers},
            "plugins": self.plugins,
        }
