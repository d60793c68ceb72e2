"""Answer who the server is and which tools it has, for a relay whose daemon starts.

The first is the same in every home. The tools depend on plug-ins and settings, so a relay keeps
what a daemon that it started itself has listed, and uses it while nothing has changed on which that
depends. Standard library only, since the relay is built on it.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

from openclaw_taskmem import __version__
from openclaw_taskmem.home import Home
from openclaw_taskmem.mcp_lines import McpMessage, parse_line

SERVER_NAME: Final = "taskmem"
SERVER_TITLE: Final = "Task memory"
INSTRUCTIONS: Final = (
    "Memory for work that takes many steps. Register such work with task_register, "
    "narrate every step with task_update, revise with task_plan_update; where you lost "
    "track, ask task_update with a query. Never poll for what takes long: start it "
    "under `taskmem run --name NAME -- CMD` in the background, hand the waiting over "
    "with smart_wait, and do as it answers: that says how you learn of the end. A "
    "text that starts with [task_stuck_resume] or [task_resume] is from here: it "
    "holds your own task as JSON; go on with its suggested_next_action and report "
    "with task_update. Do not do again what do_not_redo names, look first at what "
    "unknown_outcome names, and leave what do_not_revive names."
)
"""Instructions for every host, whether or not a wake can reach its agent."""
TASKS: Final = "io.modelcontextprotocol/tasks"
"""The extension by which a wait is a task, under the wait's id.

Source: https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html
"""
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
"""Metadata of a request of the newer protocol: what its client can do."""
OLDER_PROTOCOLS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Protocols that begin with `initialize`, the latest last."""
NEWER_PROTOCOLS: Final = ("2026-07-28",)
"""Protocols in which each request says who asks."""
_PROTOCOL: Final = "io.modelcontextprotocol/protocolVersion"
_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
_SERVER: Final = "io.modelcontextprotocol/serverInfo"
_MOST_BYTES: Final = 16 * 1024
"""Longest request that is answered here."""
_MOST_LISTED_BYTES: Final = 1024 * 1024
"""Longest file of tools that is read."""


def answer_hello(message: McpMessage) -> tuple[str, bytes] | None:
    """Return the protocol that a host's first request is made in, and the line that answers it.

    None: it is none that begins a session, or one that only the SDK can judge.
    """
    if message.method == "server/discover":
        newer = find_protocol(message, None)
        return (newer, build_answer(message, _describe_server(newer))) if newer else None
    if message.method != "initialize":
        return None
    match _read_params(message):
        case {
            "protocolVersion": str(asked),
            "capabilities": capabilities,
            "clientInfo": client,
            **more,
        } if not more and _are_objects(capabilities) and _is_client(client):
            protocol = asked if asked in OLDER_PROTOCOLS else OLDER_PROTOCOLS[-1]
            return protocol, build_answer(message, _describe_server(protocol))
        case _:
            return None


def find_protocol(message: McpMessage, greeted: str | None) -> str | None:
    """Return the protocol of a request that has no parameters of its own.

    `greeted`: the protocol of the host's first request; None: not known. The answer is None if only
    the SDK can judge the request.
    """
    params = _read_params(message)
    if params is None or params.keys() - {"_meta"}:
        return None
    meta: object = params.get("_meta") or {}
    if not isinstance(meta, dict):
        return None
    told = cast("dict[str, object]", meta)
    if _PROTOCOL not in told:
        return greeted if greeted in OLDER_PROTOCOLS else None
    known = [each for each in NEWER_PROTOCOLS if each == told[_PROTOCOL]]
    names_client = _CLIENT not in told or _is_client(told[_CLIENT])
    if (
        known
        and greeted in (None, *known)
        and names_client
        and _are_objects(told.get(CAPABILITIES))
    ):
        return known[0]
    return None


def _describe_server(protocol: str) -> dict[str, Any]:
    server = {"name": SERVER_NAME, "title": SERVER_TITLE, "version": __version__}
    capabilities: dict[str, Any] = {"tools": {"listChanged": False}}
    told: dict[str, Any] = {"capabilities": capabilities, "instructions": INSTRUCTIONS}
    if protocol in OLDER_PROTOCOLS:
        return {**told, "protocolVersion": protocol, "serverInfo": server}
    capabilities["extensions"] = {TASKS: {}}
    told |= {"cacheScope": "private", "resultType": "complete", "ttlMs": 0}
    return {**told, "supportedVersions": NEWER_PROTOCOLS, "_meta": {_SERVER: server}}


def build_answer(message: McpMessage, result: Mapping[str, Any]) -> bytes:
    """Build the line that answers a request."""
    answer = {"jsonrpc": "2.0", "id": message.id, "result": result}
    return json.dumps(answer, separators=(",", ":")).encode() + b"\n"


def _read_params(message: McpMessage) -> dict[str, Any] | None:
    """Return a request's parameters; None: they are no object, or the request is unusual."""
    if len(message.line) > _MOST_BYTES or not isinstance(message.id, int | str):
        return None
    params: object = parse_line(message.line).get("params") or {}
    return cast("dict[str, Any]", params) if isinstance(params, dict) else None


def _is_client(told: object) -> bool:
    match told:
        case {"name": str(), "version": str()}:
            return True
        case _:
            return False


def _are_objects(told: object) -> bool:
    """Tell whether something is an object of objects, as what a client can do is."""
    if not isinstance(told, dict):
        return False
    return all(isinstance(each, dict) for each in cast("dict[str, object]", told).values())


class ListedTools:
    """The tools that the last daemon listed which a relay of this home started, by protocol.

    They are used only in the circumstances in which that daemon was started: the same version, the
    same settings in the file and the environment, the same packages.
    """

    def __init__(self, home: Home, environ: Mapping[str, str]) -> None:
        """Note the circumstances in which a daemon would start now."""
        self._folder = home.folder
        self._circumstances = _describe_circumstances(home, environ)

    def read_result(self, protocol: str) -> dict[str, Any] | None:
        """Return the result of `tools/list`; None: it is not known."""
        with suppress(OSError, ValueError, RecursionError):
            content = self._read_content(protocol)
            match json.loads(content):
                case {"circumstances": known, "result": {"tools": list()} as result}:
                    return cast("dict[str, Any]", result) if known == self._circumstances else None
                case _:
                    return None
        return None

    def keep_answer(self, protocol: str, answer: bytes) -> None:
        """Keep the result in an answer of the daemon to `tools/list`; a full disk is no failure."""
        match parse_line(answer):
            case {"result": {"tools": list()} as result}:
                kept = {"circumstances": self._circumstances, "result": result}
            case _:
                return
        content = json.dumps(kept, separators=(",", ":")).encode()
        file = self._folder / _name_file(protocol)
        fresh = file.with_suffix(".new")
        with suppress(OSError):
            if self._read_content(protocol) == content:
                return
        with suppress(OSError):
            fresh.unlink(missing_ok=True)  # a relay was killed here
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(fresh, flags, 0o600), "wb") as end:
                end.write(content)
            fresh.replace(file)

    def _read_content(self, protocol: str) -> bytes:
        """Return what the file holds, if it is our own.

        Raises:
            OSError: There is none, or it is not.
        """
        path = self._folder / _name_file(protocol)
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            info = os.fstat(file.fileno())
            is_own = info.st_uid == os.geteuid() and not info.st_mode & 0o022
            if not (is_own and stat.S_ISREG(info.st_mode) and info.st_size < _MOST_LISTED_BYTES):
                raise PermissionError
            return file.read()


def _name_file(protocol: str) -> str:
    return f"tools-{protocol}.json"


def _describe_circumstances(home: Home, environ: Mapping[str, str]) -> str:
    """Return a digest of all on which the tools of a daemon depend that starts now.

    A folder of packages changes when one is installed, upgraded or removed.
    """
    import hashlib

    found: list[object] = [__version__, sys.version]
    for folder in sys.path:
        with suppress(OSError):
            found.append((folder, os.stat(folder).st_mtime_ns))  # noqa: PTH116 - without Path
    with suppress(OSError):
        found.append(home.config.read_bytes())
    found += sorted(
        (name, value)
        for name, value in environ.items()
        if name.startswith("TASKMEM_") and name != "TASKMEM_HOME"
    )
    return hashlib.sha256(repr(found).encode(errors="surrogateescape")).hexdigest()
