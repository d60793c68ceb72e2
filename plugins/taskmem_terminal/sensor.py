"""Sensor for `pty:` targets: recordings, tmux panes, growing files and pushed output."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from taskmem_hookspecs import InvalidArguments, Output, Target, Watch
from taskmem_terminal.recording import (
    NameTaken,
    Recorder,
    Recording,
    build_metadata,
    get_recordings_folder,
    is_recording_name,
    make_room,
)

if TYPE_CHECKING:
    from taskmem_hookspecs.file_access import FileChangeNotifier
    from taskmem_terminal.recording_watch import FifoListener, RecordingWatch
    from taskmem_terminal.tmux_watch import Tmux

log = logging.getLogger(__name__)
BEGIN_SECONDS: Final = 3.0
"""How long a wait waits for its recording to begin. Seconds."""
SETTLE_SECONDS: Final = 30.0
"""Time after start before old pushed output is deleted, so that waits can return. Seconds."""
ROOM_BYTES: Final = 1 << 20
"""Pushed bytes between two checks of the total size."""

_PIECE_BYTES: Final = 8 << 10
"""Minimum bytes counted for a piece, because a new name takes space too."""


class TerminalSensor:
    """Watches recordings, tmux panes and growing files, and stores pushed output."""

    def __init__(self) -> None:
        self._listener: FifoListener | None = None
        self._folders: FileChangeNotifier | None = None
        self._tmux: Tmux | None = None
        self._turn = asyncio.Lock()
        self._settled_at = time.monotonic() + SETTLE_SECONDS
        self._pushed = 0
        """Bytes pushed since the last check of the total size."""

    async def watch(self, target: Target) -> Watch:
        """Start to watch `pty:NAME`, `pty:tmux:TARGET` or `pty:file:PATH`.

        Raises:
            TargetNotFound: It does not exist; the message names the targets that do.
            InvalidArguments: No terminal can have such a name.
            NotAllowed: It is a file that may not be shown.
        """
        kind, colon, rest = target.name.partition(":")
        if colon and kind == "tmux":
            from taskmem_terminal.tmux_watch import Tmux

            self._tmux = self._tmux or Tmux()
            return await self._tmux.watch(rest)
        if colon and kind == "file":
            from taskmem_hookspecs.file_access import FileChangeNotifier
            from taskmem_terminal.file_watch import FileWatch

            self._folders = self._folders or FileChangeNotifier()
            return FileWatch(rest, self._folders, target.within)
        _check_name(target.name)
        return await self._watch_recording(target)

    async def feed(self, target: Target, output: Output) -> None:
        """Store a piece of pushed output durably; create the target if it is new.

        Raises:
            InvalidArguments: No terminal can have such a name, or a running command has it.
            OSError: It could not be written.
        """
        _check_name(target.name)
        async with self._turn:
            recorder = self._open_recorder(target.name, ending=output.exit_status is not None)
            if recorder is None:
                return
            try:
                recorder.write(output.data)
                await asyncio.to_thread(recorder.sync)
                if output.exit_status is not None:
                    recorder.end(output.exit_status)
            finally:
                # Close it, because another piece may never come.
                recorder.close()
        if self._listener is not None:
            self._listener.notify_listeners(target.name)
        # The piece is stored: an error from here on must not cause it to be pushed again.
        try:
            await self._make_room(target.name, len(output.data))
        except OSError:
            log.exception("what was pushed long ago could not be removed")

    async def _make_room(self, name: str, pushed: int) -> None:
        """Now and then delete old pushed output that no wait watches."""
        self._pushed += max(pushed, _PIECE_BYTES)
        settled = time.monotonic() >= self._settled_at
        if settled and self._pushed >= ROOM_BYTES:
            self._pushed = 0
            watched = self._listener.watched_names if self._listener else frozenset[str]()
            # Under the lock, so that no piece is written to a recording that is being deleted.
            async with self._turn:
                await asyncio.to_thread(make_room, get_recordings_folder(), {*watched, name})

    async def _watch_recording(self, target: Target) -> RecordingWatch:
        """Watch a recording; wait a little for one to begin, because `taskmem run … &` takes time.

        One that ended earlier may be of a previous run; it is watched only if no new one begins.

        Raises:
            TargetNotFound: None begins within `BEGIN_SECONDS`.
        """
        from taskmem_terminal.recording_watch import FifoListener, RecordingWatch

        self._listener = self._listener or FifoListener(get_recordings_folder())
        name, listener, rang = target.name, self._listener, asyncio.Event()
        listener.listen(name, rang.set)
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                while not _is_recent(Recording(get_recordings_folder(), name)):
                    await rang.wait()
                    rang.clear()
        except TimeoutError:
            pass
        finally:
            listener.forget(name, rang.set)
        names_others = target.within is None
        return RecordingWatch(get_recordings_folder(), name, listener, names_others=names_others)

    def _open_recorder(self, name: str, *, ending: bool) -> Recorder | None:
        """Return the recorder of a target; None: it has ended, and its end was pushed again."""
        root = get_recordings_folder()
        with contextlib.suppress(OSError, ValueError, TypeError):
            about = Recording(root, name).read_metadata()
            if about.fed and about.ended_at is None:
                return Recorder(root / name, about)
            if about.fed and ending:
                return None
        try:
            return Recorder.claim(root, name, build_metadata([], fed=True))
        except NameTaken:
            raise InvalidArguments(
                f"pty:{name} is a command that taskmem run records; push under another name."
            ) from None


def _is_recent(recording: Recording) -> bool:
    """Return whether a recording runs or has ended within `BEGIN_SECONDS`."""
    if recording.is_running():
        return True
    try:
        ended_at = recording.read_metadata().ended_at
    except (OSError, ValueError, TypeError):
        return False
    if ended_at is None:
        return False
    ago = datetime.now(UTC) - datetime.fromisoformat(ended_at)
    return ago.total_seconds() < BEGIN_SECONDS


def _check_name(name: str) -> None:
    if not is_recording_name(name):
        raise InvalidArguments(
            f"pty:{name} names no terminal; write pty:NAME of taskmem run --name NAME, "
            "pty:tmux:SESSION:WINDOW.PANE, or pty:file:/PATH."
        )
