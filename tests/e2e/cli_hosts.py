"""The real Claude Code and Codex, each in a terminal, with a scripted model on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Self

from tests.e2e.openclaw import cache_folder, obtain_package
from tests.e2e.room import Room, until
from tests.e2e.taskmem import PROGRAM, Taskmem

_TMUX = shutil.which("tmux") or "tmux"
ROOT = Path(__file__).parents[2]
PLUGIN_ID = "taskmem-mcp@openclaw-taskmem"
KEY = "sk-ant-api03-loopback-only-not-a-real-key-0000000000"


class CliHost(ABC):
    """A host with a terminal of its own."""

    name: str
    """As `taskmem setup` knows it."""
    package: str
    program: str
    """Its program in `node_modules`, as a pattern."""
    prompt: str
    """What its screen shows where it waits for its user."""
    turn_end: str
    """What its screen shows below the last words of a turn once that is over, hooks included."""
    prefix = "mcp__taskmem__"
    """Begins the names of our tools."""
    shell: tuple[str, str]
    """Its tool for commands, and the argument that has the command."""
    transport: str | None
    """Delivers its wakes; None: none does, as it asks for the ends of its waits itself."""
    files: tuple[str, ...]
    """What it and its set-up keep in the home of the user."""

    def __init__(
        self, room: Room, taskmem: Taskmem, model_url: str, *, is_set_up: bool = True
    ) -> None:
        self.room, self.is_set_up = room, is_set_up
        self.work = room.root / "work"
        self.work.mkdir(exist_ok=True)
        self._binary = obtain_package(cache_folder(), self.package, self.program)
        self._taskmem = taskmem
        # As on a machine where it is installed. It passes on its PATH, but not our settings.
        before = taskmem.settings.get("PATH", os.environ["PATH"])
        path = os.pathsep.join((str(self._binary.parent), before))
        taskmem.settings.update({"TASKMEM_WAKE_TRANSPORT": "", "PATH": path})
        self.configure(model_url)
        if is_set_up:
            self.set_up()
            # On a busy machine a cold start takes longer than Codex waits for a server.
            taskmem.run("daemon", "--detach")
        self._open_terminal()

    def _open_terminal(self, number: int = 0) -> None:
        self._socket = self.room.root / f"{self.name}{number or ''}.tmux"
        keep = (";", "set-option", "-g", "remain-on-exit", "on")
        self._tmux("new-session", "-d", "-x", "200", "-y", "50", "sleep infinity", *keep)

    def open_another(self) -> Self:
        """Return the same host of the same user, with a second terminal."""
        other = copy(self)
        other._open_terminal(2)
        return other

    def set_up(self) -> None:
        """Set it up for Task memory."""
        self._taskmem.run("setup", self.name)

    def install_plugin(self, *, command: str) -> None:
        """Install the plug-in of this repository by the host's own command."""
        settings = self._taskmem.settings
        settings["TASKMEM_HOME"] = ""  # a plug-in names none, and Codex passes none on
        settings["PATH"] = os.pathsep.join((str(PROGRAM.parent), settings["PATH"]))
        environ = self.room.environment(self._taskmem.environment)
        for args in (("marketplace", "add", str(ROOT)), (command, PLUGIN_ID)):
            subprocess.run([str(self._binary), "plugin", *args], env=environ, check=True)

    @abstractmethod
    def configure(self, model_url: str) -> None:
        """Write the configuration that a user would have, but for ours."""

    @abstractmethod
    def list_variables(self) -> dict[str, str]:
        """The variables that it is started with."""

    @abstractmethod
    def begin(self) -> None:
        """Start its first session."""

    @abstractmethod
    def list_resume_arguments(self) -> list[str]:
        """The arguments that take up its last session."""

    @abstractmethod
    def has_compacted(self) -> bool:
        """Return whether its screen says that it has compacted its context."""

    def start(self, *args: str) -> None:
        """Start it in a new terminal, and wait for its prompt."""
        environ = self.room.environment({**self._taskmem.environment, **self.list_variables()})
        given = [f"{name}={value}" for name, value in environ.items()]
        command = ["env", "-i", *given, "TERM=xterm-256color", str(self._binary), *args]
        respawn = ("respawn-pane", "-k", "-c", str(self.work), *command)
        self._tmux(*respawn)

        def is_ready() -> bool:
            # Claude Code ends at times where another begins to start.
            if "Pane is dead" in (screen := self.screen):
                self._tmux(*respawn)
            return self.prompt in screen

        until(is_ready, "it is ready", shown=lambda: self.screen)

    @property
    def screen(self) -> str:
        """What its terminal shows."""
        return self._tmux("capture-pane", "-p")

    def say(self, text: str) -> None:
        """Type a text, and enter it once it is shown."""
        before = self.screen.count(text)
        self._tmux("send-keys", "-l", text)
        until(
            lambda: self.screen.count(text) > before, "it is shown", 40, shown=lambda: self.screen
        )
        self.press("Enter")

    def press(self, key: str) -> None:
        """Press a key."""
        self._tmux("send-keys", key)

    def kill_terminal(self) -> None:
        """Kill the process in this terminal alone."""
        with suppress(ProcessLookupError):
            os.kill(int(self._tmux("display-message", "-p", "#{pane_pid}")), signal.SIGKILL)

    def kill(self) -> None:
        """Kill it and its helpers; its relays end by themselves."""
        for process in self.room.processes():
            with suppress(OSError):
                # Codex runs a copy of itself, too.
                if Path(f"/proc/{process}/exe").readlink().name == self._binary.name:
                    os.kill(process, signal.SIGKILL)

    def close(self) -> None:
        """End it and its terminal, and leave nothing of it in the home, which others may share."""
        self.kill()
        self._tmux("kill-server")
        for name in self.files:
            path = self.room.home / name
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _tmux(self, *args: str) -> str:
        done = subprocess.run(
            [_TMUX, "-f", "/dev/null", "-S", str(self._socket), *args],
            env=self.room.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"tmux {args}: {done.stderr}"
        return done.stdout


class ClaudeCode(CliHost):
    """Claude Code, which has been used before and trusts its folder."""

    name = "claude"
    package = "@anthropic-ai/claude-code@2.1.332"
    program = "@anthropic-ai/claude-code-*/claude"
    prompt = "\n❯"
    turn_end = " · done "
    shell = ("Bash", "command")
    transport: str | None = None
    session = "11111111-2222-4333-8444-555555555555"
    files = (".claude", ".claude.json")
    mode = "acceptEdits"
    """What it asks its user for."""

    def configure(self, model_url: str) -> None:
        self._url = model_url.removesuffix("/v1")
        used = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        config = {
            "hasCompletedOnboarding": True,
            "hasSeenAutoDefaultNudge": True,  # else it may ask to change the mode as it starts
            "theme": "dark",
            "autoUpdates": False,
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(self.work): used},
        }
        (self.room.home / ".claude.json").write_text(json.dumps(config))
        (self.room.home / ".claude").mkdir()
        allowed = [f"{self.prefix}*", "Bash", "Read", "Write"]
        permissions = {"defaultMode": self.mode, "allow": allowed}
        settings = {"permissions": permissions, "skipDangerousModePermissionPrompt": True}
        (self.room.home / ".claude" / "settings.json").write_text(json.dumps(settings))

    def list_variables(self) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self._url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",  # a refusal ends the turn, as a limit of a plan does
        }

    def begin(self) -> None:
        """Start its first session."""
        self.start("--session-id", self.session)

    def list_resume_arguments(self) -> list[str]:
        return ["--resume", self.session]

    def has_compacted(self) -> bool:
        return "Compacted" in self.screen


class ClaudeCodeWithoutTasks(ClaudeCode):
    """Claude Code whose user has switched off the tasks of MCP."""

    transport = "claude-inbox"

    def list_variables(self) -> dict[str, str]:
        return {**super().list_variables(), "CLAUDE_CODE_DISABLE_MCP_TASKS": "1"}


class ClaudeCodeWithoutPrompts(ClaudeCodeWithoutTasks):
    """The same, where it asks for no permissions."""

    mode = "bypassPermissions"


class Codex(CliHost):
    """Codex, which trusts its folder and our tools."""

    name = "codex"
    package = "@openai/codex@0.171.0"
    program = "@openai/codex-*/vendor/*/bin/codex"
    prompt = "\n›"
    turn_end = "Worked for "
    shell = ("exec_command", "cmd")
    transport = "codex-queue"
    files = (".codex", ".agents")

    def configure(self, model_url: str) -> None:
        folder = self.room.home / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(
            f"""model = "scripted"
model_provider = "loop"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.loop]
name = "loop"
base_url = "{model_url}"
wire_api = "responses"
env_key = "LOOP_KEY"
request_max_retries = 0
stream_max_retries = 0
[projects."{self.work}"]
trust_level = "trusted"
[analytics]
enabled = false
[feedback]
enabled = false
"""
        )

    def list_variables(self) -> dict[str, str]:
        return {"LOOP_KEY": "not-a-real-key"}

    def begin(self) -> None:
        """Start its first session, and trust our hooks, for which it asks once."""
        self.start("--no-alt-screen")
        if not self.is_set_up:
            return
        question = "Trust all and continue"
        until(lambda: question in self.screen, "it asks for trust", shown=lambda: self.screen)

        def is_trusted() -> bool:
            # It may show the question before it takes a key.
            screen = self.screen
            if question in screen:
                self._tmux("send-keys", "Enter" if f"› 2. {question}" in screen else "2")
            return question not in screen

        until(is_trusted, "it has it", shown=lambda: self.screen)

    def list_resume_arguments(self) -> list[str]:
        return ["--no-alt-screen", "resume", "--last"]

    def has_compacted(self) -> bool:
        return "Context compacted" in self.screen


class CodexWithPatches(Codex):
    """Codex with a model that has its tool for patches, as those of its maker have."""

    def configure(self, model_url: str) -> None:
        super().configure(model_url)
        known = subprocess.run(
            [str(self._binary), "debug", "models", "--bundled"],
            env=self.room.environment(),
            capture_output=True,
            check=True,
        )
        plain = next(e for e in json.loads(known.stdout)["models"] if not e.get("tool_mode"))
        model = {**plain, "slug": "scripted", "upgrade": None, "supports_search_tool": False}
        catalog, config = (
            self.room.home / ".codex" / name for name in ("models.json", "config.toml")
        )
        catalog.write_text(json.dumps({"models": [model]}))
        config.write_text(f'model_catalog_json = "{catalog}"\n{config.read_text()}')


class ClaudeCodeWithPlugin(ClaudeCode):
    """Claude Code with the plug-in of this repository, installed by its own command."""

    prefix = "mcp__plugin_taskmem-mcp_taskmem__"

    def set_up(self) -> None:
        self.install_plugin(command="install")


class CodexWithPlugin(Codex):
    """Codex likewise."""

    def set_up(self) -> None:
        self.install_plugin(command="add")
