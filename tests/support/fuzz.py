"""Calls of every method with values that no form expects, drawn from a seed."""

from __future__ import annotations

import json
import random
from typing import Any, Final

from openclaw_taskmem.daemon import gateway_events
from openclaw_taskmem.tools import catalog
from tests.support.daemons import Daemon

VIEWS: Final = ("show", "waits", "wakes", "runs", "events", "plugins", "tools", "status")
OTHERS: Final = (
    "feed",
    "forget",
    "act",
    "find",
    "overview",
    "tasks",
    "changes",
    "nothing",
    "wait\ud800",
)
OF_GATEWAYS: Final = ("packet", "question", "budget", "finalize", "command")
FIELDS: Final = (
    *("id", "all", "limit", "task_id", "before", "name", "text", "because", "profile"),
    *("session_key", "agent_id", "folder", "by", "begins", "age", "said", "command"),
    *("words", "request", "at_work", "host", "action", "kinds", "seen", "question_id", "files_id"),
)
TEXTS: Final = (
    *("", " ", "x", "\x00", "\ud800", "\x1b[2J", "\u202e", "[task_resume]", "../../x"),
    *("x" * 300, "x" * 70_000, "é" * 5000, "completed", "active", "user", "any", "a.md"),
    *("pty:file:/nowhere/x", "pty:x", "window:x", "screen", "http://127.0.0.1:1/x"),
    *('"READY" appears', "/(a+)+$/ appears", "it exits", "50 %", "agent:main:main"),
    *("agent:other:x", "true", "-1", "9" * 400, "resume", "stop", "status"),
)
NUMBERS: Final = (0, 1, 2, -1, 7, 2**31, 2**63, 10**400, 0.5, 1e308, float("nan"))
PER_CONNECTION: Final = 40


def send_fuzz(daemon: Daemon, seed: int, calls: int) -> int:
    """Send calls over connections of each kind; return how many were answered.

    Raises:
        AssertionError: One was not.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    ids = [daemon.register(f"Task {number}") for number in range(3)] + ["task_none"]
    answered = 0
    while answered < calls:
        client_kind = rng.choice(("client", "client", "gateway", "mcp"))
        lines = [
            json.dumps({**_call(rng, client_kind, ids), **_envelope(rng, client_kind, number)})
            for number in range(PER_CONNECTION)
        ]
        answered += _send(daemon, client_kind, lines)
    return answered


def _send(daemon: Daemon, client_kind: str, lines: list[str]) -> int:
    end = daemon.raw()
    with end, end.makefile("rb") as heard:
        opening = {"taskmem": 1, "face": client_kind}
        end.sendall(json.dumps(opening).encode() + b"\n")
        assert b"pid" in heard.readline()
        if client_kind == "mcp":
            end.sendall(json.dumps(_HELLO).encode() + b"\n")
            assert b"serverInfo" in heard.readline()
        end.sendall("".join(f"{line}\n" for line in lines).encode())
        waited = set(range(len(lines)))
        while waited:
            answer = json.loads(heard.readline() or b'{"id": "hung up"}')
            assert answer["id"] in waited, answer
            waited.discard(answer["id"])
    return len(lines)


_HELLO: Final = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "fuzz", "version": "1"},
    },
}


def _envelope(rng: random.Random, client_kind: str, number: int) -> dict[str, Any]:
    return {"id": number} if client_kind != "mcp" else {"jsonrpc": "2.0", "id": number}


def _call(rng: random.Random, client_kind: str, ids: list[str]) -> dict[str, Any]:
    """Return the method and params of a call."""
    if client_kind == "mcp":
        name, arguments = make_tool_call(rng, ids)
        return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}
    if rng.random() < 0.5:
        name, arguments = make_tool_call(rng, ids)
        called = {"tool": name, "arguments": arguments}
        return {"method": "call", "params": {**_fields(rng, ids), **called}}
    if client_kind == "gateway" and rng.random() < 0.5:
        events = [make_event(rng, ids) for _ in range(rng.randint(0, 4))]
        return {"method": "report", "params": {"events": events}}
    method, params = make_method_call(rng, client_kind, ids)
    return {"method": method, "params": params}


def make_method_call(
    rng: random.Random, client_kind: str, ids: list[str]
) -> tuple[str, dict[str, Any]]:
    """Return a method of the socket other than a call of a tool or a report, and its params."""
    methods = OF_GATEWAYS if client_kind == "gateway" else (*VIEWS, *OTHERS)
    return rng.choice(methods), _fields(rng, ids)


def make_tool_call(rng: random.Random, ids: list[str]) -> tuple[str, object]:
    """Return the name of a tool, and arguments of any kind."""
    tool = rng.choice(catalog.list_offered("all", recalls=True))
    known = tool.input_schema["properties"]
    given = {name: _value(rng, ids, name) for name in known if rng.random() < 0.6}
    if rng.random() < 0.1:
        given[rng.choice(TEXTS[1:])] = _value(rng, ids)
    name = tool.name if rng.random() < 0.97 else rng.choice(TEXTS)
    return name, given


def _fields(rng: random.Random, ids: list[str]) -> dict[str, Any]:
    return {name: _value(rng, ids, name) for name in FIELDS if rng.random() < 0.4}


def make_event(rng: random.Random, ids: list[str]) -> dict[str, Any]:
    """Return an event as a gateway's plug-in reports it, with values of any kind."""
    kind, form = rng.choice([*gateway_events._KINDS.items()])
    given = {name: _value(rng, ids, name) for name in form.model_fields}
    kept = {name: value for name, value in given.items() if rng.random() < 0.5}
    return {**kept, "kind": kind}


def _value(rng: random.Random, ids: list[str], name: str = "") -> Any:
    """Return a value; about half of them are of the kind that a name expects."""
    if rng.random() < 0.5:
        if name.endswith("id"):
            return rng.choice(ids)
        if name in ("session_key", "agent_id"):
            return rng.choice(("agent:main:main", "agent:other:main"))
        if name in ("plan", "new_plan", "artifacts", "signals", "ask_options"):
            return [rng.choice(TEXTS) for _ in range(rng.randint(0, 5))]
        if name in ("completed_steps", "reopened_steps", "token", "limit", "step"):
            return rng.choice(([1], [2, 3], 1, 2))
        return rng.choice(TEXTS)
    return _anything(rng, 0)


def _anything(rng: random.Random, level: int) -> Any:
    kind = rng.randint(0, 5 if level < 4 else 3)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind == 1:
        return rng.choice(NUMBERS)
    if kind in (2, 3):
        return rng.choice(TEXTS)
    size = rng.randint(0, 3)
    if kind == 4:
        return [_anything(rng, level + 1) for _ in range(size)]
    return {rng.choice(TEXTS[:12]): _anything(rng, level + 1) for _ in range(size)}
