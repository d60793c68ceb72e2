"""Decide what of a log is new: a log grows, is trimmed, rewritten, rotated, replaced, made anew.

A place says how far a wait has read in the file at a path, and in older files that went by that
path before and may still be written. What stood in a file when the wait began, or was shown since,
is not new, also where it stands again: in a log that is trimmed or edited in place or by replacing
it. What a rewritten file holds is new, also the same text once more.

All functions are pure: what a file holds is read through `Content`. How logs are kept was taken
from https://github.com/logrotate/logrotate/blob/main/logrotate.8.in (copytruncate, delaycompress),
https://github.com/fluent/fluent-bit/issues/375 and https://github.com/rsyslog/rsyslog/issues/2640.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2s
from typing import Final, NamedTuple, Protocol, Self

from taskmem_terminal.frames import Stream, StreamPosition

Inode = tuple[int, int]

_PRINT_BYTES: Final = 64
TAIL_BYTES: Final = 16_384
"""Bytes before a place that are kept in memory, to find them again in a trimmed file."""
_LINE_BYTES: Final = 4_096
_CHUNK_BYTES: Final = 1 << 20
_MOST_LINE_ENDS: Final = 200_000
"""Line ends in a file at which its text is compared with what was shown before a restart."""
_BLANKS: Final = b" \t\r\n\0"
_NEAR_LINES: Final = 20
"""Lines before a line of which a quarter must be alike for it to be the same line."""
_FEW_LINES: Final = 4
"""Fewer lines before a line tell nothing of it."""
_EDITED_LINES: Final = 50
"""Lines at the end of a file that may all have been edited."""
MOST_OLDER_FILES: Final = 3
"""Older files that a place goes on with."""


class Content(Stream, Protocol):
    """A file as it is now; it begins at 0."""

    @property
    def inode(self) -> Inode:
        """Device and number."""
        ...

    @property
    def born_ns(self) -> int:
        """When it was made, in nanoseconds; 0: not known."""
        ...

    @property
    def changed_ns(self) -> int:
        """When it was last written, in nanoseconds."""
        ...

    @property
    def size(self) -> int:
        """Its length; `end` is less where zeros stand behind the text."""
        ...


class SeenFile(NamedTuple):
    """How far a wait has read in one file."""

    inode: Inode
    head: str
    """Digest of the first 64 bytes, or of those before `position.shown`."""
    last: str
    """Digest of the last 64 bytes of whole lines; empty in places of version 0.1."""
    rest: int
    """Bytes of an unfinished line that were shown after those."""
    changed_ns: int
    """When the file was last written, if all of it was shown; 0: not known."""
    begin: int
    """Offset from which its text is new to the wait."""
    born_ns: int
    """When the file was made, for a later one may get its number; 0: not known."""
    position: StreamPosition

    def __str__(self) -> str:
        device, number = self.inode
        digests = self.head + self.last
        return (
            f"{device}:{number}:{digests}:{self.rest}:{self.changed_ns}:{self.begin}"
            f":{self.born_ns}:{self.position}"
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse what `__str__` wrote, or what version 0.1 did.

        Raises:
            ValueError: It is neither.
        """
        device, number, digests, *more, last = text.split(":")
        position = StreamPosition.parse(last)
        rest, changed_ns, begin, born_ns = map(int, more or (0, 0, position.shown, 0))
        inode = (int(device), int(number))
        head, tail = digests[:_DIGEST], digests[_DIGEST:]
        return cls(inode, head, tail, rest, changed_ns, begin, born_ns, position)

    @classmethod
    def build(cls, content: Content, position: StreamPosition, begin: int) -> Self:
        """Build it for a wait that was shown a file up to a position, from an offset on."""
        shown = position.shown
        changed_ns = content.changed_ns if shown == content.end else 0
        rest = _count_unfinished(content, shown)
        head, last = _hash_head(content, shown), _hash_last(content, shown - rest)
        born_ns = content.born_ns
        return cls(content.inode, head, last, rest, changed_ns, begin, born_ns, position)

    def is_of(self, content: Content) -> bool:
        """Return whether it is of this file, and not of an earlier one with its number."""
        births = {self.born_ns, content.born_ns} - {0}
        return self.inode == content.inode and len(births) < 2  # noqa: PLR2004 - both, and unlike


_DIGEST: Final = 16
"""Characters of a digest."""

Place = tuple[SeenFile, ...]
"""The file at the path comes last; before it older ones, the oldest first."""


def format_place(place: Place) -> str:
    """Return a place as a text for `parse_place`."""
    return "|".join(map(str, place))


def parse_place(text: str) -> Place:
    """Return a place from its text.

    Raises:
        ValueError: It is none.
    """
    return tuple(map(SeenFile.parse, text.split("|")))


def _hash(data: bytes) -> str:
    return blake2s(data, digest_size=_DIGEST // 2).hexdigest()


def _hash_head(content: Content, shown: int) -> str:
    return _hash(content.read(0, min(_PRINT_BYTES, shown)))


def _count_unfinished(content: Content, shown: int) -> int:
    """Count the bytes of the unfinished line before an offset; 0 if it is too long to tell."""
    before = content.read(max(0, shown - _LINE_BYTES), min(shown, _LINE_BYTES))
    rest = len(before) - before.rfind(b"\n") - 1
    return rest if rest < len(before) else 0


def _hash_last(content: Content, shown: int) -> str:
    size = min(_PRINT_BYTES, shown)
    return _hash(content.read(shown - size, size))


class Findings(NamedTuple):
    """The facts that `follow` decides on: the files of a log as they are now."""

    now: Content | None
    """The file at the path; None: there is none."""
    find: Callable[[Inode], Content | None]
    """Returns a file by its number: one that is still open, or has another name in the folder."""
    has_name: Callable[[Content], bool]
    """Tells whether a file has a name in the folder: it was rotated, not replaced."""
    list_later: Callable[[int], Sequence[Content]]
    """Lists rotated files of the log that were written after an instant (ns), the oldest first."""
    was_away: bool
    """True if the path was without a file since the last look."""
    tail: bytes
    """The bytes before the place, at most `TAIL_BYTES`; empty: not known."""


class Part(NamedTuple):
    """A file that a wait reads on in, and from where."""

    content: Content
    position: StreamPosition
    begin: int
    """Offset from which its text is new to the wait."""

    @property
    def is_read(self) -> bool:
        """True if all of it was shown."""
        return self.position.shown >= self.content.end

    def build_seen(self, position: StreamPosition | None = None) -> SeenFile:
        """Return how far the wait has read in it, up to a position; None: no further."""
        return SeenFile.build(self.content, position or self.position, self.begin)


def format_parts(
    parts: Sequence[Part],
    at: int,
    position: StreamPosition,
    has_name: Callable[[Content], bool],
) -> str:
    """Return the place after a look at one of the parts, up to a position.

    Of older files that were read to their ends, the last ones are read on, first of all those that
    still have a name.
    """
    seen = [part.build_seen(position if n == at else None) for n, part in enumerate(parts)]
    ended = [n for n, part in enumerate(parts[:-1]) if part.is_read or n < at]
    ended.sort(key=lambda n: has_name(parts[n].content))
    dropped = set(ended[: max(0, len(parts) - 1 - MOST_OLDER_FILES)])
    return format_place(tuple(each for n, each in enumerate(seen) if n not in dropped))


def follow(place: Place, found: Findings) -> list[Part]:
    """Return the files to read on in, the oldest first; empty: there is no file to read."""
    *older, seen = place
    parts = [
        _read_on(content, each, b"")
        for each in older
        if (content := _find_file(found, each)) is not None
    ]
    now, content = found.now, _find_file(found, seen)
    if content is not None:
        parts.append(_read_on(content, seen, found.tail))
    if now is None or seen.is_of(now):
        return parts
    inodes = {part.content.inode for part in parts} | {now.inode}
    # Its old writer may have gone on since, while others were written.
    written_ns = seen.changed_ns or (content.changed_ns if content is not None else 0)
    later = found.list_later(written_ns) if written_ns else ()
    later = [each for each in later if each.inode not in inodes]
    first, *others = (*later, now)
    known = None
    if content is not None and found.has_name(content):
        pass  # it was rotated, and nothing of it is in those after it
    elif first is now and found.was_away:
        pass  # it was removed, and made anew
    elif content is None:
        known = _find_last_bytes(first, seen)
    else:
        known = _find_end_of(content, first)
    return [*parts, _begin(first, known), *map(_begin, others)]


def _find_file(found: Findings, seen: SeenFile) -> Content | None:
    """Return a file of a place; None: it is not there any more."""
    content = found.find(seen.inode)
    return content if content is not None and seen.is_of(content) else None


def _begin(content: Content, known: int | None = None) -> Part:
    """Return a file of which the text up to an offset is known; None: all of it is new."""
    begin = known or 0
    return Part(content, StreamPosition(begin, begin), begin)


def _read_on(content: Content, seen: SeenFile, tail: bytes) -> Part:
    """Return a file that had this number before, from where it is new."""
    shown, end = seen.position.shown, content.end
    if end >= shown and _is_same_text(content, seen):
        is_written = end == shown and seen.changed_ns not in (0, content.changed_ns)
        if is_written and content.size == end:
            return _begin(content)  # the same text was written once more
        return Part(content, seen.position, seen.begin)
    if not tail:
        return _begin(content, _find_last_bytes(content, seen))
    is_whole = len(tail) == shown
    if not is_whole:
        tail = tail[tail.find(b"\n") + 1 :]
    return _begin(content, _find_trimmed_end(tail, content, is_whole=is_whole))


def _is_same_text(content: Content, seen: SeenFile) -> bool:
    """Tell whether a file still holds what was shown, by its beginning and the end of it."""
    shown = seen.position.shown
    if seen.last:
        last = _hash_last(content, shown - seen.rest)
        return (_hash_head(content, shown), last) == (seen.head, seen.last)
    size = min(_PRINT_BYTES, shown)
    return _hash(content.read(0, size) + content.read(shown - size, size)) == seen.head


def _find_last_bytes(now: Content, seen: SeenFile) -> int | None:
    """Return where the last bytes that were shown end in a file that replaced theirs.

    None: nowhere, or they are not known.
    """
    size = min(_PRINT_BYTES, seen.position.shown - seen.rest)
    if not size or not seen.last:
        return None
    data = now.read(0, 8 * _CHUNK_BYTES)
    ends = (end for end in _list_line_ends(data) if end >= size)
    known = (end for end in ends if _hash(data[end - size : end]) == seen.last)
    if size < _PRINT_BYTES:  # they are whole lines
        known = (end for end in known if end == size or data[end - size - 1 : end - size] == b"\n")
    return next((min(end + seen.rest, now.end) for end in known), None)


def _list_line_ends(data: bytes) -> Iterator[int]:
    """Yield the offsets after the first line ends of a text, and its end."""
    at = data.find(b"\n")
    for _ in range(_MOST_LINE_ENDS):
        if at < 0:
            break
        yield at + 1
        at = data.find(b"\n", at + 1)
    yield len(data)


# --- files that hold old text in another place ---------------------------------------------


def _find_end_of(old: Content, now: Content) -> int | None:
    """Return where the text of a file ends in the one that has replaced it; None: nowhere."""
    size = min(old.end, TAIL_BYTES)
    tail = old.read(old.end - size, size)
    if size < old.end:
        tail = tail[tail.find(b"\n") + 1 :]
    known = _find_trimmed_end(tail, now, is_whole=False)
    return _find_edited_end(tail, now, old.end) if known is None else known


def _find_trimmed_end(tail: bytes, content: Content, *, is_whole: bool) -> int | None:
    """Return where the text that ended with `tail` ends in a file that was trimmed; None: nowhere.

    `is_whole`: the tail was all of it. A file that holds it again was written anew, not trimmed.
    """
    if not tail.strip(_BLANKS):
        return None
    if not is_whole and (found := _find_lines(tail, content)) is not None:
        return found + len(tail)
    head = content.read(0, len(tail))
    start = tail.find(b"\n") + 1
    while 0 < start < len(tail):
        kept = tail[start:]
        if kept.strip(_BLANKS) and head.startswith(kept):
            return len(kept)
        start = tail.find(b"\n", start) + 1
    return None


def _find_lines(wanted: bytes, content: Content) -> int | None:
    """Return the offset of text that begins with a line; None: it is not there."""
    if content.read(0, len(wanted)) == wanted:
        return 0
    at, end = 0, content.end
    while at < end:
        data = content.read(at, _CHUNK_BYTES + len(wanted) + 1)
        if (found := data.find(b"\n" + wanted)) >= 0:
            return at + found + 1
        at += _CHUNK_BYTES
    return None


def _find_edited_end(tail: bytes, now: Content, size: int) -> int | None:
    """Return where old text ends in a file in which lines were edited; None: it is another text.

    The last line of the old text that stands there, among lines that are alike, is its end: what
    comes after was edited or is new.
    """
    lines = tail.splitlines(keepends=True)
    begin = max(0, size - _CHUNK_BYTES)
    there = now.read(begin, 2 * _CHUNK_BYTES).splitlines(keepends=True)
    ends = [begin]
    for line in there:
        ends.append(ends[-1] + len(line))
    places: dict[bytes, list[int]] = {}
    for number, line in enumerate(there):
        places.setdefault(line, []).append(number)
    for last in range(len(lines) - 1, max(-1, len(lines) - 1 - _EDITED_LINES), -1):
        for number in reversed(places.get(lines[last], ())):
            near = min(_NEAR_LINES, last, number)
            alike = sum(lines[last - n] == there[number - n] for n in range(1, near + 1))
            if lines[last].strip(_BLANKS) and (near < _FEW_LINES or 4 * alike >= near):
                return ends[number + 1]
    return None
