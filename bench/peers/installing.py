"""Install the peers: Node servers by npm, Python libraries by pip."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from peers.servers import Server, fill_server_memory, fill_shrimp, fill_task_master

from tests.e2e.openclaw import Unavailable, node_program, npm

SECONDS = 1200.0
"""How long one installation may take."""
SERVERS = {
    "server-memory": (
        "@modelcontextprotocol/server-memory@2026.8.31",
        "@modelcontextprotocol/server-memory/dist/index.js",
        fill_server_memory,
    ),
    "task-master": ("task-master-ai@0.43.1", "task-master-ai/dist/mcp-server.js", fill_task_master),
    "shrimp": (
        "mcp-shrimp-task-manager@1.0.21",
        "mcp-shrimp-task-manager/dist/index.js",
        fill_shrimp,
    ),
}
MODULES = {
    "LangGraph's SqliteSaver": ("langgraph-checkpoint-sqlite==3.1.2", "langgraph"),
    "DBOS on SQLite": ("dbos==3.4.0", "dbos"),
}
BEADS = (
    "beads is missing: its npm package (@beads/bd) holds no program, but a script that fetches "
    "one from outside of the registry when it is installed, and no Python package has it."
)


def install_servers(made: Path, stored: Path, tasks: int) -> Iterator[Server | str]:
    """Install and fill each server; a sentence for one that cannot be installed.

    `made`: where they are installed. `stored`: where each keeps its tasks.
    """
    for name, (package, entry, fill) in SERVERS.items():
        place = made / name
        try:
            node = node_program()
            if not (place / "node_modules" / entry).exists():
                quiet = ("--no-audit", "--no-fund", "--ignore-scripts")
                npm(node, "install", "--prefix", str(place), *quiet, package, limit=SECONDS)
        except (Unavailable, RuntimeError) as error:
            yield f"{name} is missing: {package} could not be installed: {error}"
            continue
        folder = stored / name
        folder.mkdir()
        env, build = fill(folder, tasks)
        common = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        command = (str(node), str(place / "node_modules" / entry))
        yield Server(name, command, {**common, **env}, build)


class InProcess:
    """A library in a Python of its own; it times itself, so no message counts."""

    def __init__(self, name: str, python: Path, module: str, folder: Path, tasks: int) -> None:
        """Start it, and wait until its tasks are there."""
        self.name = name
        script = Path(__file__).with_name("in_process.py")
        self._process = subprocess.Popen(
            [str(python), str(script), module, str(folder), str(tasks)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pids = (self._process.pid,)
        assert self._read_line() == "ready"  # noqa: S101 - it says nothing else

    def __enter__(self) -> Self:
        """Answer itself; leaving the block ends it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it by the end of its stdin."""
        self._process.communicate()

    def time(self, operation: str, number: int) -> float:
        """Do an operation, and return the seconds it took."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write(f"{operation} {number}\n")
        self._process.stdin.flush()
        return float(self._read_line())

    def _read_line(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        return self._process.stdout.readline().strip()


def install_modules(made: Path, stored: Path, tasks: int) -> Iterator[InProcess | str]:
    """Install and fill each library; a sentence for one that cannot be installed."""
    python = made / "python" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(made / "python")], check=True)
    for name, (package, module) in MODULES.items():
        done = _run(python, "-c", f"import {module}")
        if done.returncode:
            done = _run(python, "-m", "pip", "install", "--quiet", package)
        if done.returncode:
            yield f"{name} is missing: {package} could not be installed: {done.stderr[-300:]}"
            continue
        folder = stored / module
        folder.mkdir()
        yield InProcess(name, python, module, folder, tasks)


def _run(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    asked = [str(python), *words]
    return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=SECONDS)
