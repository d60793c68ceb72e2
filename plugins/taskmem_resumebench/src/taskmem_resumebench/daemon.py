"""A real daemon in a folder that goes with the benchmark, and what a gateway says to it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self, cast

from taskmem_program import OWN_PROGRAM
from taskmem_resumebench.tasks import Call

_LINE_LENGTH: Final = 300
_REMOVAL: Final = (
    'read -r _; rm -rf -- "$1"; for pause in 1 1 2 4 8 16; do sleep $pause; rm -rf -- "$1"; done &'
)
"""Removes a folder at the end of its input, then again in the background.

What still runs may write into it meanwhile, and a daemon that was just being started makes
its home once more.
"""
COMMAND: Final = (*OWN_PROGRAM, "daemon")
"""The product's own command; nothing else of the product is used."""
START_SECONDS: Final = 60.0
_GLANCE_SECONDS: Final = 0.005
_FOREIGN_PREFIXES: Final = ("TASKMEM_", "OPENCLAW_", "GEMINI_", "GOOGLE_")
"""Beginnings of settings that are the user's, and no part of what is measured."""
_SETTINGS: Final = {"TASKMEM_WAKE_TRANSPORT": "openclaw-plugin", "TASKMEM_READERS": "none"}
_FINGERPRINT: Final = "0123456789ab"
_PROTOCOL: Final = 1


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill everything in the group that a process leads by SIGKILL; one that is gone is fine."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def find_last_line(text: str) -> str:
    """Return the last line of what a process said, shortened; empty: it said nothing."""
    lines = text.strip().splitlines()
    return lines[-1].strip()[:_LINE_LENGTH] if lines else ""


@contextmanager
def make_bench_folder() -> Generator[Path]:
    """Make a temporary folder, and have a shell remove it when the block or this process ends.

    A daemon whose home is removed ends. (`PR_SET_PDEATHSIG` would not do: a daemon that is started
    by a thread would be killed when that thread ends.)
    """
    folder = Path(tempfile.mkdtemp(prefix="tm"))
    with subprocess.Popen(  # noqa: S603 - a constant and the folder
        ["/bin/sh", "-c", _REMOVAL, "sh", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    ):
        yield folder


class DaemonNotServing(Exception):
    """The daemon could not be started; the message has the last line of its log."""


class DaemonProcess:
    """The daemon of a home; over its life several processes."""

    def __init__(
        self, home: Path, workspaces: Path, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Start it; `workspaces`: the folder in which its agents work."""
        home.mkdir(mode=0o700, exist_ok=True)
        self._home, self._log = home, home / "bench.log"
        kept = {name: v for name, v in os.environ.items() if not name.startswith(_FOREIGN_PREFIXES)}
        places = {
            "TASKMEM_HOME": str(home),
            "TASKMEM_ARTIFACT_ROOTS": str(workspaces),
            "OPENCLAW_STATE_DIR": str(home / "openclaw"),
        }
        self._environ = {**kept, **_SETTINGS, **places, **settings}
        self.start()

    def __enter__(self) -> Self:
        """Return it; leaving the block ends it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()

    def kill(self) -> None:
        """Kill it by SIGKILL."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def connect(self) -> socket.socket:
        """Connect to its socket, as soon as it serves.

        Raises:
            DaemonNotServing: It ended, or does not serve in time.
        """
        due = time.monotonic() + START_SECONDS
        while True:
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                link.connect(str(self._home / "daemon.sock"))
            except OSError as error:
                link.close()
                late = time.monotonic() > due
                if late or self._process.poll() is not None:
                    reason = find_last_line(self._log.read_text(errors="replace"))
                    raise DaemonNotServing(f"The daemon does not serve: {reason}") from error
                time.sleep(_GLANCE_SECONDS)
            else:
                return link

    def start(self) -> None:
        """Start a process, and do not wait for it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the product's own command
                COMMAND,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self._environ,
                start_new_session=True,
            )


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
        words = {} if request is None else {"request": request}
        return dict(self._ask("call", tool=tool, arguments=arguments, **self._who, **words))

    def fetch_packet(self) -> str:
        """Return what stands before the user's "continue"; empty: nothing."""
        return str(self._ask("packet", **self._who)["text"] or "")

    def report_call_start(self, call_id: str, call: Call) -> None:
        """Report that the agent calls a tool."""
        self._report({"kind": "tool_started", **self._describe_call(call_id, call)})

    def report_call_end(
        self,
        call_id: str,
        call: Call,
        outcome: str,
        messages: list[tuple[str, str]],
        *,
        failed: bool,
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
            "said": [{"role": role, "text": text} for role, text in messages],
        }
        if call.tool == "write" and not failed:
            ended["touched"] = [{"path": f"{self._folder}/{call.place}", "change": "created"}]
        self._report(ended)

    def end_turn(self, words: str) -> None:
        """Report that the turn has ended."""
        self._report(
            {"kind": "turn_ended", "running": [], "origin": "user", "said": words, "calls": 1}
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
