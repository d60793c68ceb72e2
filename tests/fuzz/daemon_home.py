"""One daemon in this process on the virtual clock of the simulation, called by lines."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import ExitStack
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from openclaw_taskmem.daemon import person_calls
from openclaw_taskmem.daemon.server import SocketServer
from openclaw_taskmem.plugin_host import plugin_host
from tests.simulation.daemon import run_inline
from tests.simulation.history import Play
from tests.simulation.rules import Rules

MOST_CALLS: Final = 400
"""Calls after which a home is made anew: what a call costs grows with what is stored."""
MOST_SECONDS: Final = 600.0
"""Virtual seconds in which a call must be answered."""
LOG: Final = logging.getLogger("openclaw_taskmem")
WITHOUT_END: Final = ("follow", "wait", "changes")
"""Methods that answer when something happens."""


class Defect(AssertionError):
    """The daemon failed, did not answer, or answered with something that is not allowed."""


class _Answers:
    """Stands in for the writer of a connection."""

    def __init__(self) -> None:
        self.text = b""

    def write(self, text: bytes) -> None:
        self.text += text

    async def drain(self) -> None:
        """There is always room."""


class DaemonHome:
    """One home and its daemon; made anew when it has answered enough calls."""

    def __init__(self) -> None:
        self.calls = 0
        """How many calls were made, in all homes."""
        self._play: Play | None = None
        self._left = 0
        self._patches = ExitStack()

    def __enter__(self) -> None:
        """Let plug-ins run in this thread, the doctor not at all, and keep the log to ourselves."""
        for what in (
            patch.object(LOG, "propagate", new=False),
            patch.object(plugin_host, "run_with_timeout", run_inline),
            patch.object(person_calls.DoctorRuns, "begin", lambda *_, **__: True),
        ):
            self._patches.enter_context(what)

    def __exit__(self, *_: object) -> None:
        """Drop the home that there is, and undo the rest."""
        self._drop()
        self._patches.close()

    def _drop(self) -> None:
        if self._play is not None:
            LOG.removeHandler(self._play.log)
            self._play.end()
        self._play, self._left = None, 0

    def renew(self) -> None:
        """Drop the home, and make one with three tasks of a session."""
        self._drop()
        self._play = play = Play(1, Rules({}))
        self._server = SocketServer(play.daemon.dispatcher, lambda _: None)
        self._left = MOST_CALLS
        self._number = 0
        boot = {"kind": "gateway", "number": 1, "host": "openclaw", "boot": "b1", "running": []}
        self.call("gateway", "report", {"events": [boot]})
        self.ids = [self._register(f"Task {number}") for number in range(3)] + ["task_none"]

    def prepare(self) -> None:
        """Make a home if there is none that may be used."""
        if self._left <= 0:
            self.renew()

    def _register(self, name: str) -> str:
        arguments = {"name": name, "plan": ["Build it", "Run it"]}
        given = {"tool": "task_register", "arguments": arguments, "session_key": "agent:main:main"}
        return str(self.call("gateway", "call", given)["task_id"])

    def call(self, client_kind: str, method: str, params: object) -> Any:
        """Return the result of a call, or its error."""
        self._number += 1
        line = json.dumps({"id": self._number, "method": method, "params": params})
        answer = json.loads(self.send(client_kind, line.encode()) or b"{}")
        if method not in WITHOUT_END and answer.get("id") != self._number:
            raise Defect(f"{method} {params} was answered by {answer}")
        return answer.get("result", answer.get("error"))

    def send(self, client_kind: str, line: bytes) -> bytes:
        """Send a line to the daemon; return the line that answers it, empty if it waits.

        Raises:
            Defect: The daemon logged an error, never answers, or not by one line.
        """
        assert self._play is not None
        play, answers = self._play, _Answers()
        self.calls += 1
        self._left -= 1
        dispatcher: Any = play.daemon.dispatcher
        answering = dispatcher.answer
        if client_kind == "gateway":
            answering = partial(dispatcher.answer_gateway, play.gateways[0].connection)
        making: Any = self._server._answer_line(line, answers, answering, ())  # type: ignore[arg-type]
        with play.loop.enter_loop():
            task: asyncio.Task[None] = play.loop.create_task(making)
        play.loop.run_ready()
        if not task.done():
            play.loop.advance(MOST_SECONDS)
        faults = [*play.log.errors, *play.loop.faults]
        if faults or play.daemon.failure:
            raise Defect(f"{line[:2000]!r}: {faults} {play.daemon.failure}")
        if task.done():
            task.result()
            _, ended, rest = answers.text.partition(b"\n")
            if rest or not ended:
                raise Defect(f"{line[:2000]!r} is not answered by one line: {answers.text!r}")
        else:
            task.cancel()
            self._left = 0
            if not any(f'"{method}"'.encode() in line for method in WITHOUT_END):
                raise Defect(f"{line[:2000]!r} is not answered")
        return answers.text
