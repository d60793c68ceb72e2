"""Watch files that grow; only what is new after the wait's start counts.

What is new is decided in `file_history`. A path without a file is waited for: a build that is
started anew often removes its log first.

A file is opened only if the agent may see it, even if its path changes meanwhile: the path is
checked before opening, and then the open file's own path, which no link can change.
"""
# ruff: noqa: PTH116, PTH120

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from taskmem_hookspecs import Frame, InvalidArguments, TargetGone, TargetNotFound
from taskmem_hookspecs.birth_times import read_birth_time
from taskmem_hookspecs.errors import NotAllowed
from taskmem_hookspecs.file_access import (
    FileChangeNotifier,
    escape_name,
    read_handle_path,
    require_viewable,
)
from taskmem_hookspecs.paths import is_hidden, is_within_any, resolve_links
from taskmem_terminal.file_history import (
    TAIL_BYTES,
    Content,
    Findings,
    Inode,
    Part,
    SeenFile,
    choose_part,
    follow,
    format_parts,
    format_place,
    is_rotated_name,
    parse_place,
    sort_rotated,
)
from taskmem_terminal.frames import OutputReader, ReadOptions, StreamPosition, read_pages

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def open_viewable(path: str, within: tuple[str, ...] | None) -> int:
    """Open a regular file for reading, if it may be shown.

    Raises:
        NotAllowed: As in `require_viewable`. Also, if the daemon runs as root and `within` is set:
            the file is private to another user, in a folder that is not root's or that everyone
            can write to.
        OSError: It cannot be opened.
    """
    handle = os.open(require_viewable(path, within), _FLAGS | os.O_NOFOLLOW)
    try:
        _require_viewable_handle(handle, path, within)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _require_viewable_handle(handle: int, path: str, within: tuple[str, ...] | None) -> None:
    """Check the opened file: a folder of its path may have become a link since.

    Raises:
        NotAllowed: As in `open_viewable`.
        FileNotFoundError: It is no longer a regular file.
    """
    name = read_handle_path(handle)
    if name is not None:
        require_viewable(name, within)
    info = os.fstat(handle)
    if not stat.S_ISREG(info.st_mode):
        raise FileNotFoundError
    if within is None or not is_anothers(info.st_uid, info.st_mode, os.geteuid()):
        return
    with contextlib.suppress(OSError):
        folder = os.stat(os.path.dirname(name or path))
        if folder.st_uid == os.geteuid() and not folder.st_mode & stat.S_IWOTH:
            return
    raise NotAllowed(
        f"{escape_name(path)} is another user's, who lets not everyone read it; ask "
        "the user to make it readable."
    )


# --- watching -----------------------------------------------------------------


BACK_SECONDS: Final = 1.0
"""How long a file may be missing before it is told. Seconds."""
_REST_SECONDS: Final = 3600.0
"""Period of the looks where every change is told."""
_MOST_OPEN_FILES: Final = 4
"""How many files stay open: the current one, and older ones that are still written."""
_MOST_NAMES: Final = 5
_MOST_MEMORIES: Final = 64
"""Places of which the bytes before them are kept in memory."""
_MOST_LATER_FILES: Final = 100
_MOST_LATER_BYTES: Final = 256 << 20
"""Rotated files that are read at most after a look, the newest, and their size together."""
_WRITE_SECONDS: Final = 0.2
"""How long a write may take in which a file has its new time and its old size. Seconds."""
_FEWEST_ZEROS: Final = 16
"""Zeros at the end of a file that are no text; fewer may be part of a letter in UTF-16."""
_MOST_ZEROS: Final = 64 << 20
"""Zeros at the end of a file that are read to find its text; a file with more ends with them."""
_CHUNK_BYTES: Final = 1 << 20
_PART_LOST: Final = " was replaced, and what it held last could not be read any more."
_MANY_LOST: Final = " was rotated so often meanwhile that the oldest were not read."
_FILE_OPTIONS: Final = ReadOptions()


class _OpenFile:
    """A file that stays readable after its path names another file."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.reader = OutputReader()
        status = os.fstat(handle)
        self.inode: Inode = (status.st_dev, status.st_ino)
        self.born_ns = read_birth_time(handle) or 0
        self._text_end: tuple[tuple[int, int], int] | None = None
        """Size and time of the file when its text was measured, and its end; None: never."""

    @property
    def has_name(self) -> bool:
        return os.fstat(self.handle).st_nlink > 0

    @property
    def has_one_name(self) -> bool:
        return os.fstat(self.handle).st_nlink == 1

    def read(self, at: int, size: int) -> bytes:
        return os.pread(self.handle, size, at) if size > 0 else b""

    def find_text_end(self, size: int, changed_ns: int) -> int:
        """Return the offset after the last text: zeros at the end are written over later.

        Files are preallocated so, and a file on NFS is long before its content comes.
        """
        known, end = self._text_end or (None, 0)
        # The time is set before the text is there.
        if known != (size, changed_ns) or self.read(end, min(_FEWEST_ZEROS, size - end)).strip(
            b"\0"
        ):
            end = self._measure_text(size)
            self._text_end = ((size, changed_ns), end)
        return end

    def _measure_text(self, size: int) -> int:
        if self.read(max(0, size - _FEWEST_ZEROS), _FEWEST_ZEROS).strip(b"\0"):
            return size
        end, step, zeros = size, _CHUNK_BYTES, 0
        while end > 0 and zeros < _MOST_ZEROS:
            begin = max(0, end - step)
            if self.skip_hole(begin) >= end:
                step *= 2
            else:
                begin = max(begin, end - _CHUNK_BYTES)
                data = self.read(begin, end - begin).rstrip(b"\0")
                if data:
                    return begin + len(data)
                step, zeros = _CHUNK_BYTES, zeros + end - begin
            end = begin
        return size if end else 0

    def skip_hole(self, at: int) -> int:
        """Return the offset of the next data from an offset on, or the file's end."""
        size = os.fstat(self.handle).st_size
        if at >= size:
            return at
        try:
            return os.lseek(self.handle, at, os.SEEK_DATA)
        except OSError as error:
            return size if error.errno == errno.ENXIO else at


class _Snapshot:
    """A file with the length it had when a look began."""

    begin = 0

    def __init__(self, file: _OpenFile) -> None:
        self._file = file
        self.inode, self.born_ns = file.inode, file.born_ns
        # One look: a write between two would pass for a rewritten file.
        status = os.fstat(file.handle)
        self.size, self.changed_ns = status.st_size, status.st_mtime_ns
        self.status_ns = status.st_ctime_ns
        self.end = file.find_text_end(self.size, self.changed_ns)

    def read(self, at: int, size: int) -> bytes:
        return self._file.read(at, min(size, self.end - at))


class _Memory(NamedTuple):
    """Facts on a place besides those in its text."""

    tail: bytes
    """The bytes before it."""
    absences: int
    """How often the path had been without a file by then."""
    losses: tuple[str, ...] = ()
    """Ends of sentences on files that went by the path and could not be read."""


class FileWatch:
    """`Watch` on one path."""

    def __init__(
        self, name: str, folders: FileChangeNotifier, within: tuple[str, ...] | None = None
    ) -> None:
        """Start to watch a path as a user wrote it, inside `within`; None: anywhere.

        Raises:
            InvalidArguments: It is not the path of a file that can grow.
            NotAllowed: The file may not be shown.
            TargetNotFound: The file does not exist or cannot be read.
        """
        self._within = within
        self._path = _check_path(name, within)
        self._refusal: str | None = None
        """Why the file now at the path may not be shown; None: it may."""
        self._open_files: dict[Inode, _OpenFile] = {}
        self._memories: dict[str, _Memory] = {}
        """By place; one of before a restart has none."""
        self._changed = asyncio.Event()
        self._missing_since: float | None = None
        self._absences = 0
        try:
            self._current = self._open(self._path)
        except OSError as error:
            raise TargetNotFound(_describe_missing_file(self._path, within, error)) from error
        self._folders = folders
        real = os.path.realpath(self._path)
        self._is_link = real != str(self._path)
        self._watched_paths = {str(self._path), real}
        for path in self._watched_paths:
            folders.listen(path, self._note_change)

    @property
    def rest_seconds(self) -> float:
        """Return for how long it need not be looked at.

        Nothing tells of a file that went by the path before, and may still be written, nor at
        once of what is written through another name.
        """
        is_alone = len(self._open_files) == 1 and self._missing_since is None
        is_told = not self._is_link and self._folders.tells(str(self._path))
        return _REST_SECONDS if is_alone and is_told and self._current.has_one_name else 0.0

    async def here(self) -> Frame:
        """Look at the file's end, where a new wait begins.

        Raises:
            TargetGone: The file is missing or cannot be read, or may not be shown now.
        """
        file = self._find_current_file()
        if file is None:
            raise TargetGone(self._refusal or f"{escape_name(self._path)} was removed.")
        seen = _Snapshot(file)
        tail = await file.reader.read_tail(seen, StreamPosition(0, 0), _FILE_OPTIONS)
        position = StreamPosition(seen.end, seen.end)
        place = format_place((SeenFile.build(seen, position, seen.end),))
        self._remember(place, seen, position, self._absences)
        return Frame(
            seen_at=datetime.now(UTC),
            place=place,
            changed_at=datetime.fromtimestamp(seen.changed_ns / 1e9, UTC),
            tail=tail.text,
            echoes=tail.echoes,
        )

    async def end(self) -> str:
        """Return the place of the file's end; raises as `here` does."""
        return (await self.here()).place

    async def look(self, place: str, start: str) -> Frame:  # noqa: ARG002 - a place says where it began
        """Return what is new since `place`."""
        seen_at = datetime.now(UTC)
        memory = self._memories.get(place)
        losses = list(memory.losses if memory else ())
        parts = self._follow(place, {}, losses)
        while any(part.is_unsure for part in parts):
            sizes = {part.content.inode: part.content.size for part in parts}
            await asyncio.sleep(_WRITE_SECONDS)
            parts = self._follow(place, sizes, losses)
        last_seen = parse_place(place)[-1]
        if parts and not any(last_seen.is_of(part.content) for part in parts):
            losses.append(_PART_LOST)
        kept, at = choose_part(parts)
        if at < 0:
            return Frame(
                seen_at=seen_at,
                place=place,
                text="",
                tail="",
                note=self._describe_absence(),
                gone=self._refusal,
            )
        content, position, begin = parts[at][:3]
        file = self._open_files[content.inode]
        at_data = file.skip_hole(position.shown)
        if at_data > position.shown:
            position = StreamPosition(at_data, at_data)
        page = file.reader.read_page(content, position, _FILE_OPTIONS)
        edited = read_pages(parts[at].edited, _FILE_OPTIONS)
        echoes = [echo for each in (*edited, page) for echo in each.echoes]
        tail = await file.reader.read_tail(content, StreamPosition(begin, begin), _FILE_OPTIONS)
        more = page.more or not all(part.is_read for part in parts[at + 1 :])
        next_place = format_parts(kept, at, page.next, self._has_name)
        last = kept[-1]
        absences = self._absences
        if self._missing_since is not None or len(kept) < len(parts):
            # What comes to the path next is made anew, whatever the look after it finds.
            absences = 0 if memory is None else memory.absences
        reached = page.next if at == len(kept) - 1 else last.position
        self._remember(next_place, last.content, reached, absences, losses)
        self._close_others({seen.inode for seen in parse_place(next_place)})
        told = [f"{escape_name(self._path)}{loss}" for loss in dict.fromkeys(losses)]
        return Frame(
            seen_at=seen_at,
            place=next_place,
            more=more,
            changed_at=datetime.fromtimestamp(content.changed_ns / 1e9, UTC),
            text="".join(each.text for each in (*edited, page)),
            tail=tail.text,
            echoes=tuple(dict.fromkeys((*echoes, *tail.echoes))),
            note=" ".join(filter(None, (*told, self._describe_absence()))) or None,
            gone=None if more else self._refusal,
        )

    async def wait_for_change(self) -> None:
        """Wait until the file may have grown or disappeared."""
        await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        """Stop listening and close the files."""
        for path in self._watched_paths:
            await self._folders.forget(path, self._note_change)
        for file in self._open_files.values():
            os.close(file.handle)
        self._open_files.clear()

    def _note_change(self, was_removed: bool) -> None:  # noqa: FBT001 - called by the notifier
        self._absences += was_removed
        self._changed.set()

    def _remember(
        self,
        place: str,
        content: Content,
        position: StreamPosition,
        absences: int,
        losses: Sequence[str] = (),
    ) -> None:
        """Keep what is known of a place besides its text."""
        size = min(position.shown, TAIL_BYTES)
        tail = content.read(position.shown - size, size)
        before = self._memories.pop(place, None)
        known = before.losses if before else ()
        self._memories[place] = _Memory(tail, absences, tuple(dict.fromkeys((*known, *losses))))
        while len(self._memories) > _MOST_MEMORIES:
            del self._memories[next(iter(self._memories))]

    def _follow(self, place: str, sizes: Mapping[Inode, int], losses: list[str]) -> list[Part]:
        """Return the files to read on in, as they are now; add to `losses` what is left out."""
        now = self._find_current_file()
        memory = self._memories.get(place)
        snapshots: dict[Inode, _Snapshot] = {}

        def take_snapshot(file: _OpenFile) -> _Snapshot:
            return snapshots.setdefault(file.inode, _Snapshot(file))

        def find(inode: Inode) -> _Snapshot | None:
            file = self._open_files.get(inode) or self._find_rotated_file(inode)
            return None if file is None else take_snapshot(file)

        def list_later(written_ns: int) -> list[_Snapshot]:
            later, is_all = self._list_later_files(written_ns)
            if not is_all:
                losses.append(_MANY_LOST)
            return [take_snapshot(file) for file in later]

        found = Findings(
            log=self._path.name,
            now=None if now is None else take_snapshot(now),
            find=find,
            get_name=self._get_name,
            list_later=list_later,
            was_away=memory is not None and memory.absences < self._absences,
            tail=b"" if memory is None else memory.tail,
            sizes=sizes,
        )
        return follow(parse_place(place), found)

    def _has_name(self, content: Content) -> bool:
        return self._open_files[content.inode].has_name

    def _get_name(self, content: Content) -> str:
        names = [entry.name for entry in self._list_entries() if entry.inode() == content.inode[1]]
        return min(names, default="")

    def _find_current_file(self) -> _OpenFile | None:
        """Return the file now at the path; None: it is missing, unreadable or not allowed."""
        try:
            status = self._path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError
            inode = (status.st_dev, status.st_ino)
            if inode not in self._open_files:
                self._open(self._path)
            self._current = self._open_files[inode]
            self._refusal = None
        except (OSError, KeyError, NotAllowed) as error:
            self._refusal = str(error) if isinstance(error, NotAllowed) else None
            if self._missing_since is None:
                self._absences += 1
                loop = asyncio.get_running_loop()
                self._missing_since = loop.time()
                loop.call_later(BACK_SECONDS, self._changed.set)
            return None
        self._missing_since = None
        return self._current

    def _find_rotated_file(self, inode: Inode) -> _OpenFile | None:
        """Return the file with this inode, if it was rotated within the folder."""
        for entry in self._list_entries():
            if entry.inode() == inode[1]:
                with contextlib.suppress(OSError, NotAllowed):
                    if entry.stat(follow_symlinks=False).st_dev == inode[0]:
                        return self._open(entry.path)
        return None

    def _list_later_files(self, written_ns: int) -> tuple[list[_OpenFile], bool]:
        """Return the rotated files of this log that were written since an instant, by age.

        The second value: whether they are all. Compressed ones are left out: what they hold was in
        the file that became them.
        """
        found: list[tuple[int, str]] = []
        sizes: dict[str, int] = {}
        for entry in self._list_entries():
            if is_rotated_name(entry.name, self._path.name):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if status.st_mtime_ns >= written_ns:
                        found.append((status.st_mtime_ns, entry.name))
                        sizes[entry.name] = status.st_size
        names = sort_rotated(found)
        later: list[_OpenFile] = []
        room = _MOST_LATER_BYTES
        for name in reversed(names[-_MOST_LATER_FILES:]):
            room -= sizes[name]
            if room < 0:
                break
            with contextlib.suppress(OSError, NotAllowed):
                later.insert(0, self._open(self._path.with_name(name)))
        return later, len(names) <= _MOST_LATER_FILES and room >= 0

    def _list_entries(self) -> list[os.DirEntry[str]]:
        """Return the ordinary files beside the watched one."""
        with contextlib.suppress(OSError), os.scandir(self._path.parent) as there:
            return [entry for entry in there if entry.is_file(follow_symlinks=False)]
        return []

    def _open(self, path: str | Path) -> _OpenFile:
        """Return the file at a path, which stays open.

        Raises:
            NotAllowed: It may not be shown.
            OSError: It cannot be opened.
        """
        file = _OpenFile(open_viewable(str(path), self._within))
        if file.inode in self._open_files:
            os.close(file.handle)
            return self._open_files[file.inode]
        self._open_files[file.inode] = file
        return file

    def _close_others(self, read: Collection[Inode]) -> None:
        """Close the files that are opened longest and read no more."""
        kept = {*read, self._current.inode}
        others = [inode for inode in self._open_files if inode not in kept]
        for inode in others[: max(0, len(self._open_files) - _MOST_OPEN_FILES)]:
            os.close(self._open_files.pop(inode).handle)

    def _describe_absence(self) -> str | None:
        """Say that there is no file at the path, once it has been away; None: there is one."""
        if self._missing_since is None or self._refusal is not None:
            return None
        away = asyncio.get_running_loop().time() - self._missing_since
        # `call_later` may fire slightly early.
        if away < BACK_SECONDS * 0.99:
            return None
        return f"{escape_name(self._path)} is not there; it is read on when it is there again."


def _check_path(name: str, within: tuple[str, ...] | None) -> Path:
    path = Path(name)
    with contextlib.suppress(RuntimeError):
        path = path.expanduser()
    if "\x00" in name or not path.is_absolute():
        raise InvalidArguments(
            f"pty:file:{name!r} is not an absolute path; write it from the root, or from ~."
        )
    path = Path(os.path.normpath(path))
    if name != name.rstrip() and not os.path.lexists(path):
        path = Path(str(path).rstrip())
    # Check this first, so that no message reveals what exists there.
    require_viewable(str(path), within)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise TargetNotFound(_describe_missing_file(path, within, error)) from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no ordinary file"
        raise InvalidArguments(
            f"{escape_name(path)} is {kind}; only a file that grows can be watched."
        )
    return path


def _describe_missing_file(path: Path, within: tuple[str, ...] | None, error: OSError) -> str:
    shown = escape_name(path)
    if not isinstance(error, FileNotFoundError):
        return f"{shown} cannot be read ({error.strerror}); see that its rights allow it."
    there = sorted(_list_files(path.parent, within), reverse=True)
    if not there:
        return f"{shown} is not there; start what writes it, or create it first (touch), then wait."
    newest = ", ".join(escape_name(name) for _, name in there[:_MOST_NAMES])
    return (
        f"{shown} is not there; in {escape_name(path.parent)} there are {newest}. If it is "
        "yet to be written, create it first (touch)."
    )


def _list_files(folder: Path, within: tuple[str, ...] | None) -> list[tuple[float, str]]:
    """Return the files of a folder with their change times, if the agent may know them."""
    with contextlib.suppress(OSError, RecursionError), os.scandir(folder) as entries:
        if within is None or is_within_any(resolve_links(str(folder)), within):
            files = (entry for entry in entries if entry.is_file())
            return [
                (entry.stat().st_mtime, entry.name) for entry in files if not is_hidden(entry.path)
            ]
    return []


def is_anothers(uid: int, mode: int, user: int) -> bool:
    """Return True if the file belongs to another user and is not readable by everyone.

    Only checked for root (`user` 0); for all others the kernel has already checked it.
    """
    return user == 0 and uid != 0 and not mode & 0o004
