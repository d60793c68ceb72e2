"""Watch recordings: of `taskmem run`, and of pushed output.

A wait reads a recording from its beginning and sees its end, even if the command ended before the
wait began.

Recorders announce news through a FIFO; `FifoListener` is the daemon's end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from taskmem_hookspecs import Frame, TargetGone, TargetNotFound
from taskmem_terminal.frames import OutputPage, OutputReader, ReadOptions, StreamPosition, Tail
from taskmem_terminal.recording import (
    FIFO_NAME,
    UNSEEN_END,
    ReadProgress,
    Recording,
    RecordingMetadata,
    Segments,
    describe_end,
    list_recordings,
)
from taskmem_terminal.terminal_input import InputLookup, TerminalInput

_GULP_BYTES: Final = 65_536


class FifoListener:
    """Receives recorders' signals on the event loop where it was made."""

    def __init__(self, root: Path) -> None:
        """Create the FIFO in the folder of recordings, and listen.

        Anything else at its path, such as a regular file from a backup without FIFOs, is removed.

        Raises:
            OSError: The FIFO cannot be created.
        """
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = root / FIFO_NAME
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISFIFO(path.lstat().st_mode):
                path.unlink()
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        # Opened for writing too: without a writer, reads would return end of file.
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
        self._cut = b""
        self._listeners: dict[str, list[Callable[[], None]]] = defaultdict(list)
        asyncio.get_running_loop().add_reader(self._fifo, self._read_fifo)

    def listen(self, name: str, listener: Callable[[], None]) -> None:
        """Call `listener` for each signal of this recording."""
        self._listeners[name].append(listener)

    @property
    def watched_names(self) -> frozenset[str]:
        """Names of the recordings that have listeners."""
        return frozenset(self._listeners)

    def forget(self, name: str, listener: Callable[[], None]) -> None:
        """Stop calling `listener`."""
        self._listeners[name].remove(listener)
        if not self._listeners[name]:
            del self._listeners[name]

    def notify_listeners(self, name: str) -> None:
        """Signal from within this process."""
        for listener in tuple(self._listeners.get(name, ())):
            listener()

    def _read_fifo(self) -> None:
        try:
            fresh = os.read(self._fifo, _GULP_BYTES)
        except OSError:
            return
        *names, self._cut = (self._cut + fresh).split(b"\n")
        self._cut = self._cut[-_GULP_BYTES:]
        for name in dict.fromkeys(names):
            self.notify_listeners(name.decode(errors="replace"))


class ProcessExitWatcher:
    """Calls back after a process has ended, where the system supports it."""

    def __init__(self, call: Callable[[], None], after: Iterable[float] = (0,)) -> None:
        """Set the callback, and the delays after the end at which it is called. Seconds."""
        self._call = call
        self._after = after
        self._pid = 0
        self._handle = -1
        self._timers: list[asyncio.TimerHandle] = []

    def watch_process(self, pid: int) -> None:
        """Watch a process instead of the previous one; the same one changes nothing."""
        if pid == self._pid or not pid or not hasattr(os, "pidfd_open"):
            return
        self._release_handle()
        with contextlib.suppress(OSError):
            self._handle = os.pidfd_open(pid)
            self._pid = pid
            asyncio.get_running_loop().add_reader(self._handle, self._on_death)

    def close(self) -> None:
        """Stop calling back."""
        self._release_handle()
        for timer in self._timers:
            timer.cancel()

    def _on_death(self) -> None:
        pid = self._pid
        self._release_handle()
        self._pid = pid
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(each, self._call) for each in self._after]

    def _release_handle(self) -> None:
        if self._handle >= 0:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
        self._pid, self._handle = 0, -1


# --- watching -----------------------------------------------------------------


_MOST_NAMES: Final = 8


class _RecordingEnd(NamedTuple):
    """How a recording ended."""

    sentence: str
    exit_status: int | None


class RecordingWatch:
    """`Watch` on one recording."""

    def __init__(
        self, root: Path, name: str, listener: FifoListener, *, names_others: bool = True
    ) -> None:
        """Start to watch a recording; if it is missing, the error may name others.

        Raises:
            TargetNotFound: There is no such recording.
        """
        self._root = root
        self._recording = Recording(root, name)
        try:
            about = self._recording.read_metadata()
        except (OSError, ValueError, TypeError):
            found = list_recordings(root) if names_others else ()
            raise TargetNotFound(describe_missing_recording(root, name, found)) from None
        self._id = about.id
        self._reader = OutputReader()
        self._input_lookup = InputLookup()
        self._progress = ReadProgress(self._recording.folder)
        self._places: Collection[int] = ()
        """Offsets from which waits read on."""
        self._changed = asyncio.Event()
        self._listener = listener
        listener.listen(name, self._changed.set)
        self._recorder = ProcessExitWatcher(self._changed.set)
        if about.recorder is not None:
            self._recorder.watch_process(about.recorder)
            # Without the recorder's lock, the pid may belong to another process by now.
            if not self._recording.is_recorder_alive():
                self._recorder.close()

    async def here(self) -> Frame:
        """Return the beginning: all output of the command counts.

        Raises:
            TargetGone: The recording was removed, or replaced by a new run of its name.
        """
        position = StreamPosition(0, 0)
        stream = Segments(self._recording.folder)
        about = self._read_metadata()
        tail = await self._reader.read_tail(stream, position, _build_read_options(about))
        return Frame(
            seen_at=datetime.now(UTC),
            place=f"{about.id}:{position}",
            more=stream.end > 0,
            changed_at=self._recording.changed_at(),
            tail=tail.text,
            echoes=tail.echoes,
            prompt=tail.prompt,
        )

    async def end(self) -> str:
        """Return the place after everything recorded so far; raises as `here` does."""
        end = Segments(self._recording.folder).end
        return f"{self._read_metadata().id}:{StreamPosition(end, end)}"

    def note_places(self, places: Collection[str]) -> None:
        """Keep the places from which waits read on, for the recorder."""
        parsed = map(_parse_place, places)
        self._places = [position.shown for id_, position in parsed if id_ == self._id]

    async def look(self, place: str, start: str) -> Frame:
        """Return what was recorded since `place`."""
        seen_at = datetime.now(UTC)
        id_, position = _parse_place(place)
        # Read the end state first: if it has ended, the output read below is complete.
        about, ending = self._read_state(id_)
        if about is None or id_ != about.id:
            page = OutputPage("", (), position, more=False)
            tail = Tail("", ())
        else:
            manner = _build_read_options(about)
            stream = Segments(self._recording.folder)
            unread = {position.shown, *self._places}
            self._progress.note_places(unread, stream.end, time.monotonic())
            page = self._reader.read_page(stream, position, manner)
            tail = await self._reader.read_tail(stream, _parse_place(start)[1], manner)
        over = None if page.more else ending
        changed_at = self._recording.changed_at()
        known_input = TerminalInput()
        if about is not None and ending is None:
            known_input = self._input_lookup.look_up(
                about.pid, about.recorder, changed_at=changed_at, now=seen_at
            )
        hides_input = known_input.is_hidden
        if known_input.takes_keys is None and about is not None:
            hides_input = about.hides_input
        # The programs that a shell starts with are no commands, so "no shell" is not known here.
        is_shell = known_input.is_shell or None
        return Frame(
            seen_at=seen_at,
            place=f"{id_}:{page.next}",
            more=page.more,
            changed_at=changed_at,
            text=page.text,
            tail=tail.text,
            echoes=tuple(dict.fromkeys(page.echoes + tail.echoes)),
            prompt=None if over else tail.prompt if tail.prompt is not None else is_shell,
            reads_input=known_input.is_read,
            hides_input=None if over or about is None else hides_input,
            takes_keys=known_input.takes_keys,
            exit_status=over and over.exit_status,
            gone=over and over.sentence,
        )

    async def wait_for_change(self) -> None:
        """Wait until something may have been recorded."""
        await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        """Stop listening."""
        with contextlib.suppress(KeyError, ValueError):
            self._listener.forget(self._recording.name, self._changed.set)
        self._recorder.close()
        self._progress.close()

    def _read_metadata(self) -> RecordingMetadata:
        """Return the metadata of the run that this watch was made for."""
        about, ending = self._read_state(self._id)
        if about is None or about.id != self._id:
            raise TargetGone(ending.sentence if ending else "")
        return about

    def _read_state(self, id_: str) -> tuple[RecordingMetadata | None, _RecordingEnd | None]:
        name = self._recording.name
        running = self._recording.is_running()
        try:
            about = self._recording.read_metadata()
        except (OSError, ValueError, TypeError):
            return None, _RecordingEnd(f"The recording pty:{name} was removed.", None)
        if about.id != id_:
            return about, _RecordingEnd(
                f"pty:{name} was replaced by a new run of that name; wait on that one.", None
            )
        if about.ended_at is not None:
            return about, _RecordingEnd(
                describe_end("The command", about.exit_status), about.exit_status
            )
        if running:
            return about, None
        return about, _RecordingEnd(
            f"Nothing records pty:{name} any more, though {UNSEEN_END}; "
            "its recorder was killed, or had no room to write.",
            None,
        )


def _parse_place(place: str) -> tuple[str, StreamPosition]:
    id_, _, position = place.partition(":")
    return id_, StreamPosition.parse(position)


def _build_read_options(about: RecordingMetadata) -> ReadOptions:
    # The width of a terminal whose output is pushed is unknown.
    columns = None if about.fed else about.columns
    return ReadOptions(columns, about.rows, about.interactive)


def describe_missing_recording(root: Path, name: str, there: Sequence[tuple[str, bool]]) -> str:
    """Return a sentence that a recording is missing, and which of `there` exist."""
    if not there:
        return (
            f"Nothing is recorded as pty:{name} in {root}; start the command with "
            f"taskmem run --name {name} -- CMD, and with the same TASKMEM_HOME."
        )
    named = ", ".join(
        f"pty:{one}{'' if running else ' (ended)'}" for one, running in there[:_MOST_NAMES]
    )
    more = len(there) - _MOST_NAMES
    return (
        f"Nothing is recorded as pty:{name}; there are {named}"
        f"{f' and {more} more' if more > 0 else ''}."
    )
