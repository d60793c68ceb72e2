"""Start the real gateway once, and have its agent make the calls that a run wants, as its model.

It does what `GatewayLink` does without a gateway. The gateway asks its model what to do next. The
model is here: a request waits for the run, which answers it with the next call of its scripted
agent. A call of the task is a command in OpenClaw's own `exec`: `./call` with the step's words. It
tells the run of itself and waits for its end, so that a run can kill the gateway between two calls
and inside each.
"""

from __future__ import annotations

import json
import secrets
import shlex
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, cast

from taskmem_resumebench import world_call
from taskmem_resumebench.agents import PACKETS
from taskmem_resumebench.chat_server import Answer, ChatServer, ToolCall
from taskmem_resumebench.gateway_link import CallRefused
from taskmem_resumebench.gateway_process import GatewayFailed, GatewayProcess
from taskmem_resumebench.work_steps import Call, format_step, read_step

WAIT_SECONDS: Final = 600.0
"""For the gateway to ask its model, and for a command to run, however busy the machine is."""
_PROGRAM: Final = "call"
_COMMAND: Final = f"exec ./{_PROGRAM} "
"""Begins the command of a call; `exec`, so that the shell dies with it."""
_NOTHING: Final = "NO_REPLY"
"""What an agent answers that has nothing to say, in OpenClaw."""


class _Request(NamedTuple):
    """What the model is asked, and where its answer goes."""

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
        self._desk.settimeout(WAIT_SECONDS)
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
            self._requests.get().answer.put(_NOTHING)
        if self._request is not None:
            self._request.answer.put(_NOTHING)
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
        self, call_id: str, call: Call, outcome: str, said: list[tuple[str, str]], *, failed: bool
    ) -> None:
        """Let the command end, and return when the agent was told how."""
        del call_id, call, outcome, said
        if self._call is not None and not failed:
            self._call.sendall(f"{world_call.DONE}\n".encode())
        self._hang_up()
        self._read_request()

    def end_turn(self, said: str) -> None:
        """Let the agent say something, and nothing after it."""
        self._answer(said)
        self._over = True

    def _take_request(self, body: Mapping[str, Any]) -> Answer:
        """Answer a request to the model; those outside the session have nothing to do with it."""
        if self._over or not is_in_session(body, self._session):
            return _NOTHING
        request = _Request(body, SimpleQueue())
        self._requests.put(request)
        return request.answer.get()

    def _read_request(self) -> Mapping[str, Any]:
        """Return what the model is asked now; wait for it where it is not yet."""
        if self._request is None:
            try:
                self._request = self._requests.get(timeout=WAIT_SECONDS)
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
                    return found + name_calls(document)
    return ""


def name_calls(document: str) -> str:
    """Return a packet's JSON in which commands are named as the agent names its calls."""
    said = json.loads(document)
    for part in ("do_not_redo", "unknown_outcome"):
        if part in said:
            said[part] = [_name_call(line) for line in said[part]]
    return json.dumps(said, ensure_ascii=False)


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
