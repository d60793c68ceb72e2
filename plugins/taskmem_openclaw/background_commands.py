"""Sensor for OpenClaw's background commands.

Such a command is a session of OpenClaw's `exec` and `process` tools with a name like `vivid-shoal`;
its target is `pty:vivid-shoal`. The plug-in in the gateway reports its text and how it ended.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from taskmem_hookspecs import Frame, Target, TargetNotFound, Watch
from taskmem_openclaw import configuration, plugin_socket
from taskmem_openclaw.json_values import to_object

GLANCE_SECONDS: Final = 2.0
"""Time between two looks at a watched command. Seconds."""
ASK_SECONDS: Final = 5.0
"""Time limit of one request to the gateway. Seconds."""
_MOST_NAMED_COMMANDS: Final = 8
_TAIL_LINES: Final = 80
_PROBE: Final = 256
"""Characters used to align old and new text after the gateway dropped the beginning."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ESCAPE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*\x1b\\|.)"
)
_STATUS: Final = re.compile(r"Command failed \(exit code ([0-9]{1,3})\)")
"""How the gateway's task list writes the exit status of a failed command."""
_TEXT_REFUSAL: Final = "OpenClaw does not show its text; only its end can be waited for."
_RESTART_LOSS: Final = (
    "The gateway was restarted, and its commands end with it; how this one ended is not known."
)
_FORGOTTEN_END: Final = "The command has ended; OpenClaw does not know any more how."
_AWAY_GATEWAY_NOTE: Final = "OpenClaw's gateway is away, so that its commands cannot be seen."


class _ExecEnd(NamedTuple):
    """How a command ended."""

    sentence: str
    status: int | None
    """Exit status; the negative number of the signal that ended it; None: unknown."""


class ExecSensor:
    """`Sensor` through the plug-in's socket."""

    def __init__(
        self, environ: Mapping[str, str] = os.environ, *, glance_seconds: float = GLANCE_SECONDS
    ) -> None:
        """Set the environment and the time between two looks. Seconds."""
        self._environ = environ
        self._glance_seconds = glance_seconds

    async def watch(self, target: Target) -> Watch | Target:
        """Start to watch a background command of the gateway.

        A command that runs under `taskmem run` has a recording: return the recording's target.

        Raises:
            TargetNotFound: The gateway runs no such command, or is not running.
        """
        if not _NAME.fullmatch(target.name):
            raise TargetNotFound("")
        path = plugin_socket.find_socket(self._environ)
        try:
            seen = await _fetch_exec(path, target.name, 0)
        except plugin_socket.PluginNotListening:
            wanted = configuration.may_want_plugin(self._environ)
            raise TargetNotFound(_AWAY_GATEWAY_NOTE if wanted else "", sure=not wanted) from None
        except plugin_socket.PluginRequestFailed as error:
            sentence = f"OpenClaw's commands cannot be seen ({error})."
            raise TargetNotFound(sentence, sure=False) from None
        if recording := seen.get("recording"):
            return Target(scheme="pty", name=str(recording))
        if not (_find_session(seen) or seen.get("row")):
            raise TargetNotFound(_describe_running(seen))
        return _ExecWatch(path, target.name, seen, self._glance_seconds)


class _ExecWatch:
    """`Watch` on one background command of the gateway."""

    def __init__(self, path: Path, name: str, seen: Mapping[str, Any], glance: float) -> None:
        """Set the plug-in's socket, the command's name, and the gateway's first answer."""
        self._path = path
        self._name = name
        self._glance_seconds = glance
        self._boot = str(seen.get("boot"))
        self._seen = seen
        self._text = ExecOutput()
        self._text.add(_find_session(seen))
        self._away = False
        self._looked_at = asyncio.get_running_loop().time()

    async def here(self) -> Frame:
        """Return the start of the output: all of it counts for the wait."""
        frame = await self.look(self._format_place(0), self._format_place(0))
        return frame.model_copy(update={"place": self._format_place(0), "text": None})

    async def end(self) -> str:
        """Return the place after all output so far."""
        await self._refresh()
        return self._format_place(self._text.end)

    async def look(self, place: str, start: str) -> Frame:
        """Return the output since `place`."""
        await self._refresh()
        ending = _read_exec_end(self._seen, self._boot)
        text = tail = changed_at = None
        changed_ms = _find_session(self._seen).get("lastOutputAt")
        if isinstance(changed_ms, int | float):
            changed_at = datetime.fromtimestamp(changed_ms / 1000, UTC)
        at = self._parse_offset(place)
        if self._text.is_shown:
            text = self._text.read_since(at)
            since_start = self._text.read_since(self._parse_offset(start)).rstrip("\n")
            tail = "\n".join(since_start.split("\n")[-_TAIL_LINES:])
            at = self._text.end if ending else self._text.line_start
        return Frame(
            seen_at=datetime.now(UTC),
            place=self._format_place(at),
            changed_at=changed_at,
            text=text,
            tail=tail,
            note=_AWAY_GATEWAY_NOTE
            if self._away
            else None
            if self._text.is_shown
            else _TEXT_REFUSAL,
            exit_status=ending and ending.status,
            gone=ending and ending.sentence,
        )

    async def wait_for_change(self) -> None:
        """Wait until the output or the state of the command changes."""
        before = self._read_state()
        while self._read_state() == before:
            await asyncio.sleep(self._glance_seconds)
            await self._refresh()

    async def close(self) -> None:
        """Do nothing: a watch holds no resources."""

    async def _refresh(self) -> None:
        """Ask the gateway again, unless the last look is recent or the command has ended."""
        now = asyncio.get_running_loop().time()
        over = _read_exec_end(self._seen, self._boot) is not None
        if over or now - self._looked_at < self._glance_seconds:
            return
        self._looked_at = now
        try:
            self._seen = await _fetch_exec(self._path, self._name, self._text.size)
            self._away = False
        except (plugin_socket.PluginNotListening, plugin_socket.PluginRequestFailed):
            self._away = True
            return
        self._text.add(_find_session(self._seen))

    def _read_state(self) -> object:
        ending = _read_exec_end(self._seen, self._boot)
        return self._text.end, self._text.is_shown, self._away, ending

    def _format_place(self, offset: int) -> str:
        return f"{self._boot}:{offset}"

    def _parse_offset(self, place: str) -> int:
        boot, _, offset = place.rpartition(":")
        # The gateway was restarted since: none of the current text has been read.
        return int(offset) if boot == self._boot else 0


class ExecOutput:
    """The output of a command as far as the gateway has shown it.

    The gateway keeps the newest 200,000 characters; offsets stay valid when it drops the beginning.
    """

    def __init__(self) -> None:
        self.is_shown = False
        """True if the gateway shows any output of the command."""
        self.size = 0
        """Number of characters of the whole output at the last answer; the next one has the text
        only if this has changed or the beginning was dropped."""
        self._raw = ""
        self._begin = 0
        """Offset of the first character in `_raw`."""

    @property
    def end(self) -> int:
        """Offset of the end of the output."""
        return self._begin + len(self._raw)

    @property
    def line_start(self) -> int:
        """Offset of the last line, which may still grow."""
        return self._begin + self._raw.rfind("\n") + 1

    def add(self, shown: Mapping[str, Any]) -> None:
        """Add what the gateway shows now."""
        if not shown:
            return
        self.is_shown = True
        self.size = int(shown.get("size") or 0)
        text = shown.get("text")
        if not isinstance(text, str):
            return
        if shown.get("cut") and self._raw:
            probe = self._raw[-_PROBE:]
            known = text.rfind(probe)
            new = text if known < 0 else text[known + len(probe) :]
            self._begin = self.end + len(new) - len(text)
        self._raw = text

    def read_since(self, place: int) -> str:
        """Return the lines from an offset on, without escape sequences and overwritten text."""
        # An offset outside the known text: its beginning was dropped meanwhile, so return all.
        at = place - self._begin if self._begin <= place <= self.end else 0
        lines = _ESCAPE.sub("", self._raw[at:]).split("\n")
        return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def _read_exec_end(seen: Mapping[str, Any], boot: str) -> _ExecEnd | None:
    """Return how a command ended; None: it runs.

    `boot` identifies the gateway process that ran when the watch began.
    """
    shown, row = _find_session(seen), to_object(seen.get("row"))
    if shown:
        return _read_session_end(shown)
    if row.get("status") == "running":
        # Rows of an earlier gateway process may stay "running" for ever.
        is_ours = _to_number(row.get("startedAt")) >= _to_number(seen.get("boot"))
        return None if is_ours else _ExecEnd(_RESTART_LOSS, None)
    restarted = str(seen.get("boot")) != boot
    ending = _read_row(row) if row else _ExecEnd(_FORGOTTEN_END, None)
    # A gateway that stops regularly ends its commands itself and records how.
    unknown = ending.status is None
    return _ExecEnd(_RESTART_LOSS, None) if restarted and unknown else ending


def _read_row(row: Mapping[str, Any]) -> _ExecEnd:
    """Return how a command ended, from its row in the gateway's task list."""
    status = None
    match row.get("status"):
        case "completed":
            status, how = 0, _describe_status(0)
        case _ if not str(row.get("terminalSummary")).startswith("Command "):
            # The summary is not the command's own: a restart closed the row.
            how = _RESTART_LOSS
        case "timed_out":
            how = "OpenClaw ended the command, for its time was up."
        case "cancelled":
            how = "The command was stopped on request."
        case _:
            match = _STATUS.fullmatch(str(row.get("error")))
            status = int(match[1]) if match else None
            how = "The command failed; its status is not known."
            how = how if status is None else _describe_status(status)
    return _ExecEnd(how, status)


def _read_session_end(shown: Mapping[str, Any]) -> _ExecEnd | None:
    if shown.get("status") == "running":
        return None
    status, number = shown.get("exitCode"), _read_signal(shown.get("exitSignal"))
    by = "" if number is None else f" by {signal.Signals(number).name}"
    match shown.get("exitReason"):
        # It may have caught the signal, and its own status then says nothing.
        case "overall-timeout" | "no-output-timeout":
            how = f"OpenClaw ended the command{by}, for its time was up."
        case "manual-cancel":
            how = f"The command was stopped on request{by and ','}{by}."
        case _ if by:
            how = f"The command was ended{by}."
        case _ if isinstance(status, int):
            return _ExecEnd(_describe_status(status), status)
        case _:
            how = "The command ended; how is not known."
    return _ExecEnd(how, None if number is None else -number)


def _read_signal(value: object) -> int | None:
    """Return the number of a signal given by name or number; None: no signal."""
    if isinstance(value, str):
        value = getattr(signal, value, None)
    return int(value) if isinstance(value, int) and value in set(signal.Signals) else None


def _describe_status(status: int) -> str:
    return f"The command ended with status {status}."


def _describe_running(seen: Mapping[str, Any]) -> str:
    """Name the commands that the gateway runs; empty if there are none."""
    found = seen.get("running")
    names = [f"pty:{each}" for each in cast("list[object]", found or [])]
    if not names:
        return ""
    more = len(names) - _MOST_NAMED_COMMANDS
    named = f"{', '.join(names[:_MOST_NAMED_COMMANDS])}{f' and {more} more' if more > 0 else ''}"
    return f"OpenClaw runs {named} in the background."


async def _fetch_exec(path: Path, name: str, size: int) -> Mapping[str, Any]:
    return to_object(
        await plugin_socket.ask_gateway(path, "exec", ASK_SECONDS, name=name, size=size)
    )


def _find_session(seen: Mapping[str, Any]) -> Mapping[str, Any]:
    return to_object(seen.get("shown"))


def _to_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
