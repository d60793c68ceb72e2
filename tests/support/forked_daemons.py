"""Daemons that are forked from a process that has loaded all of their modules.

Loading them takes most of the time until a daemon serves. The start of a process of its own
is the subject of `tests/daemon/test_startup.py` and `tests/daemon/test_life.py`, and is not
forked there.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import select
import signal
import site
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

MODULES: Final = (
    "openclaw_taskmem.daemon.main",
    "sqlalchemy.dialects.sqlite",
    "taskmem_openclaw.agent_host",
    "taskmem_openclaw.hooks",
    "taskmem_openclaw.reader",
    "taskmem_openclaw.transports.auto",
    "taskmem_recall.past_task_hooks",
    "taskmem_recorder.recorder",
    "taskmem_recorder.history",
    "taskmem_sqlmodel.store",
)
"""What a daemon has loaded when it serves, by those that import the rest."""
ROOT: Final = Path(__file__).parents[2]


class ForkedDaemon:
    """A daemon's process; what tests use of a `Popen`."""

    def __init__(self, pid: int, home: str, status: int, out: int, err: int) -> None:
        self.pid = pid
        self.home = home
        self.returncode: int | None = None
        self.stdout = os.fdopen(out, "rb")
        self.stderr = os.fdopen(err, "rb")
        self._status = status
        """The end of a pipe at which its status is read once it has ended."""

    def poll(self) -> int | None:
        """Return its status; None: it runs."""
        return self._read_status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return its status."""
        status = self._read_status(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("daemon", timeout)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_status(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(os.read(self._status, 10))
            os.close(self._status)
        return self.returncode


class _Template:
    """The process that daemons are forked from."""

    def __init__(self) -> None:
        self._door, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve({theirs.fileno()})"],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        theirs.close()
        self._one_at_a_time = threading.Lock()
        self.begun: list[ForkedDaemon] = []

    def fork(self, cwd: Path, environ: Mapping[str, str], site: Path | None) -> ForkedDaemon:
        """Fork a daemon."""
        pipes = [os.pipe() for _ in range(3)]
        added = site and str(site)
        asked = json.dumps({"cwd": str(cwd), "environ": dict(environ), "site": added}).encode()
        with self._one_at_a_time:
            socket.send_fds(self._door, [len(asked).to_bytes(4, "big")], [end for _, end in pipes])
            self._door.sendall(asked)
            pid = int.from_bytes(_receive(self._door, 4), "big")
        for _, end in pipes:
            os.close(end)
        made = ForkedDaemon(pid, environ["TASKMEM_HOME"], *(end for end, _ in pipes))
        self.begun = [*(each for each in self.begun if each.poll() is None), made]
        return made


@cache
def _get_template() -> _Template:
    return _Template()


def fork_daemon(cwd: Path, environ: Mapping[str, str], site: Path | None = None) -> ForkedDaemon:
    """Start a daemon as `python -m openclaw_taskmem daemon` is one, in a group of its own.

    `site`: a folder of packages that are installed for it besides.
    """
    return _get_template().fork(cwd, environ, site)


def list_forked(home: Path) -> set[int]:
    """List the forked daemons of a home that have not ended.

    In `/proc` their environment is that of the process which they are forked from.
    """
    begun = _get_template().begun if _get_template.cache_info().currsize else []
    return {each.pid for each in begun if each.home == str(home) and each.poll() is None}


# --- in the process that has loaded the modules ------------------------------


def serve(number: int) -> None:
    """Fork daemons until the test process has ended."""
    gc.disable()
    for name in MODULES:
        # A package of its own may not be installed here.
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    gc.freeze()
    wakes, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    door = socket.socket(fileno=number)
    statuses: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([door, wakes], [], [])
        if wakes in ready:
            os.read(wakes, 100)
            _report_ended(statuses)
        if door in ready:
            size, ends, _, _ = socket.recv_fds(door, 4, 3)
            if not size:
                return
            asked = json.loads(_receive(door, int.from_bytes(size, "big")))
            pid = os.fork()
            if pid == 0:
                _become_daemon(asked, ends)
            for end in ends[1:]:
                os.close(end)
            statuses[pid] = ends[0]
            door.sendall(pid.to_bytes(4, "big"))


def _report_ended(statuses: dict[int, int]) -> None:
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        end = statuses.pop(pid)
        os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(end)


def _become_daemon(asked: Mapping[str, Any], ends: list[int]) -> None:
    """Run a daemon in this process, and end it.

    Raises:
        SystemExit: Always.
    """
    gc.enable()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    time.tzset()
    if asked["site"] is not None:
        site.addsitedir(asked["site"])
    os.dup2(ends[1], 1)
    os.dup2(ends[2], 2)
    os.closerange(3, 4096)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - not the one of before
    sys.argv = ["openclaw_taskmem", "daemon"]
    from openclaw_taskmem.cli.main import main

    main()


def _receive(door: socket.socket, size: int) -> bytes:
    """Receive so many bytes."""
    received = b""
    while len(received) < size:
        part = door.recv(size - len(received))
        assert part, "the process that forks daemons has ended"
        received += part
    return received
