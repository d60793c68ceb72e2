"""Write and read recordings of commands' output on disk.

    terminals/NAME/about.json                    what runs there, and how it ended
    terminals/NAME/output.00000000000001048576   bytes from that offset on, 1 MiB each
    terminals/NAME/lock                          locked (flock) while it is written
    terminals/NAME/reader.xxxxxxxx               locked by a watch; how far its waits have read

Writer and reader are in one file because they share this layout and nothing else. The writer only
appends; `about.json` is replaced as a whole, and says that the command ended only after all of its
output is written.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import tempfile
from collections.abc import Collection, Generator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self, cast

SEGMENT_BYTES: Final = 1 << 20
KEPT_SEGMENTS: Final = 16
LAG_SECONDS: Final = 5.0
"""How long a recorder waits for waits that do not read on. Seconds."""
KEPT_ENDED: Final = 50
"""How many recordings of ended commands are retained, the newest."""
KEPT_FED: Final = 200
"""How many pushed recordings without a known end and without a wait are retained."""
KEPT_BYTES: Final = 256 << 20
"""Maximum size of both together. Bytes."""
RECORDING_LIFETIME: Final = timedelta(days=7)
FED_LIFETIME: Final = timedelta(days=1)
"""Time without pushed output after which `prune_recordings` treats a recording as ended."""
COLUMNS, ROWS = 80, 24
"""The size of a terminal that nobody looks at."""

SHELLS: Final = frozenset(
    {
        "ash",
        "bash",
        "csh",
        "dash",
        "fish",
        "ksh",
        "mksh",
        "nu",
        "pwsh",
        "sh",
        "tcsh",
        "xonsh",
        "zsh",
    }
)
"""Programs that show prompts and run what is typed there."""
SHELL_CARRIERS: Final = frozenset(
    {
        "docker",
        "kubectl",
        "login",
        "mosh",
        "mosh-client",
        "podman",
        "screen",
        "script",
        "ssh",
        "su",
        "sudo",
        "tmux",
    }
)
"""Programs that may contain a shell about which nothing is known."""
_VALUE_OPTIONS: Final = frozenset({"--init-file", "--rc", "--rcfile", "+O", "+o", "-O", "-o"})
"""Options of shells after which a value comes."""

FIFO_NAME: Final = ".doorbell"
"""Name of the FIFO, in the folder of recordings, by which recorders announce news."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
"""Valid names of recordings."""
UNSEEN_END: Final = "nobody saw its command end"
"""Phrase for a command whose recorder is gone: it may still run."""
_READER: Final = "reader."
"""Beginning of the names of files in which watches say how far their waits have read."""
_OUTPUT: Final = "output."
"""Beginning of the names of segments."""
_SEGMENT: Final = re.compile(r"output\.([0-9]{1,20})")
"""Names of segments, with their numbers."""


class NameTaken(Exception):
    """The recording of that name has not ended: its command runs, or output is pushed to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingMetadata:
    """Description of a recorded command, without its environment, which contains secrets."""

    id: str
    """Unique to this recording, also among those of the same name."""
    program: str
    """Name of the program, without path and arguments, which may contain secrets."""
    interactive: bool
    """True if a person may be typing there."""
    started_at: str
    """ISO 8601, UTC."""
    columns: int = COLUMNS
    rows: int = ROWS
    pid: int | None = None
    """Process id of the command; None: it was not started here."""
    recorder: int | None = None
    """Process id of the recorder; None: there is no permanent one."""
    fed: bool = False
    """Output is pushed in pieces: it counts as running although nothing has the lock."""
    hides_input: bool | None = None
    """True if the terminal is in line mode without echo; None: unknown, as in character mode."""
    exit_status: int | None = None
    """Exit status; the negative number of the signal that ended it; None: running or unknown."""
    ended_at: str | None = None


def get_recordings_folder() -> Path:
    """Return the folder of all recordings; `KeyError` if `TASKMEM_HOME` is not set."""
    return Path(os.environ["TASKMEM_HOME"]) / "terminals"


def is_recording_name(name: str) -> bool:
    """Return whether a recording can have that name."""
    return _NAME.fullmatch(name) is not None


def _format_now() -> str:
    """Return the current time in a recording's format."""
    return datetime.now(UTC).isoformat()


class Recorder:
    """Writes one recording."""

    def __init__(self, folder: Path, about: RecordingMetadata, lock: int | None = None) -> None:
        """Continue a recording whose output is pushed in pieces; others begin by `claim`."""
        self.folder = folder
        self.about = about
        self._lock = lock
        self._begin, self._end = (_list_segments(folder) or [(0, 0)])[-1]
        self._sink: int | None = None
        self._read_to = 0
        self._ahead_since: float | None = None

    @classmethod
    def claim(cls, root: Path, name: str, about: RecordingMetadata) -> Self:
        """Create a recording; replace an ended one of the same name.

        Raises:
            NameTaken: The recording of that name is still running.
            OSError: It cannot be written.
        """
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = root / name
        with _lock_file(root / ".lock"):
            if folder.exists() and Recording(root, name).is_running():
                raise NameTaken(name)
            prune_recordings(root)
            fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=root))
            try:
                lock = None if about.fed else _acquire_lock(fresh / "lock")
                _write_metadata(fresh / "about.json", about)
                if folder.exists():
                    old = Path(tempfile.mkdtemp(prefix=".old-", dir=root))
                    folder.rename(old / "was")
                    fresh.rename(folder)
                    shutil.rmtree(old, ignore_errors=True)
                else:
                    fresh.rename(folder)
            except OSError:
                shutil.rmtree(fresh, ignore_errors=True)
                raise
        return cls(folder, about, lock)

    def write(self, data: bytes) -> None:
        """Append output.

        Raises:
            OSError: Not all of it could be written.
        """
        rest = memoryview(data)
        while rest:
            if self._sink is None or self._end - self._begin >= SEGMENT_BYTES:
                self._open_segment()
            room = SEGMENT_BYTES - (self._end - self._begin)
            written = os.write(cast("int", self._sink), rest[:room])
            self._end += written
            rest = rest[written:]

    def is_ahead(self, now: float) -> bool:
        """Return whether more output would displace some that a wait has not read.

        `now`: monotonic seconds. A wait that takes longer than `LAG_SECONDS` is no longer waited
        for until it has caught up.
        """
        # The last segment is not full, and one more holds what is read from the command at once.
        room = (KEPT_SEGMENTS - 2) * SEGMENT_BYTES
        if self._end - self._read_to < room:
            return False
        read_to = _read_progress(self.folder)
        if read_to is None or self._end - read_to < room:
            self._read_to, self._ahead_since = read_to or 0, None
            return False
        if self._ahead_since is None:
            self._ahead_since = now
        return now - self._ahead_since < LAG_SECONDS

    def update_metadata(self, about: RecordingMetadata) -> None:
        """Replace the metadata.

        Raises:
            OSError: It could not be written.
        """
        _write_metadata(self.folder / "about.json", about)
        self.about = about

    def end(self, exit_status: int | None) -> None:
        """Record that the command has ended; nothing is written afterwards.

        Raises:
            OSError: It could not be written.
        """
        self.update_metadata(replace(self.about, exit_status=exit_status, ended_at=_format_now()))

    def sync(self) -> None:
        """Flush the output to disk, so that it survives a power cut."""
        if self._sink is not None:
            os.fsync(self._sink)

    def close(self) -> None:
        """Close the files and release the lock, which shows watchers that nothing more comes."""
        for handle in (self._sink, self._lock):
            if handle is not None:
                os.close(handle)
        self._sink = self._lock = None

    def _open_segment(self) -> None:
        """Open a new segment, or the last one after a restart; delete segments over the limit."""
        if self._sink is not None:
            os.close(self._sink)
            self._sink = None
        if self._end - self._begin >= SEGMENT_BYTES:
            self._begin = self._end
        path = self.folder / f"{_OUTPUT}{self._begin:020d}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._sink = os.open(path, flags, 0o600)
        for begin, _ in _list_segments(self.folder)[:-KEPT_SEGMENTS]:
            (self.folder / f"{_OUTPUT}{begin:020d}").unlink(missing_ok=True)


class Recording:
    """Reads one recording, while it is written or afterwards."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.folder = root / name

    def read_metadata(self) -> RecordingMetadata:
        """Return the metadata.

        Raises:
            OSError: There is no such recording.
            ValueError: It is damaged; or `TypeError`, if a field is missing.
        """
        known = {field.name for field in fields(RecordingMetadata)}
        about = json.loads((self.folder / "about.json").read_bytes())
        if not isinstance(about, dict) or "id" not in about:
            raise ValueError(self.name)
        given = cast("dict[str, Any]", about)
        return RecordingMetadata(**{key: given[key] for key in known & set(given)})

    def is_running(self) -> bool:
        """Return whether more output may come."""
        try:
            about = self.read_metadata()
        except (OSError, ValueError, TypeError):
            return False
        return about.ended_at is None and (about.fed or self.is_recorder_alive())

    def is_recorder_alive(self) -> bool:
        """Return whether the recorder's process still runs."""
        try:
            lock = os.open(self.folder / "lock", os.O_RDONLY)
        except OSError:
            return False
        try:
            # A shared lock, so that two readers do not mistake each other for the recorder.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(lock)
        return False

    def changed_at(self) -> datetime | None:
        """Return when output last came; None: never."""
        parts = _list_segments(self.folder)
        if not parts:
            return None
        with contextlib.suppress(OSError):
            stat = (self.folder / f"{_OUTPUT}{parts[-1][0]:020d}").stat()
            return datetime.fromtimestamp(stat.st_mtime, UTC)
        return None


class ReadProgress:
    """Tells the recorder of one recording how far the waits of one watch have read."""

    def __init__(self, folder: Path) -> None:
        """Begin to read the recording in a folder; without its file, nobody is told."""
        self._behind: dict[int, float] = {}
        """Offsets from which waits read on, before the end, and since when. Monotonic seconds."""
        self._path: Path | None = None
        self._handle: int | None = None
        _read_progress(folder)  # removes what a killed daemon left
        with contextlib.suppress(OSError):
            self._handle, fresh = tempfile.mkstemp(prefix=f".{_READER}", dir=folder)
            # Locked before it has the name that is looked for, or it would pass for an ended watch.
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path = Path(fresh).rename(folder / Path(fresh).name[1:])

    def note_places(self, places: Collection[int], end: int, now: float) -> None:
        """Record the offsets from which waits read on, of an output that ends at `end`.

        `now`: monotonic seconds. One that stays where it is for `LAG_SECONDS` is not waited for.
        """
        self._behind = {at: self._behind.get(at, now) for at in places if at < end}
        awaited = [at for at, since in self._behind.items() if now - since < LAG_SECONDS]
        read_to = min(awaited or self._behind or (end,))
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.pwrite(self._handle, f"{read_to:020d}".encode(), 0)

    def close(self) -> None:
        """End: no wait reads any more."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        if self._handle is not None:
            os.close(self._handle)
        self._path = self._handle = None


def _read_progress(folder: Path) -> int | None:
    """Return how far all waits on a recording have read; None: there is none."""
    offsets = [_read_offset(path) for path in folder.glob(f"{_READER}*")]
    return min((offset for offset in offsets if offset is not None), default=None)


def _read_offset(path: Path) -> int | None:
    """Return the offset that a watch has written; None: it has ended, and its file is removed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        with contextlib.suppress(OSError, ValueError):
            return int(os.pread(handle, 20, 0) or b"0")
    except OSError:
        pass
    finally:
        os.close(handle)
    return None


class Segments:
    """The retained bytes of a recording, as they were when this was made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts = _list_segments(folder)
        self.begin = self._parts[0][0] if self._parts else 0
        """Offset of the first retained byte."""
        self.end = self._parts[-1][1] if self._parts else 0
        """Offset after the last byte."""

    def read(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes from an offset; fewer at the end."""
        got = bytearray()
        for begin, end in self._parts:
            if end <= at or len(got) >= size:
                continue
            try:
                with (self._folder / f"{_OUTPUT}{begin:020d}").open("rb") as part:
                    part.seek(at - begin)
                    fresh = part.read(min(size - len(got), end - at))
            except OSError:
                break
            got += fresh
            at += len(fresh)
            if at != end:
                break
        return bytes(got)


def _list_segments(folder: Path) -> list[tuple[int, int]]:
    """Return begin and end of each segment, in order."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            # Other files there are not ours.
            if name := _SEGMENT.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    found.append((int(name[1]), int(name[1]) + entry.stat().st_size))
    return sorted(found)


def list_recordings(root: Path) -> list[tuple[str, bool]]:
    """Return the names and whether they run: running ones first, then the newest."""
    found: list[tuple[bool, float, str]] = []
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if is_recording_name(entry.name) and entry.is_dir():
                running = Recording(root, entry.name).is_running()
                found.append((running, entry.stat().st_mtime, entry.name))
    return [(name, running) for running, _, name in sorted(found, reverse=True)]


def prune_recordings(root: Path, watched: Collection[str] | None = None) -> None:
    """Delete recordings that are too old, too many or too large, and the leftovers of a crash.

    Never deleted: the recordings of running commands, and those in `watched`, the names that have
    waits. If `watched` is None (unknown), neither are those with pushed output of the last day and
    no known end.
    """
    now_ = datetime.now(UTC)
    loose: list[tuple[float, float, bool, Path]] = []
    for name, running in list_recordings(root):
        folder = root / name
        made = folder.stat().st_mtime
        touched = Recording(root, name).changed_at()
        last = touched.timestamp() if touched else made
        # The source of pushed output may be gone: only the age shows it.
        fed = running and last >= (now_ - FED_LIFETIME).timestamp()
        held = running and Recording(root, name).is_recorder_alive()
        if not (held or (fed and watched is None) or name in (watched or ())):
            loose.append((max(made, last), last, fed, folder))
    oldest = (now_ - RECORDING_LIFETIME).timestamp()
    most, counts, taken = {False: KEPT_ENDED, True: KEPT_FED}, [0, 0], 0
    for _, last, fed, folder in sorted(loose, reverse=True):
        counts[fed] += 1
        taken += sum(end - begin for begin, end in _list_segments(folder))
        if counts[fed] > most[fed] or last < oldest or taken > KEPT_BYTES:
            shutil.rmtree(folder, ignore_errors=True)
    for left in (*root.glob(".new-*"), *root.glob(".old-*")):
        shutil.rmtree(left, ignore_errors=True)


def make_room(root: Path, watched: Collection[str]) -> None:
    """Delete surplus recordings without waits, while no new recording can begin."""
    with _lock_file(root / ".lock"):
        prune_recordings(root, watched)


def build_metadata(command: list[str], **more: Any) -> RecordingMetadata:  # noqa: ANN401
    """Return the metadata of a command that starts now."""
    return RecordingMetadata(
        id=secrets.token_hex(8),
        program=command[0].rpartition("/")[2] if command else "",
        interactive=_can_be_typed_at(command),
        started_at=_format_now(),
        **more,
    )


def _can_be_typed_at(command: Sequence[str]) -> bool:
    """Return whether a person may be typing into a command; an empty command is unknown: True."""
    if not command:
        return True
    return command[0].rpartition("/")[2] in SHELL_CARRIERS or is_interactive_shell(command)


def is_interactive_shell(command: Sequence[str]) -> bool:
    """Return whether a command starts a shell that shows prompts, and not a script.

    `-i` says nothing of that: `bash -i -c make` shows none.
    """
    program, *arguments = command
    if program.rpartition("/")[2].removeprefix("-") not in SHELLS:
        return False
    words = iter(arguments)
    for word in words:
        if word[:1] not in ("-", "+"):
            return False  # a script
        # Short options may be joined, as in `bash -lc COMMAND`.
        if re.fullmatch("-[a-z]*c[a-z]*", word):
            return False
        if word in _VALUE_OPTIONS:
            next(words, None)
    return True


def _write_metadata(path: Path, about: RecordingMetadata) -> None:
    handle, temporary = tempfile.mkstemp(prefix=".about-", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as sink:  # noqa: PTH123
            json.dump(asdict(about), sink)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _acquire_lock(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        os.close(handle)
        raise
    return handle


@contextlib.contextmanager
def _lock_file(path: Path) -> Generator[None]:
    handle = _acquire_lock(path)
    try:
        yield
    finally:
        os.close(handle)


def describe_end(what: str, status: int | None) -> str:
    """Return a sentence on how something ended.

    `what` is its subject. A negative status is the number of the signal that ended it; None:
    unknown.
    """
    if status is None:
        return f"{what} ended."
    if status >= 0:
        return f"{what} ended with status {status}."
    with contextlib.suppress(ValueError):
        return f"{what} was ended by {signal.Signals(-status).name}."
    return f"{what} was ended by signal {-status}."
