"""One start of an agent's gateway: what its plug-in says to the daemon, over the daemon's socket.

It says what `plugins/taskmem_openclaw/gateway/` says for real agents: turns and calls, as hooks
show them, and the calls of Task memory's own tools. Unlike the plug-in it waits for the daemon's
answer to each report, also to that of a call's start before the call has its effect. Closing it is
the death of the gateway and its agents: nothing more is said.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from taskmem_resumebench.daemon_process import DaemonProcess
from taskmem_resumebench.work_steps import Call

_FINGERPRINT: Final = "0123456789ab"
_PROTOCOL: Final = 1


class CallRefused(Exception):
    """The daemon refused a call; the message is its sentence."""


class GatewayLink:
    """A gateway with one session, in which an agent works."""

    def __init__(
        self, daemon: DaemonProcess, boot: str, session: str, folder: Path, *, age: int = 0
    ) -> None:
        """Say hello as a gateway, and begin a turn of the user's.

        `age`: the milliseconds since the gateway's start.
        """
        self._session, self._folder = session, str(folder)
        self._socket = daemon.connect()
        self._lines = self._socket.makefile("rb")
        self._send({"taskmem": _PROTOCOL, "face": "gateway", "folder": None, "tools": None})
        self._last_id = 0
        hello = {
            "kind": "gateway",
            "boot": boot,
            "age": age,
            "transport": "openclaw-plugin",
            "version": "0",
            "main": session,
            "fingerprints": {"main": _FINGERPRINT},
        }
        begun = {"kind": "turn_started", "running": [session], "origin": "user"}
        self._report(hello, begun)

    def close(self) -> None:
        """Hang up without a word, as a gateway that is killed."""
        self._lines.close()
        self._socket.close()

    def call_tool(self, tool: str, request: str | None, **arguments: object) -> dict[str, Any]:
        """Call a tool of Task memory for the agent; `request`: the user's words in this turn.

        Raises:
            CallRefused: It was refused.
        """
        said = {} if request is None else {"request": request}
        return dict(self._ask("call", tool=tool, arguments=arguments, **self._who, **said))

    def fetch_packet(self) -> str:
        """Return what stands before the user's "continue"; empty: nothing."""
        return str(self._ask("packet", **self._who)["text"] or "")

    def report_call_start(self, call_id: str, call: Call) -> None:
        """Report that the agent calls a tool."""
        self._report({"kind": "tool_started", **self._describe_call(call_id, call)})

    def report_call_end(
        self, call_id: str, call: Call, outcome: str, said: list[tuple[str, str]], *, failed: bool
    ) -> None:
        """Report how a call ended, and what was said since the last one."""
        exec_ = call.tool == "exec"
        ended = {
            "kind": "tool_called",
            **self._describe_call(call_id, call),
            "outcome": outcome,
            "given": hashlib.sha256(call.line.encode()).hexdigest()[:12],
            "result": hashlib.sha256(f"{call.line} {outcome}".encode()).hexdigest()[:12],
            "exit_code": None if failed or not exec_ else 0,
            "failed": failed,
            "ms": 1,
            "said": [{"role": role, "text": text} for role, text in said],
        }
        if call.tool == "write" and not failed:
            ended["touched"] = [{"path": f"{self._folder}/{call.place}", "change": "created"}]
        self._report(ended)

    def end_turn(self, said: str) -> None:
        """Report that the turn has ended."""
        self._report(
            {"kind": "turn_ended", "running": [], "origin": "user", "said": said, "calls": 1}
        )

    @property
    def _who(self) -> dict[str, str]:
        return {"session_key": self._session, "agent_id": "main", "folder": self._folder}

    def _describe_call(self, call_id: str, call: Call) -> Mapping[str, object]:
        return {
            "call_id": call_id,
            "tool": call.tool,
            "about": call.about,
            "method": call.method,
            "folders": [self._folder],
            "command": call.tool == "exec",
        }

    def _report(self, *events: Mapping[str, object]) -> None:
        """Report events, and wait until the daemon has them."""
        who = {**self._who, "fingerprint": _FINGERPRINT}
        told = [event if event["kind"] == "gateway" else {**who, **event} for event in events]
        self._ask("report", events=told)

    def _ask(self, method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
        self._last_id += 1
        answer = self._send({"id": self._last_id, "method": method, "params": params})
        if "error" in answer:
            raise CallRefused(str(answer["error"].get("message")))
        return answer.get("result")

    def _send(self, document: Mapping[str, object]) -> dict[str, Any]:
        self._socket.sendall(json.dumps(document).encode() + b"\n")
        return cast("dict[str, Any]", json.loads(self._lines.readline()))
