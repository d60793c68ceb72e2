"""The sensor for `pty:` targets: says which kind a name means, and what is shared."""

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
    resume_recording,
)

if TYPE_CHECKING:
    from taskmem_terminal.file_notify import FolderWatcher
    from taskmem_terminal.recorder_listener import FifoListener
    from taskmem_terminal.recording_watch import RecordingWatch
    from taskmem_terminal.tmux_server import Tmux

log = logging.getLogger(__name__)
BEGIN_SECONDS: Final = 3.0
"""How long a recording may take to begin after it is waited on."""
SETTLE_SECONDS: Final = 30.0
"""How long after a start the waits may not be back yet, so that nothing makes room."""
ROOM_BYTES: Final = 1 << 20
"""How much is pushed between two looks whether all of it takes too much room."""

PIECE_BYTES: Final = 8 << 10
"""What a piece counts for at least: a name that is new takes room, too."""


class TerminalSensor:
    """Watches recordings, tmux panes and growing files, and keeps what is pushed."""

    def __init__(self) -> None:
        self._bell: FifoListener | None = None
        self._folders: FolderWatcher | None = None
        self._tmux: Tmux | None = None
        self._turn = asyncio.Lock()
        self._settled_at = time.monotonic() + SETTLE_SECONDS  # noqa: TID251
        self._pushed = 0
        """Bytes since it was looked whether there is too much."""

    async def watch(self, target: Target) -> Watch:
        """Begin to watch `pty:NAME`, `pty:tmux:TARGET` or `pty:file:PATH`.

        Raises:
            TargetNotFound: It is not there; the sentence names what is.
            InvalidArguments: No terminal can have such a name.
            NotAllowed: It is a file that may not be shown.
        """
        kind, colon, rest = target.name.partition(":")
        if colon and kind == "tmux":
            from taskmem_terminal.tmux_server import Tmux

            self._tmux = self._tmux or Tmux()
            return await self._tmux.watch(rest)
        if colon and kind == "file":
            from taskmem_terminal.file_notify import FolderWatcher
            from taskmem_terminal.file_watch import GrowingFile

            self._folders = self._folders or FolderWatcher()
            return GrowingFile(rest, self._folders, target.within)
        _check_name(target.name)
        return await self._watch_recording(target)

    async def feed(self, target: Target, output: Output) -> None:
        """Keep a piece of output, durably; it makes the target when it is new.

        Raises:
            InvalidArguments: No terminal can have such a name, or a command that
                still runs has it.
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
                # Who pushes may never come again, and never says so.
                recorder.close()
        if self._bell is not None:
            self._bell.notify_listeners(target.name)
        # It is written: what fails now must not have it pushed again.
        try:
            await self._make_room(target.name, len(output.data))
        except OSError:
            log.exception("what was pushed long ago could not be removed")

    async def _make_room(self, name: str, pushed: int) -> None:
        """Remove now and then what was pushed long ago, and nobody waits for."""
        self._pushed += max(pushed, PIECE_BYTES)
        settled = time.monotonic() >= self._settled_at  # noqa: TID251
        if settled and self._pushed >= ROOM_BYTES:
            self._pushed = 0
            watched = self._bell.watched_names if self._bell else frozenset[str]()
            # Not while a piece is being written to what may be removed.
            async with self._turn:
                await asyncio.to_thread(make_room, get_recordings_folder(), {*watched, name})

    async def _watch_recording(self, target: Target) -> RecordingWatch:
        """Watch a recording, or wait a little for one: `taskmem run … &` takes a while.

        One that ended before that may be of an earlier run, and is watched only if no
        other begins.

        Raises:
            TargetNotFound: None begins within `BEGIN_SECONDS`.
        """
        from taskmem_terminal.recording_watch import RecordingWatch

        name, bell, rang = target.name, self._get_listener(), asyncio.Event()
        bell.listen(name, rang.set)
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                while not _is_recent(Recording(get_recordings_folder(), name)):
                    await rang.wait()
                    rang.clear()
        except TimeoutError:
            pass
        finally:
            bell.forget(name, rang.set)
        names_others = target.within is None
        return RecordingWatch(get_recordings_folder(), name, bell, names_others=names_others)

    def _open_recorder(self, name: str, *, ending: bool) -> Recorder | None:
        """Return who writes a target; None: it has ended, and this is its end again."""
        root = get_recordings_folder()
        with contextlib.suppress(OSError, ValueError, TypeError):
            about = Recording(root, name).read_metadata()
            if about.fed and about.ended_at is None:
                return resume_recording(root, name)
            if about.fed and ending:
                return None
        try:
            return Recorder.claim(root, name, build_metadata([], fed=True))
        except NameTaken:
            raise InvalidArguments(
                f"pty:{name} is a command that taskmem run records; push under another name."
            ) from None

    def _get_listener(self) -> FifoListener:
        from taskmem_terminal.recorder_listener import FifoListener

        self._bell = self._bell or FifoListener(get_recordings_folder())
        return self._bell


def _is_recent(recording: Recording) -> bool:
    """Whether a recording runs, or may have ended since somebody wanted to wait."""
    if recording.is_running():
        return True
    try:
        ended_at = recording.read_metadata().ended_at
    except (OSError, ValueError, TypeError):
        return False
    if ended_at is None:
        return False
    ago = datetime.now(UTC) - datetime.fromisoformat(ended_at)  # noqa: TID251
    return ago.total_seconds() < BEGIN_SECONDS


def _check_name(name: str) -> None:
    if not is_recording_name(name):
        raise InvalidArguments(
            f"pty:{name} names no terminal; write pty:NAME of taskmem run --name NAME, "
            "pty:tmux:SESSION:WINDOW.PANE, or pty:file:/PATH."
        )
