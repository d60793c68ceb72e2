"""A stand-in for the plug-in in the gateway: its door, and sessions that take wakes.

It answers as `gateway/request_server.js` and `sessions.js` do, or as rudely as it is told.
"""

from __future__ import annotations

import json
import socketserver
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.support.waiting import PATIENCE

MAIN, OTHER = "agent:main:main", "agent:main:other"
Rude = Callable[["Visit"], None]
"""What is done with a request instead of answering it."""


class Visit(socketserver.StreamRequestHandler):
    """One connection: a JSON object a line each way."""

    server: _Server

    def handle(self) -> None:
        gateway = self.server.gateway
        with suppress(ConnectionError):  # whoever asked has given it up
            if gateway.rude is not None:
                gateway.rude(self)
                return
            for line in self.rfile:
                self.wfile.write(gateway.answer(line) + b"\n")


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    gateway: FakeGateway


class FakeGateway:
    """The gateway of a home: two sessions, which take wakes as told."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tm")
        self.home = Path(self._folder.name)
        """`TASKMEM_HOME`, short enough for a socket."""
        self.environ = {"TASKMEM_HOME": str(self.home)}
        self.path = self.home / "openclaw.sock"
        self.over = threading.Event()
        """Set when the test ends; who hangs may wait for it."""
        self.rude: Rude | None = None
        self.sessions = {MAIN, OTHER}
        self.host = "openclaw:one"
        self.quick = True
        """Whether a turn takes what is put before it at once; else it waits there."""
        self.heartbeats = False
        """Whether turns can only be started by a heartbeat."""
        self.to_recover: set[str] = set()
        """Sessions with a turn that OpenClaw is to go on with."""
        self.idle = False
        """Whether no turn can be started at all."""
        self.said: list[tuple[str, str]] = []
        self._told: set[str] = set()
        """The lines that users are shown: session, line."""
        self.views: dict[str, dict[str, Any]] = {}
        """What the user of each session sees besides the chat."""
        """What its users cannot be shown, and why."""
        self.stopped: bool | None = None
        """Whether a turn that is to be stopped is; None: there is none."""
        self.facts: dict[str, Any] = {
            "model": "local/one",
            "pictures": True,
            "picture_model": "local/one",
        }
        """What it says of its model."""
        self.reading: dict[str, Any] = {
            "text": '{"met": "no"}',
            "model": "local/one",
            "tokens_in": 100,
            "tokens_out": 10,
            "cost_usd": 0.002,
        }
        """What its model answers."""
        self.boot = 1_000
        """When it was started, in milliseconds."""
        self.commands: dict[str, dict[str, Any]] = {}
        """What it shows of the commands that it runs in the background."""
        self.asked: list[dict[str, Any]] = []
        """Every request, as it came."""
        self.turns: list[tuple[str, str]] = []
        """The turns that were asked for: session, message."""
        self.seen: list[str] = []
        """What stood before the prompts of turns, of all that was put there."""
        self._waiting: dict[str, str] = {}
        self._turn = threading.RLock()
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        """Answer itself; leaving the block closes the door."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the door, and end whoever hangs."""
        self.over.set()
        self.close()
        self._folder.cleanup()

    # --- the door -------------------------------------------------------------

    def open(self) -> Self:
        """Open the door."""
        self.path.unlink(missing_ok=True)
        self._server = _Server(str(self.path), Visit)
        self._server.gateway = self
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Let nobody in any more; the socket stays behind, as after a kill."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(PATIENCE)
            self._server = None

    def answer(self, line: bytes) -> bytes:
        """Return the answer to one request."""
        try:
            asked = json.loads(line)
            self.asked.append(dict(asked))
            handlers = {
                "wake": self._wake,
                "say": self._say,
                "show": self._show,
                "stop": self._stop,
                "exec": self._exec,
                "reader": lambda: self.facts,
                "read": lambda **_: self.reading,
            }
            handler = handlers[asked.pop("ask")]
            with self._turn:
                said = handler(**asked)
        except Exception as error:  # noqa: BLE001 - as the door does
            said = {"failed": str(error)}
        return json.dumps(said).encode()

    def _say(
        self,
        session_key: str | None,
        text: str,
        key: str,
        *,
        in_chat: bool,
        question: object,
        without_card: str,
    ) -> dict[str, str]:
        del question, without_card
        session = session_key or MAIN
        if session not in self.sessions:
            return {"refused": f"The gateway has no session {session}."}
        if key not in self._told and not in_chat:
            self.said.append((session, text))
        self._told.add(key)
        return {}

    def _exec(self, name: str, size: int) -> dict[str, Any]:
        del size
        unknown = {"running": [*self.commands]}
        return {"boot": self.boot, **self.commands.get(name, unknown)}

    def _show(self, **view: Any) -> dict[str, str]:
        session = view["session_key"]
        if session not in self.sessions:
            return {"refused": f"The gateway has no session {session}."}
        self.views[session] = view
        return {}

    def _stop(self, session_key: str, age: float) -> dict[str, bool]:
        del session_key, age
        return {} if self.stopped is None else {"stopped": self.stopped}

    # --- the sessions ---------------------------------------------------------

    def _wake(
        self,
        session_key: str | None,
        key: str,
        text: str,
        message: str,
        host: str | None = None,
        **_: str,
    ) -> dict[str, Any]:
        if host not in (None, self.host):
            return {"elsewhere": True}
        session = (session_key or MAIN).lower()
        if session not in self.sessions:
            return {"refused": f"The gateway has no session {session}."}
        if session in self.to_recover:
            return {"recovers": session}
        first = self._waiting.get(session, key)
        if first != key:
            return {"waits_for": first}
        if self.idle:
            raise RuntimeError("no turn could be started")
        self.turns.append((session, message))
        if self.quick:
            self.seen.append(text)
        else:
            self._waiting[session] = key
        return {"turn": "heartbeat" if self.heartbeats else "ordinary"}
