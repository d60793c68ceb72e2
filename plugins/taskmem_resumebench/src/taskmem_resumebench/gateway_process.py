"""The OpenClaw gateway of this machine, on loopback, with a home and a state folder of its own."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from taskmem_resumebench.chat_server import MODEL
from taskmem_resumebench.process_group import find_last_line, kill_group

START_SECONDS: Final = 600.0
CALL_SECONDS: Final = 600.0
"""However busy the machine is."""
_NO_MODEL: Final = "http://127.0.0.1:9/v1"
"""Before the first start, which names the model."""
_STARTS: Final = 3
_GLANCE: Final = 0.1


class GatewayFailed(Exception):
    """The gateway did not do what it has to; the message says what, with the end of its output."""


def find_free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_configuration(model_url: str, port: int, token: str, log: Path) -> dict[str, Any]:
    """Return a configuration of OpenClaw: one model, loopback, a token, and little else."""
    model = {
        "id": MODEL,
        "name": "Scripted",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 128_000,
        "maxTokens": 4096,
    }
    provider = {
        "baseUrl": model_url,
        "apiKey": "not-a-secret",
        "api": "openai-completions",
        "models": [model],
    }
    auth = {"mode": "token", "token": token}
    return {
        "gateway": {"mode": "local", "bind": "loopback", "port": port, "auth": auth},
        "models": {"mode": "merge", "providers": {"local": provider}},
        "agents": {"defaults": {"model": {"primary": f"local/{MODEL}"}}},
        "tools": {"exec": {"applyPatch": {"workspaceOnly": False}}},
        "logging": {"file": str(log), "level": "info"},
        "update": {"checkOnStart": False},
    }


def list_places(home: Path, state: Path, configuration: Path) -> dict[str, str]:
    """Return the variables that keep an OpenClaw in folders of its own."""
    return {
        "HOME": str(home),
        "OPENCLAW_HOME": str(home),
        "OPENCLAW_STATE_DIR": str(state),
        "OPENCLAW_CONFIG_PATH": str(configuration),
        "OPENCLAW_DISABLE_BONJOUR": "1",
        "OPENCLAW_NO_RESPAWN": "1",
        "NO_COLOR": "1",
    }


def write_program(file: Path, command: Sequence[str], places: Mapping[str, str]) -> None:
    """Write the small program that runs OpenClaw in its folders, whoever calls it."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in places.items()]
    file.write_text("\n".join(("#!/bin/sh", *exports, f'exec {shlex.join(command)} "$@"', "")))
    file.chmod(0o700)


def is_ready(port: int) -> bool:
    """Return True if the gateway at a port says that it is ready for turns."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as reply:
            return bool(json.load(reply)["ready"])
    except OSError:
        return False


class GatewayProcess:
    """The gateway of a folder; over its life several processes."""

    def __init__(self, root: Path, openclaw: str) -> None:
        """Write its configuration; `openclaw` is the installed program."""
        home, state, scratch = root / "home", root / "state", root / "tmp"
        for folder in (home, state, scratch):
            folder.mkdir(parents=True)
        self.program = root / "openclaw"
        self._root, self._output = root, root / "gateway.out"
        self._configuration = state / "openclaw.json"
        self._places = {
            **list_places(home, state, self._configuration),
            "TMPDIR": str(scratch),  # where OpenClaw leaves things
        }
        self._port = find_free_port()
        log = state / "gateway.log"
        self._configure(make_configuration(_NO_MODEL, self._port, secrets.token_hex(16), log))
        write_program(self.program, [openclaw], self._places)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of everything that belongs to it."""
        return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", **self._places}

    def start(self, model_url: str) -> None:
        """Start it with a model, and wait until it is ready for turns.

        One that ends meanwhile is started again, as a service's manager does: OpenClaw refuses to
        start while a process that its predecessor left still writes to its databases.

        Raises:
            GatewayFailed: It ended each time, or is not ready in time.
        """
        found = json.loads(self._configuration.read_text())
        found["models"]["providers"]["local"]["baseUrl"] = model_url
        self._configure(found)
        for _ in range(_STARTS):
            self._launch()
            if self._wait_until_ready():
                return
        said = find_last_line(self._output.read_text(errors="replace"))
        raise GatewayFailed(f"OpenClaw's gateway does not start: {said}")

    def _launch(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own OpenClaw
                [str(self.program), "gateway", "run"],
                cwd=self._root,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait_until_ready(self) -> bool:
        """Wait until it is ready; return False if it ends, or takes too long and is killed."""
        due = time.monotonic() + START_SECONDS  # noqa: TID251 - a process is waited for
        while not is_ready(self._port):
            late = time.monotonic() > due  # noqa: TID251 - likewise
            if late or self._process is None or self._process.poll() is not None:
                self.kill()
                return False
            time.sleep(_GLANCE)
        return True

    def kill(self) -> None:
        """Kill it by SIGKILL, with everything in its process group; none that runs is fine."""
        process, self._process = self._process, None
        if process is not None:
            kill_group(process)

    def call_method(self, method: str, **params: object) -> None:
        """Call one of its methods, by OpenClaw's own command.

        Raises:
            GatewayFailed: It was refused.
        """
        words = ("gateway", "call", method, "--json", "--params", json.dumps(params))
        try:
            subprocess.run(  # noqa: S603 - likewise
                [str(self.program), *words],
                cwd=self._root,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=CALL_SECONDS,
            )
        except subprocess.CalledProcessError as error:
            said = find_last_line(error.stderr.decode(errors="replace"))
            raise GatewayFailed(f"OpenClaw refused `{method}`: {said}") from error
        except subprocess.TimeoutExpired as error:
            raise GatewayFailed(f"OpenClaw did not answer `{method}` in time.") from error

    def _configure(self, document: Mapping[str, Any]) -> None:
        self._configuration.write_text(json.dumps(document, indent=2))
