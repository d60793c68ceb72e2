"""Record a command for `taskmem run` without ever disturbing the command.

News of a recording go to the daemon through a FIFO: writing a name costs microseconds
and needs no reader; the reader sleeps until then.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from taskmem_terminal.recording import (
    NameTaken,
    Recorder,
    build_metadata,
    get_recordings_folder,
    read_process_start,
)

BELL: Final = ".doorbell"
"""Name of the FIFO, in the folder of recordings."""


class SessionRecorder:
    """Records a session; on an error it stops recording and sets `trouble`."""

    def __init__(self, name: str, arguments: list[str], size: tuple[int, int]) -> None:
        """Start the recording of a command in a terminal of `size` columns and rows.

        Raises:
            NameTaken: A running command has that name.
        """
        self.trouble: str | None = None
        self._name = name
        self._root: Path | None = None
        self._recorder: Recorder | None = None
        columns, rows = size
        about = build_metadata(arguments, columns=columns, rows=rows, recorder=os.getpid())
        try:
            self._root = get_recordings_folder()
            self._recorder = Recorder.claim(self._root, name, about)
        except NameTaken:
            raise
        except Exception as error:  # noqa: BLE001 - the command must not be harmed
            self._give_up(error)

    def note_start(self, pid: int) -> None:
        """Record the command's process."""
        self._update_metadata(pid=pid, process_started=read_process_start(pid))
        self.notify_watchers()

    def note_size(self, columns: int, rows: int) -> None:
        """Record the terminal's new size."""
        self._update_metadata(columns=columns, rows=rows)

    def note_echo(self, *, hides_input: bool | None) -> None:
        """Record whether the terminal shows what is typed from now on."""
        self._update_metadata(hides_input=hides_input)

    def write(self, data: bytes) -> None:
        """Record output of the command."""
        self._attempt(lambda recorder: recorder.write(data))

    def notify_watchers(self) -> None:
        """Signal the daemon that there is something new."""
        if self._root is not None:
            notify_daemon(self._root, self._name)

    def end(self, status: int) -> None:
        """Record how the command ended."""

        def end(recorder: Recorder) -> None:
            recorder.end(status)
            recorder.close()
            self.notify_watchers()

        self._attempt(end)

    def _update_metadata(self, **fields: Any) -> None:  # noqa: ANN401
        self._attempt(lambda it: it.update_metadata(replace(it.about, **fields)))

    def _attempt(self, act: Callable[[Recorder], None]) -> None:
        if self._recorder is not None:
            try:
                act(self._recorder)
            except Exception as error:  # noqa: BLE001 - the command must not be harmed
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if isinstance(error, KeyError):
            reason = "no home is set"
        else:
            reason = getattr(error, "strerror", None) or str(error)
        self.trouble = f"Recording pty:{self._name} stopped ({reason}); the command itself ran on."
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None
            self.notify_watchers()


def notify_daemon(root: Path, name: str) -> None:
    """Announce news of a recording; never blocks, never fails."""
    with contextlib.suppress(OSError):
        bell = os.open(root / BELL, os.O_WRONLY | os.O_NONBLOCK)
        try:
            if stat.S_ISFIFO(os.fstat(bell).st_mode):
                os.write(bell, f"{name}\n".encode())
        finally:
            os.close(bell)
