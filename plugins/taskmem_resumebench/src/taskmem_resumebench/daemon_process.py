"""A real daemon in a home of its own: started by its command, killed, started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from taskmem_resumebench.process_group import find_last_line

COMMAND: Final = (sys.executable, "-m", "openclaw_taskmem", "daemon")
"""The product's own command; nothing else of the product is used."""
START_SECONDS: Final = 60.0
_GLANCE: Final = 0.005
_FOREIGN: Final = ("TASKMEM_", "OPENCLAW_", "GEMINI_", "GOOGLE_")
"""Beginnings of settings that are the user's, and no part of what is measured."""
_SETTINGS: Final = {"TASKMEM_WAKE_TRANSPORT": "openclaw-plugin", "TASKMEM_READERS": "none"}


class DaemonNotServing(Exception):
    """The daemon could not be started; the message has the last line of its log."""


class DaemonProcess:
    """The daemon of a home; over its life several processes."""

    def __init__(
        self, home: Path, workspaces: Path, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Start it; `workspaces`: the folder in which its agents work."""
        home.mkdir(mode=0o700, exist_ok=True)
        self._home, self._log = home, home / "bench.log"
        kept = {name: v for name, v in os.environ.items() if not name.startswith(_FOREIGN)}
        places = {
            "TASKMEM_HOME": str(home),
            "TASKMEM_ARTIFACT_ROOTS": str(workspaces),
            "OPENCLAW_STATE_DIR": str(home / "openclaw"),
        }
        self._environ = {**kept, **_SETTINGS, **places, **settings}
        self.start()

    def __enter__(self) -> Self:
        """Return it; leaving the block ends it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()

    def kill(self) -> None:
        """Kill it by SIGKILL."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def connect(self) -> socket.socket:
        """Connect to its socket, as soon as it serves.

        Raises:
            DaemonNotServing: It ended, or does not serve in time.
        """
        due = time.monotonic() + START_SECONDS  # noqa: TID251 - a process is waited for
        while True:
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                link.connect(str(self._home / "daemon.sock"))
            except OSError as error:
                link.close()
                late = time.monotonic() > due  # noqa: TID251 - likewise
                if late or self._process.poll() is not None:
                    said = find_last_line(self._log.read_text(errors="replace"))
                    raise DaemonNotServing(f"The daemon does not serve: {said}") from error
                time.sleep(_GLANCE)
            else:
                return link

    def start(self) -> None:
        """Start a process, and do not wait for it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the product's own command
                COMMAND,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self._environ,
                start_new_session=True,
            )
