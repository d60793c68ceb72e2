"""The OpenClaw of this machine, with folders of its own, and the agent that works in it.

`GatewayAgent` does what `GatewayLink` does without a gateway. The gateway asks its model what to do
next. The model is here: a request waits for the run, which answers it with the next call of its
scripted agent. A call of the task is a command in OpenClaw's own `exec`: `./call` with the step's
words. It tells the run of itself and waits for its end, so that a run can kill the gateway between
two calls and inside each.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, cast
from urllib.request import urlopen

from taskmem_resumebench import world_call
from taskmem_resumebench.agents import PACKETS
from taskmem_resumebench.daemon import CallRefused, find_last_line, kill_group
from taskmem_resumebench.servers import MODEL, Answer, ChatServer, ToolCall
from taskmem_resumebench.tasks import Call, format_step, read_step

START_SECONDS: Final = 600.0
_CALL_SECONDS: Final = 600.0
"""However busy the machine is."""
_NO_MODEL: Final = "http://127.0.0.1:9/v1"
"""Before the first start, which names the model."""
_MOST_STARTS: Final = 3
_GLANCE_SECONDS: Final = 0.1
_WAIT_SECONDS: Final = 600.0
"""For the gateway to ask its model, and for a command to run, however busy the machine is."""
_PROGRAM: Final = "call"
_COMMAND: Final = f"exec ./{_PROGRAM} "
"""Begins the command of a call; `exec`, so that the shell dies with it."""
_SILENT_ANSWER: Final = "NO_REPLY"
"""Answer of an agent that has nothing to say, in OpenClaw."""


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
        for _ in range(_MOST_STARTS):
            self._launch()
            if self._wait_until_ready():
                return
        reason = find_last_line(self._output.read_text(errors="replace"))
        raise GatewayFailed(f"OpenClaw's gateway does not start: {reason}")

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
        due = time.monotonic() + START_SECONDS
        while not is_ready(self._port):
            late = time.monotonic() > due
            if late or self._process is None or self._process.poll() is not None:
                self.kill()
                return False
            time.sleep(_GLANCE_SECONDS)
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
                timeout=_CALL_SECONDS,
            )
        except subprocess.CalledProcessError as error:
            reason = find_last_line(error.stderr.decode(errors="replace"))
            raise GatewayFailed(f"OpenClaw refused `{method}`: {reason}") from error
        except subprocess.TimeoutExpired as error:
            raise GatewayFailed(f"OpenClaw did not answer `{method}` in time.") from error

    def _configure(self, document: Mapping[str, Any]) -> None:
        self._configuration.write_text(json.dumps(document, indent=2))


class _Request(NamedTuple):
    """A request to the model, and the queue for its answer."""

    body: Mapping[str, Any]
    answer: SimpleQueue[Answer]


class GatewayAgent:
    """Makes the calls of one session's agent, from the gateway's start until it is killed."""

    def __init__(self, gateway: GatewayProcess, session: str, folder: Path) -> None:
        """Start the gateway.

        Raises:
            GatewayFailed: It does not start; this holds for what follows, too.
        """
        self._gateway, self._session, self._folder = gateway, session, folder
        self._requests: SimpleQueue[_Request] = SimpleQueue()
        self._request: _Request | None = None
        self._call: socket.socket | None = None
        self._over = False
        self._desk = socket.create_server(("127.0.0.1", 0))
        self._desk.settimeout(_WAIT_SECONDS)
        words = (sys.executable, "-IS", world_call.__file__, str(self._desk.getsockname()[1]))
        program = folder / _PROGRAM
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o700)
        self._model = ChatServer(self._take_request).__enter__()
        try:
            gateway.start(self._model.url)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill the gateway and its agent."""
        self._gateway.kill()
        self._over = True
        while not self._requests.empty():
            self._requests.get().answer.put(_SILENT_ANSWER)
        if self._request is not None:
            self._request.answer.put(_SILENT_ANSWER)
        self._hang_up()
        self._desk.close()
        self._model.__exit__()

    def call_tool(self, tool: str, request: str | None, **arguments: object) -> dict[str, Any]:
        """Let the agent call a tool of Task memory; `request`: what the user says before.

        Raises:
            CallRefused: It was refused.
        """
        if request is not None:
            who = {"sessionKey": self._session, "idempotencyKey": secrets.token_hex(8)}
            self._gateway.call_method("agent", message=request, **who)
        self._answer([choose_call(self._read_request(), tool, arguments)])
        return read_answer(self._read_request())

    def fetch_packet(self) -> str:
        """Return what the turn that begins by itself brings for the agent; empty: nothing."""
        return find_packet(self._read_request())

    def report_call_start(self, call_id: str, call: Call) -> None:
        """Let the agent run a call's command, and return when it runs."""
        del call_id
        command = _COMMAND + format_step(call)
        self._answer([ToolCall("exec", {"command": command, "workdir": str(self._folder)})])
        try:
            self._call, _ = self._desk.accept()
        except TimeoutError as error:
            raise GatewayFailed(f"OpenClaw did not run `{command}`.") from error

    def report_call_end(
        self,
        call_id: str,
        call: Call,
        outcome: str,
        messages: list[tuple[str, str]],
        *,
        failed: bool,
    ) -> None:
        """Let the command end, and return when the agent was told how."""
        del call_id, call, outcome, messages
        if self._call is not None and not failed:
            self._call.sendall(f"{world_call.DONE_LINE}\n".encode())
        self._hang_up()
        self._read_request()

    def end_turn(self, words: str) -> None:
        """Let the agent say something, and nothing after it."""
        self._answer(words)
        self._over = True

    def _take_request(self, body: Mapping[str, Any]) -> Answer:
        """Answer a request to the model; those outside the session have nothing to do with it."""
        if self._over or not is_in_session(body, self._session):
            return _SILENT_ANSWER
        request = _Request(body, SimpleQueue())
        self._requests.put(request)
        return request.answer.get()

    def _read_request(self) -> Mapping[str, Any]:
        """Return what the model is asked now; wait for it where it is not yet."""
        if self._request is None:
            try:
                self._request = self._requests.get(timeout=_WAIT_SECONDS)
            except Empty as error:
                raise GatewayFailed("OpenClaw began no turn, or did not go on with it.") from error
        return self._request.body

    def _hang_up(self) -> None:
        """End the connection of the command that runs; none is fine."""
        call, self._call = self._call, None
        if call is not None:
            call.close()

    def _answer(self, answer: Answer) -> None:
        self._read_request()
        request, self._request = cast("_Request", self._request), None
        request.answer.put(answer)


def is_in_session(body: Mapping[str, Any], session: str) -> bool:
    """Return True if OpenClaw asks its model in a session; its instructions name the session."""
    told = f"| session={session}"
    lines = (line for each in body["messages"] for line in read_text(each).split("\n"))
    return any(line.startswith("Runtime: ") and f"{line} ".find(f"{told} ") > 0 for line in lines)


def choose_call(body: Mapping[str, Any], tool: str, arguments: Mapping[str, object]) -> ToolCall:
    """Return a call of a tool, by OpenClaw's catalogue where the model is not shown it."""
    if any(each["function"]["name"] == tool for each in body.get("tools", ())):
        return ToolCall(tool, arguments)
    return ToolCall("tool_call", {"id": tool, "args": arguments})


def read_answer(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to the last tool call.

    Raises:
        CallRefused: It was refused.
    """
    text = [read_text(each) for each in body["messages"] if each["role"] == "tool"][-1]
    try:
        return cast("dict[str, Any]", json.loads(text))
    except ValueError as error:
        raise CallRefused(text) from error


def find_packet(body: Mapping[str, Any]) -> str:
    """Return the packet that came since the agent's last word or call; empty: none."""
    for message in reversed(body["messages"]):
        if message["role"] in {"assistant", "tool"}:
            break
        for line in read_text(message).split("\n"):
            for word in PACKETS:
                _, found, document = line.partition(word)  # after the time, as OpenClaw tells it
                if found:
                    return found + _name_calls(document)
    return ""


def _name_calls(document: str) -> str:
    """Return a packet's JSON in which commands are named as the agent names its calls."""
    packet = json.loads(document)
    for part in ("do_not_redo", "unknown_outcome"):
        if part in packet:
            packet[part] = [_name_call(line) for line in packet[part]]
    return json.dumps(packet, ensure_ascii=False)


def _name_call(line: str) -> str:
    """Return the call that a line with a command stands for; another line as it is."""
    sentence = line.removeprefix(f"exec: {_COMMAND}").partition(" (exit ")[0]
    try:
        return read_step(sentence, "").line
    except ValueError:
        return line


def read_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message, whose content is a string or a list of parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)
