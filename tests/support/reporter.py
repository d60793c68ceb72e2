"""What the plug-in in a gateway says to a daemon, over the same socket."""

from __future__ import annotations

import threading
from typing import Any, Self
from uuid import uuid4

from openclaw_taskmem.cli.client import connect
from openclaw_taskmem.home import Home

FINGERPRINT = "0123456789ab"
"""Of every agent's prompt."""
MAIN = "agent:main:main"


class Reporter:
    """One start of a gateway: its reports, each answered once it is durable."""

    def __init__(self, home: Home, age: float, folder: str | None = None) -> None:
        """Say hello to the daemon of a home.

        `age`: seconds since the gateway started. `folder`: where its agents work; None: unknown.
        """
        self._folder = folder
        self._running: set[str] = set()
        self._link = connect(home, "gateway")
        self._one = threading.Lock()
        self._calls = 0
        self.report(
            kind="gateway",
            boot=str(uuid4()),
            age=1000 * age,
            transport="openclaw-plugin",
            version="0",
            main=MAIN,
            fingerprints={"main": FINGERPRINT},
        )

    def __enter__(self) -> Self:
        """Answer itself; leaving the block hangs up."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up without a word, as one that is killed."""
        self._link.close()

    def report(self, **event: Any) -> None:
        """Report an event, and return once it is kept."""
        self._ask("report", {"events": [event]})

    def report_work(self, kind: str, session: str, **event: Any) -> None:
        """Report an event of a session at work."""
        who = {"agent_id": "main", "fingerprint": FINGERPRINT}
        self.report(kind=kind, session_key=session, **who, **event)

    def call(self, session: str, tool: str, **given: Any) -> dict[str, Any]:
        """Call a tool of ours for a session's agent."""
        by = {"session_key": session, "agent_id": "main", "folder": self._folder}
        return dict(self._ask("call", {"tool": tool, "arguments": given, **by}))

    def begin_turn(self, session: str) -> None:
        """Report that a turn of the user's begins in a session."""
        self._running.add(session)
        running = sorted(self._running)
        self.report_work("turn_started", session, running=running, origin="user")

    def end_turn(self, session: str, said: str) -> None:
        """Report that a session's turn has ended, and what its agent said."""
        self._running.discard(session)
        running = sorted(self._running)
        ended = {"running": running, "origin": "user", "said": said, "calls": 3}
        self.report_work("turn_ended", session, deliveries=[], **ended)

    def report_tool_call(self, session: str, **given: Any) -> None:
        """Report a tool's call, from its beginning to its end; `given`: its command and result."""
        about = {"about": given["about"]} if "about" in given else {}
        self.report_call_start(session, **about)
        self.report_call_end(session, **given)

    def report_call_start(self, session: str, **given: Any) -> None:
        """Report that a tool is called."""
        self._calls += 1
        self.report_work("tool_started", session, **{**self._describe_call(), **given})

    def report_call_end(self, session: str, **given: Any) -> None:
        """Report that it has answered."""
        said = f"Part {self._calls} is built; the next one is part {self._calls + 1}."
        ended: dict[str, Any] = {
            **self._describe_call(),
            "outcome": f"-rw-r--r-- 1 agent agent 40{self._calls} build/part.o\n" * 5,
            "given": f"{self._calls:012x}",
            "result": f"{2 * self._calls:012x}",
            "exit_code": 0,
            "ms": 12.5,
            "said": [{"role": "assistant", "text": said}],
        }
        self.report_work("tool_called", session, **{**ended, **given})

    def _describe_call(self) -> dict[str, str]:
        about = f"make -C src part{self._calls} && ls -l build/part{self._calls}.o"
        return {"call_id": f"call_{self._calls}", "tool": "exec", "about": about}

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        with self._one:
            return self._link.call(method, params)
