"""MCP servers that keep tasks in files: how each is filled, and what it is asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from homes import Host
from peers.in_process import PLAN

NAME = "Deploy the shop {}"
WHEN = "2026-11-28T00:00:00.000Z"


class Server(NamedTuple):
    """A server to be measured."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    build: Callable[[str, int], tuple[str, Mapping[str, object]]]
    """Returns the tool and the arguments of an operation; the number chooses the task."""


class PeerHost(Host):
    """A session with a server, which may also send what nobody asked for."""

    def __init__(self, server: Server) -> None:
        """Start it."""
        super().__init__(server.command, server.env)
        self.name = server.name
        self.pids: tuple[int, ...] = (self.process.pid,)
        self._build = server.build
        self.sizes: dict[str, int] = {}
        """Bytes of the last answer to each operation."""

    def __enter__(self) -> Self:
        """Do the handshake."""
        self.shake_hands()
        return self

    def exchange(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer; whatever the server asks itself is refused."""
        self._last_id += 1
        asked = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._send(asked)
        while True:
            line = self.process.stdout.readline()  # type: ignore[union-attr]
            answer = json.loads(line)
            if "method" not in answer and answer.get("id") == self._last_id:
                self.sizes[str(params.get("name"))] = len(line)
                return dict(answer)
            if "method" in answer and "id" in answer:
                refusal = {"code": -32601, "message": "A benchmark answers nothing."}
                self._send({"jsonrpc": "2.0", "id": answer["id"], "error": refusal})

    def time(self, operation: str, number: int) -> float:
        """Do an operation, and return the seconds until it was answered."""
        tool, arguments = self._build(operation, number)
        took = self.call(tool, arguments)
        self.sizes[operation] = self.sizes[tool]
        return took


def fill_server_memory(folder: Path, tasks: int) -> tuple[Mapping[str, str], Any]:
    """Write its file; tasks are entities, and what is said of them observations."""
    path = folder / "memory.jsonl"
    rows = (
        {
            "type": "entity",
            "name": NAME.format(n),
            "entityType": "task",
            "observations": [PLAN.format(n)],
        }
        for n in range(tasks)
    )
    path.write_text("\n".join(map(json.dumps, rows)))

    def build(operation: str, number: int) -> tuple[str, Mapping[str, object]]:
        name = NAME.format(number * 7919 % tasks)
        said = f"{PLAN.format(number)} {time.time_ns()}"  # it keeps no observation twice
        if operation == "update":
            return "add_observations", {"observations": [{"entityName": name, "contents": [said]}]}
        if operation == "list":
            return "read_graph", {}
        return "open_nodes", {"names": [name]}

    return {"MEMORY_FILE_PATH": str(path)}, build


def fill_shrimp(folder: Path, tasks: int) -> tuple[Mapping[str, str], Any]:
    """Write its file."""

    def make_id(number: int) -> str:
        return f"{number:08x}-0000-4000-8000-000000000000"

    rows = [
        {
            "id": make_id(n),
            "name": NAME.format(n),
            "description": PLAN.format(n),
            "status": "pending",
            "dependencies": [],
            "createdAt": WHEN,
            "updatedAt": WHEN,
        }
        for n in range(tasks)
    ]
    (folder / "tasks.json").write_text(json.dumps({"tasks": rows}, indent=2))

    def build(operation: str, number: int) -> tuple[str, Mapping[str, object]]:
        task = {"taskId": make_id(number * 7919 % tasks)}
        if operation == "update":
            return "update_task", {**task, "notes": PLAN.format(number)}
        if operation == "list":
            return "list_tasks", {"status": "all"}
        return "get_task_detail", task

    return {"DATA_DIR": str(folder), "ENABLE_GUI": "false"}, build


def fill_task_master(folder: Path, tasks: int) -> tuple[Mapping[str, str], Any]:
    """Write its file; it has no free text without a model, so a status is set instead."""
    rows = [
        {
            "id": n + 1,
            "title": NAME.format(n),
            "description": PLAN.format(n),
            "status": "pending",
            "dependencies": [],
            "priority": "medium",
            "details": "",
            "testStrategy": "",
            "subtasks": [],
        }
        for n in range(tasks)
    ]
    about = {"created": WHEN, "updated": WHEN, "description": ""}
    kept = folder / ".taskmaster"
    (kept / "tasks").mkdir(parents=True)
    (kept / "tasks" / "tasks.json").write_text(
        json.dumps({"master": {"tasks": rows, "metadata": about}}, indent=2)
    )
    (kept / "config.json").write_text(json.dumps({"global": {"anonymousTelemetry": False}}))

    def build(operation: str, number: int) -> tuple[str, Mapping[str, object]]:
        where = {"projectRoot": str(folder)}
        task = {"id": str(number * 7919 % tasks + 1), **where}
        if operation == "update":
            status = "in-progress" if number % 2 else "review"
            return "set_task_status", {**task, "status": status}
        return ("get_tasks", where) if operation == "list" else ("get_task", task)

    env = {"TASK_MASTER_TOOLS": "core", "TASK_MASTER_PROJECT_ROOT": str(folder)}
    return env, build
