"""Real daemons in homes of their own: started, spoken with, killed, started again."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from openclaw_taskmem.cli.client import Link, connect
from openclaw_taskmem.cli.command_output import HOSTS
from openclaw_taskmem.daemon.lock import find_holder
from openclaw_taskmem.home import Home, find_home
from taskmem_program import OWN_PROGRAM
from tests.support.forked_daemons import fork_daemon, list_forked
from tests.support.waiting import PATIENCE, ProcessOutput, status_of, until

COMMAND = Path(sys.executable).with_name("taskmem")
QUIET = {
    "TASKMEM_WAKE_TRANSPORT": "stdout",
    "TASKMEM_OPENCLAW_CLI_TEXT": "full",
    "TASKMEM_STUCK_THRESHOLD_SECONDS": "86400",
}
"""The settings of a daemon that does nothing by itself."""
SOON = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "0.05"}
"""The settings of a daemon that finds tasks stuck at once."""
TURNED = Path(__file__).with_name("turned")
"""The packages of a daemon whose clock is turned by the file `turned` of its home."""
OPENING = b'{"taskmem": 1, "face": "client"}\n'
"""The first line of a client."""
NO_KEYS = {"GEMINI_API_KEY": "", "GOOGLE_API_KEY": ""}
"""The settings of a daemon that can ask no model."""


@contextmanager
def short_home() -> Iterator[Home]:
    """Give a home whose path a socket takes; whatever serves it is ended."""
    with tempfile.TemporaryDirectory(prefix="tm") as folder:
        home = find_home({"TASKMEM_HOME": str(Path(folder) / "h")})
        assert home.socket.parent == home.folder
        try:
            yield home
        finally:
            until(lambda: _nobody_is_left(home), "the last process of the home ends")


def _nobody_is_left(home: Home) -> bool:
    """End whoever holds the home, or has yet to ask for it."""
    left = _started_for(home)
    if (pid := holder(home)) is not None:
        left.add(pid)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not left


def holder(home: Home) -> int | None:
    """Return the process that holds a home; None: nobody does, or none is named."""
    held = find_holder(home.lock)
    return held.pid if held else None


def _started_for(home: Home) -> set[int]:
    """Return the processes that were told of a home; those still starting too."""
    told = f"TASKMEM_HOME={home.folder}".encode()
    found = set[int]()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        # Others' processes, and those that have just ended.
        with suppress(OSError):
            if told in environ.read_bytes().split(b"\0"):
                found.add(int(environ.parent.name))
    return (found | list_forked(home.folder)) - {os.getpid()}


def environment(home: Home, **settings: str) -> dict[str, str]:
    """Return the environment of a daemon: nobody's settings but these."""
    foreign = ("TASKMEM_", "OPENCLAW_", "GEMINI_", "GOOGLE_", *HOSTS)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(foreign) or name in settings
    }
    return {**inherited, **QUIET, **settings, "TASKMEM_HOME": str(home.folder)}


class Daemon:
    """One daemon of a home; over its life perhaps several processes."""

    own_process = False
    """Whether each is started as a user's is, and none is forked; `own_process` sets it."""

    def __init__(self, home: Home, *, site: Path | None = None, **settings: str) -> None:
        """Start it; it does not serve yet.

        `site`: a folder of packages that are installed for it besides.
        """
        self.home = home
        self.site = site
        self.settings = settings
        self.cwd = home.folder.parent
        self.launch()

    def launch(self) -> None:
        """Start a process, and do not wait for it."""
        if self.own_process:
            self.process = launch(self.home, cwd=self.cwd, **self.settings)
        else:
            self.process = fork_daemon(self.cwd, environment(self.home, **self.settings), self.site)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out = ProcessOutput(self.process.stdout)
        self.log = ProcessOutput(self.process.stderr)

    def wait_until_it_serves(self) -> None:
        """Wait for the line that says so."""
        if self.log.wait_for(" serves ") is None:
            raise AssertionError(f"the daemon did not start:\n{self.log.text}")

    def restart(self, **settings: str) -> None:
        """Start it anew, with other settings; a process that still runs is stopped."""
        if self.process.poll() is None:
            assert self.stop() == 0
        self.settings = {**self.settings, **settings}
        self.launch()
        self.wait_until_it_serves()

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send a signal, wait for the end, and return the exit status."""
        self.process.send_signal(number)
        return self.wait()

    def stop(self) -> int:
        """Tell it to stop, and return its exit status."""
        return self.kill(signal.SIGTERM)

    def wait(self) -> int:
        """Wait until it ends by itself, and return its exit status."""
        status = status_of(self.process)
        self.out.join()
        self.log.join()
        return status

    def close(self) -> None:
        """End it and whatever it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.wait()

    # --- speaking with it -----------------------------------------------------

    def link(self) -> Link:
        """Connect to it."""
        return connect(self.home)

    def ask(self, method: str, **params: Any) -> Any:
        """Ask for one thing, over a connection of its own."""
        with self.link() as link:
            return link.call(method, params, PATIENCE)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, over a connection of its own."""
        return dict(self.ask("call", tool=tool, arguments=arguments))

    def register(self, name: str = "Deploy", **given: Any) -> str:
        """Register a task and return its id."""
        plan = given.pop("plan", ["Build", "Push", "Check"])
        return str(self.call("task_register", name=name, plan=plan, **given)["task_id"])

    def wakes(self) -> list[dict[str, Any]]:
        """Return every wake there ever was, oldest first."""
        return list(reversed(self.ask("wakes", all=True)))

    def raw(self) -> socket.socket:
        """Connect without a word."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE)
        connection.connect(str(self.home.socket))
        return connection


def row(daemon: Daemon, wait_id: str) -> dict[str, Any]:
    """Return a wait as `taskmem waits` is told of it."""
    [found] = [w for w in daemon.ask("waits", all=True) if w["wait_id"] == wait_id]
    return dict(found)


def await_ended(daemon: Daemon, wait_id: str) -> dict[str, Any]:
    """Return the same once the wait has ended."""
    until(lambda: row(daemon, wait_id)["status"] != "watching", "the wait ends")
    return row(daemon, wait_id)


def launch(
    home: Home, cwd: Path | None = None, umask: int = -1, **settings: str
) -> subprocess.Popen[bytes]:
    """Start a daemon's process, in a process group of its own."""
    return subprocess.Popen(
        [*OWN_PROGRAM, "daemon"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd or home.folder.parent,
        env=environment(home, **settings),
        start_new_session=True,
        umask=umask,
    )


def refused_start(home: Home, **settings: str) -> tuple[int, str]:
    """Start a daemon that ends at once; return its status and what it complained."""
    process = fork_daemon(home.folder.parent, environment(home, **settings))
    with process.stdout:
        said = ProcessOutput(process.stderr)
        serves = said.wait_for(" serves ")
        if serves is not None:
            process.kill()
        status = status_of(process)
        text = "\n".join(said.join())
    assert serves is None, f"it was not refused:\n{text}"
    return status, text


def command(
    home: Home, *arguments: str, program: Path = COMMAND, **settings: str
) -> tuple[int, str, str]:
    """Run `taskmem` as a person does; return its status and what it printed."""
    done = subprocess.run(
        [program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(home, **settings),
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


# --- looking into the database ----------------------------------------------


def rows(home: Home, query: str, *values: object) -> list[tuple[Any, ...]]:
    """Read from the database of a home, whoever has it open."""
    with closing(sqlite3.connect(f"file:{home.database}?mode=ro", uri=True)) as found:
        return found.execute(query, values).fetchall()


def contents(home: Home) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table, but for what loops write in their own time.

    These are their bookmarks, and the listings of folders.
    """
    with closing(sqlite3.connect(f"file:{home.database}?mode=ro", uri=True)) as found:
        found.execute("BEGIN")
        names = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        return {
            name: found.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()  # noqa: S608 - its own names
            for (name,) in found.execute(names).fetchall()
            if name not in {"bookmarks", "folders"}
        }


def change(home: Home, statement: str) -> None:
    """Write into the database of a home as no part of the product does."""
    with closing(sqlite3.connect(home.database, isolation_level=None)) as found:
        found.execute(statement)


def read_next_line(connection: socket.socket) -> bytes:
    """Return the next line that comes over a raw connection; empty when it was closed."""
    with connection.makefile("rb") as lines:
        return lines.readline()


@contextmanager
def lock_database(home: Home) -> Iterator[None]:
    """Hold the database as another process does that writes for long."""
    with closing(sqlite3.connect(home.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")
