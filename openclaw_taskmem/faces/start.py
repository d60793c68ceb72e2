"""Starting a daemon, and waiting until one answers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from openclaw_taskmem.home import Home

_START_SECONDS = 20.0
_RACE_SECONDS = 2.0
_DAEMON = (sys.executable, "-m", "openclaw_taskmem", "daemon")


class Start:
    """A daemon that was started, and is waited for; it outlives this process."""

    def __init__(
        self, home: Home, environ: Mapping[str, str], command: Sequence[str] | None
    ) -> None:
        """Prepare the home and start a daemon in it.

        Args:
            home: The state folder; made when it is missing.
            environ: The new daemon's environment, but for its `TASKMEM_HOME`.
            command: What starts a daemon; None is this Python's own.

        Raises:
            HomeRefused: The folder cannot be used.
            OSError: The log cannot be written or no process be started.
        """
        home.prepare()
        self._home = home
        self._environ = {**environ, "TASKMEM_HOME": os.fspath(home.folder)}
        self._command = command or _DAEMON
        self._child, self._log_start = self._spawn()

    def waits(self) -> Iterator[None]:
        """Wait a little and a little longer, while a daemon may still answer.

        Each turn is a moment to try. It ends after 20 s, or 2 s after the
        daemon that was started has ended and no other holds the lock.

        Raises:
            OSError: The daemon had to be started again, and could not be.
        """
        due = _now() + _START_SECONDS
        wait = 0.01
        ended: float | None = None
        lost = False
        while (now := _now()) < due:
            time.sleep(wait)
            wait = min(wait * 1.3, 0.25)
            yield
            if self._child.poll() is None:
                continue
            ended = ended or now
            if _names_a_process(self._home.lock):
                # It lost the race: to one that is starting, or still ending.
                lost = True
            elif lost:
                self._child, self._log_start = self._spawn()
                ended, lost = None, False
            elif now - ended > _RACE_SECONDS:
                return

    def why(self) -> str:
        """Say why no daemon answers: the last line of its log where it ended."""
        if (status := self._child.poll()) is None:
            return f"it does not answer after {_START_SECONDS:g} s"
        return self._last_line() or f"it ended with status {status}"

    def _spawn(self) -> tuple[subprocess.Popen[bytes], int]:
        log = os.open(self._home.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(log).st_size
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
        # A face that lives on would keep a daemon that ended as a zombie, whose
        # process id looks alive to all who ask.
        threading.Thread(target=child.wait, name="daemon-reaper", daemon=True).start()
        return child, size

    def _last_line(self) -> str:
        try:
            with self._home.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, size - 4096))
                lines = log.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _names_a_process(lock: Path) -> bool:
    """Tell whether the process that the lock file names is alive.

    The lock itself is not tried: to hold it for a moment could make a daemon
    that is just starting believe that another one runs.
    """
    try:
        os.kill(int(lock.read_text(encoding="ascii").split()[0]), 0)
    except (OSError, ValueError, IndexError, OverflowError):
        return False
    return True


def _now() -> float:
    return time.monotonic()  # noqa: TID251 (real waiting on another process)
