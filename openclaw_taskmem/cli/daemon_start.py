"""Start a daemon if none holds the home, and wait until one answers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from openclaw_taskmem.daemon.lock import find_holder
from openclaw_taskmem.home import Home

_START_SECONDS = 20.0
_RACE_SECONDS = 2.0
_ROOM_BYTES = 256 * 1024
"""With less disk space than this, a daemon that ended without a message had a full disk."""
_DAEMON = (sys.executable, "-m", "openclaw_taskmem", "daemon")


class DaemonStart:
    """Waits for a daemon: the one that holds the home, or else a new one.

    A new one outlives this process.
    """

    def __init__(
        self, home: Home, environ: Mapping[str, str], command: Sequence[str] | None
    ) -> None:
        """Prepare the home, and start a daemon if none holds it.

        Args:
            home: The state folder; created if it is missing.
            environ: The new daemon's environment, except for its `TASKMEM_HOME`.
            command: The command that starts a daemon; None: this Python's own.

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

    def explain_failure(self) -> str | None:
        """Say why the started daemon ended, or that it does not answer.

        None: a process holds the home (see `daemon_presence`), or no daemon was started.
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
