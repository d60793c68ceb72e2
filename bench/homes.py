"""Homes on a real disk, filled fast, the daemons that serve them, and a light MCP host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from machine import find_filesystem

from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.domain.changes import stuck
from openclaw_taskmem.domain.policies import StuckPolicy
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.engine import notifications, run_recovery
from openclaw_taskmem.engine.context import new_id
from openclaw_taskmem.home import Home, find_home
from taskmem_hookspecs import Bookmark, Change
from taskmem_sqlmodel.store import SqlStore

COMMAND = str(Path(sys.executable).with_name("taskmem"))
POLICY = StuckPolicy(threshold_seconds=86_400)
"""A day of silence, so that nothing becomes due while it is measured."""
BATCH = 1000
PLAN = ("Build the image", "Run the tests", "Push it", "Roll it out", "Watch it")
PROTOCOL = "2025-06-18"


def find_disk() -> Path:
    """Return a folder on a real disk; homes on tmpfs would make every fsync free.

    Raises:
        SystemExit: There is none; TASKMEM_BENCH_FOLDER names another.
    """
    wanted = os.environ.get("TASKMEM_BENCH_FOLDER")
    folder = Path(wanted) if wanted else Path.home() / ".cache"
    folder.mkdir(parents=True, exist_ok=True)
    if find_filesystem(folder) in ("tmpfs", "ramfs"):
        raise SystemExit("TASKMEM_BENCH_FOLDER must name a folder on a real disk.")
    return folder


@contextmanager
def make_home() -> Iterator[Home]:
    """Give an empty home of its own, and remove it."""
    with tempfile.TemporaryDirectory(prefix="tmb", dir=find_disk()) as folder:
        home = find_home({"TASKMEM_HOME": str(Path(folder) / "h")})
        home.prepare()
        yield home


def build_environment(home: Home) -> dict[str, str]:
    """Return the environment of a daemon and its clients: nobody's settings but ours."""
    # What pip installs is compiled once, so what is measured may be, too.
    foreign = ("TASKMEM_", "OPENCLAW_", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    return {
        **kept,
        "TASKMEM_HOME": str(home.folder),
        "TASKMEM_WAKE_TRANSPORT": "stdout",
        "TASKMEM_STUCK_THRESHOLD_SECONDS": f"{POLICY.threshold_seconds:g}",
    }


def open_store(home: Home) -> SqlStore:
    """Open a home's store in this process."""
    return SqlStore(f"sqlite:///{home.database}")


def fill_home(home: Home, tasks: int, session_key: str | None = None) -> list[str]:
    """Put active tasks into a home that no daemon serves, and return their ids.

    They were registered one after the other over the last hour, and none is due.
    `session_key`: whose they are; None: nobody's, so that any agent may work on them.
    """
    store = open_store(home)
    now = datetime.now(UTC)
    ids: list[str] = []
    for start in range(0, tasks, BATCH):
        count = min(BATCH, tasks - start)
        ages = [3600 * (1 - (start + i) / tasks) for i in range(count)]
        changes = [_build_registration(now - timedelta(seconds=age), session_key) for age in ages]
        rows = tuple(change.tasks[0] for change in changes)
        store.commit(Change(tasks=rows, events=tuple(c.events[0] for c in changes)))
        ids += [task.task_id for task in rows]
    # A daemon would set the dues anew, and tell of every event, at its start.
    policy = Bookmark(name=run_recovery.POLICY_BOOKMARK, value=POLICY.model_dump_json())
    told = Bookmark(name=notifications.HOOKS_BOOKMARK, value=str(tasks))
    store.commit(Change(bookmarks=(policy, told)))
    store.close()
    return ids


def _build_registration(at: datetime, session_key: str | None) -> Change:
    change = lifecycle.build_task(
        task_id=new_id("task", at),
        name="Deploy the shop",
        plan=PLAN,
        metadata={"ticket": "SHOP-1234"},
        session_key=session_key,
        now=at,
    )
    due = stuck.compute_due_time(change.tasks[0], POLICY)
    task = change.tasks[0].model_copy(update={"stuck_due_at": due})
    return change.model_copy(update={"tasks": (task,)})


@contextmanager
def serve_home(home: Home, program: Sequence[str] = (COMMAND,), **settings: str) -> Iterator[int]:
    """Run a daemon of a home, and give its process id once it answers."""
    process = start_home_daemon(home, program, **settings)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def start_home_daemon(
    home: Home, program: Sequence[str] = (COMMAND,), **settings: str
) -> subprocess.Popen[bytes]:
    """Start a daemon of a home, and return its process once it lets us in.

    `program`: the command `taskmem`.

    Raises:
        SystemExit: It ended, or does not let us in; the text has the end of what it said.
    """
    said = home.folder.with_name("daemon.err")
    with said.open("ab") as errors:
        process = subprocess.Popen(
            [*program, "daemon"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**build_environment(home), **settings},
        )
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        with suppress(LinkError), connect(home) as link:
            link.call("status", {})
            return process
        time.sleep(0.01)
    process.kill()
    process.wait()
    raise SystemExit(f"The daemon did not start: {said.read_text().strip()[-300:]}")


def run_taskmem(home: Home, arguments: Sequence[str]) -> float:
    """Run `taskmem` to its end, and return the seconds it took."""
    start = time.perf_counter()
    subprocess.run(
        [COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=build_environment(home),
        check=True,
    )
    return time.perf_counter() - start


class Host:
    """One session with one server, one call at a time."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the server; nothing is said yet."""
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
        )
        self._last_id = 0

    def __enter__(self) -> Self:
        """Answer itself; leaving the block ends the server."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the server by the end of its stdin."""
        self.process.communicate()

    def shake_hands(self) -> dict[str, Any]:
        """Do the handshake, and return what the server says of itself."""
        answer = self.ask(
            "initialize",
            {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            },
        )
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        answer = self.exchange(method, params)
        if "result" not in answer:
            raise SystemExit(f"{method} was answered with {answer}")
        return dict(answer["result"])

    def exchange(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer, which may be a refusal."""
        self._last_id += 1
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        answer = json.loads(self.process.stdout.readline())
        if answer.get("id") != self._last_id:
            raise SystemExit(f"{method} was answered with {answer}")
        return dict(answer)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> float:
        """Call a tool, and return the seconds until it answered."""
        start = time.perf_counter()
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        took = time.perf_counter() - start
        if result.get("isError"):
            raise SystemExit(f"{tool} refused: {result}")
        return took

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None  # noqa: S101 - it is a pipe
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
