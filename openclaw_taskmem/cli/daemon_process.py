"""Start and stop the daemon of a home, and find out why none answers.

It may be absent, starting, ending or silent: the lock and the process that holds it show this; how
a call failed does not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from openclaw_taskmem.daemon.home_exchange import is_unfinished
from openclaw_taskmem.daemon.lock import Lock, LockHeld, LockHolder, find_holder
from openclaw_taskmem.daemon.processes import is_alive, read_process_age
from openclaw_taskmem.home import Home
from taskmem_program import OWN_PROGRAM

STARTING_SECONDS: Final = 15.0
"""Seconds in which a daemon must start, end, or write its process into the lock."""
_NAMED_SECONDS: Final = 0.1
"""Seconds in which a process that has just taken the lock writes its id."""

State = Literal["absent", "starting", "ending", "silent"]


class _DaemonPresence(NamedTuple):
    """The state of a daemon that does not answer."""

    state: State
    pid: int | None
    """Id of the process that holds the home; None: there is none, or it is unknown."""
    machine: str | None = None
    """Name of another machine or container where it runs; None: it runs here, or is unknown."""


def classify_presence(held: LockHolder | None, lived: float | None, now: float) -> _DaemonPresence:
    """Classify the state of a daemon.

    Args:
        held: The holder of the home's lock; None: nobody holds it.
        lived: Age of that process in seconds; None: it has ended (another has just taken the lock
            or cannot be named), or its age is unknown.
        now: The time, as seconds of the epoch.
    """
    if held is None:
        return _DaemonPresence("absent", None)
    pid = None if lived is None else held.pid
    ending = held.ending and lived is not None
    seconds = now - held.written_at if ending or lived is None else lived
    if seconds >= STARTING_SECONDS:
        return _DaemonPresence("silent", pid, None if pid else held.machine)
    return _DaemonPresence("ending" if ending else "starting", pid)


def check_presence(home: Home) -> _DaemonPresence:
    """Return the state of a daemon that did not answer, from the lock of its home.

    If the lock's holder is not named yet, it is read once more after `_NAMED_SECONDS`.
    """
    found = _check_presence_once(home)
    if found.state == "silent" and found.pid is None:
        time.sleep(_NAMED_SECONDS)
        found = _check_presence_once(home)
    return found


def _check_presence_once(home: Home) -> _DaemonPresence:
    held, now = find_holder(home.lock), time.time()  # noqa: TID251 - as files are dated
    if held is None or held.pid is None:
        return classify_presence(held, None, now)
    here = held.process is None or is_alive(held.process) is not False
    return classify_presence(held, read_process_age(held.pid) if here else None, now)


def explain_presence(found: _DaemonPresence, home: Home) -> str:
    """Say in a sentence what state the daemon is in, and what to do."""
    process = f", as process {found.pid}" if found.pid else ""
    match found.state:
        case "absent" if is_unfinished(home.folder):
            return (
                f"No daemon runs for {home.folder}, and a taskmem restore was cut short there. The "
                "next daemon finishes it: taskmem daemon --detach"
            )
        case "absent":
            return f"No daemon runs for {home.folder}. Start it with `taskmem daemon --detach`."
        case "starting" | "ending":
            return (
                f"The daemon of {home.folder} is {found.state}{process}. Try again in "
                f"a few seconds; {home.log} says more."
            )
        case "silent" if found.machine is not None:
            return (
                f"{home.folder} is held by a daemon on {found.machine}, another machine or "
                "container, and one serves a home at a time. Work there, or set TASKMEM_HOME to "
                "another folder here."
            )
        case "silent" if found.pid is None:
            return (
                f"A process that {home.lock} does not name holds {home.folder} and "
                f"does not answer. Look at {home.log}, then find it with `fuser "
                f"{home.lock}` and end it."
            )
        case "silent":
            return (
                f"Process {found.pid} holds {home.folder} and does not answer. On a busy "
                "machine it may still be starting: try again in a minute. If that fails, look at "
                f"{home.log}, then run `taskmem daemon stop`."
            )


# --- starting -----------------------------------------------------------------


_START_SECONDS: Final = 20.0
"""Seconds in which a daemon that was started must answer."""
_RACE_SECONDS: Final = 2.0
"""Seconds in which another daemon must answer after ours has ended: ours lost the race."""
_ROOM_BYTES: Final = 256 * 1024
"""With less disk space than this, a daemon that ended without a message had a full disk."""
_DAEMON: Final = (*OWN_PROGRAM, "daemon")
"""Command that starts a daemon."""


class DaemonStart:
    """Waits for a daemon: the one that holds the home, or else a new one.

    A new one outlives this process.
    """

    def __init__(
        self, home: Home, environ: Mapping[str, str], command: Sequence[str] | None
    ) -> None:
        """Prepare the home, and start a daemon if none holds it.

        The folder is created if it is missing. A new daemon gets `environ`, except for its
        `TASKMEM_HOME`; `command` starts it, and None is this Python's own.

        Raises:
            HomeRefused: The folder cannot be used.
            OSError: The log cannot be written, or no process can be started.
        """
        home.prepare()
        self._home = home
        self._environ = {**environ, "TASKMEM_HOME": os.fspath(home.folder)}
        self._command = command or _DAEMON
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        if not self._is_held():
            self._spawn()

    def iterate_attempts(self) -> Iterator[None]:
        """Yield at growing intervals, each time to try a connection.

        This ends after 20 s, or 2 s after the started daemon has ended and no other holds the home.

        Raises:
            OSError: The daemon had to be started again, and could not be.
        """
        due = _now() + _START_SECONDS
        wait = 0.01
        ended: float | None = None
        lost = self._child is None
        while (now := _now()) < due:
            time.sleep(wait)
            wait = min(wait * 1.3, 0.25)
            yield
            if self._child is not None and self._child.poll() is None:
                continue
            ended = ended or now
            if self._is_held():
                # Another daemon holds it, which is starting or still ending.
                lost = True
            elif lost:
                self._spawn()
                ended, lost = None, False
            elif now - ended > _RACE_SECONDS:
                return

    def has_started(self, pid: int) -> bool:
        """Tell whether a daemon is the one that was started here."""
        return self._child is not None and self._child.pid == pid

    def explain_failure(self) -> str | None:
        """Say why the started daemon ended, or that it does not answer.

        None: a process holds the home, or no daemon was started.
        """
        if self._is_held() or self._child is None:
            return None
        if (status := self._child.poll()) is None:
            return f"it does not answer after {_START_SECONDS:g} s"
        if line := self._read_last_line():
            return line
        if self._is_disk_full():
            return (
                f"there is no room left on the disk of {self._home.folder}; free some "
                "space there, then try again"
            )
        return f"it ended with status {status}"

    def _is_disk_full(self) -> bool:
        """Tell whether the disk has no room even for the log line that says why a daemon ended."""
        try:
            found = os.statvfs(self._home.folder)
        except OSError:
            return False
        return found.f_bavail * found.f_frsize < _ROOM_BYTES

    def _is_held(self) -> bool:
        return find_holder(self._home.lock) is not None

    def _spawn(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        log = os.open(self._home.log, flags, 0o600)
        try:
            self._log_start = os.fstat(log).st_size
            child = subprocess.Popen(  # noqa: S603 (the command is ours)
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self._environ,
                start_new_session=True,
            )
        finally:
            os.close(log)
        # Reap the daemon: otherwise it would stay a zombie while this process lives,
        # and its process id would look alive.
        threading.Thread(target=child.wait, name="daemon-reaper", daemon=True).start()
        self._child = child

    def _read_last_line(self) -> str:
        try:
            with self._home.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, size - 4096))
                lines = log.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _now() -> float:
    return time.monotonic()  # noqa: TID251 (real waiting on another process)


# --- stopping -----------------------------------------------------------------


STEP_SECONDS: Final = 0.05
MOST_CHECKS: Final = 400
"""Checks before giving up: 20 seconds in all."""


def stop_daemon(home: Home) -> tuple[str, int]:
    """Stop the daemon; return a sentence and an exit status.

    If none runs, that is a success. Source: docs/origins.md, "Commands".
    """
    machine: str | None = None
    for _ in range(MOST_CHECKS):
        held = find_holder(home.lock)
        if held is None:
            _remove_socket(home)
            return f"No daemon runs for {home.folder}.", 0
        pid, process, machine = held.pid, held.process, held.machine
        if pid is not None and process is not None and is_alive(process):
            break
        # Another process has just taken the lock, and not written its id yet.
        time.sleep(STEP_SECONDS)
    else:
        nameless = (
            f"{home.lock} names no process that runs here, and one holds it. If taskmem restore "
            f"runs, wait for it; else find the process with `fuser {home.lock}`, and end it."
        )
        if machine is not None:
            nameless = explain_presence(_DaemonPresence("silent", None, machine), home)
        return nameless, 1
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return f"The daemon of {home.folder} has just ended.", 0
    except PermissionError:
        foreign = (
            f"Process {pid} is another user's, so it was not stopped; run taskmem "
            "daemon stop as the user who started it."
        )
        return foreign, 1
    for _ in range(MOST_CHECKS):
        if is_alive(process) is False:
            if find_holder(home.lock) is None:
                _remove_socket(home)
            return f"Process {pid} has stopped.", 0
        time.sleep(STEP_SECONDS)
    late = (
        f"Process {pid} has not stopped yet; look at {home.log}, or end it with "
        f"kill -9 {pid}: nothing that was answered is lost."
    )
    return late, 1


def _remove_socket(home: Home) -> None:
    """Remove the socket that a killed daemon left; relays would start a daemon because of it.

    A daemon that has started meanwhile holds the lock; its socket stays.
    """
    if not home.socket.exists():
        return
    with suppress(LockHeld, OSError):
        lock = Lock(home.lock, named=False)
        home.socket.unlink(missing_ok=True)
        lock.release()
