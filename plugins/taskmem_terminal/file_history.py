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

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from hashlib import blake2s
from itertools import accumulate, pairwise, takewhile
from typing import Final, NamedTuple, Protocol, Self

from taskmem_terminal.frames import Stream, StreamPosition

Inode = tuple[int, int]

_FINGERPRINT_BYTES: Final = (64, 256, 4_096)
"""Bytes before a place that are known again after a restart; of the first ones, 64."""
_SEARCHED_BYTES: Final = 8 << 20
"""Bytes of a file that are searched for them, those nearest to where they were."""
TAIL_BYTES: Final = 16_384
"""Bytes before a place that are kept in memory, to find them again in a trimmed file."""
_LINE_BYTES: Final = 4_096
_CHUNK_BYTES: Final = 1 << 20
_MOST_LINE_ENDS: Final = 200_000
"""Line ends at which those bytes are compared, the nearest."""
_BLANKS: Final = b" \t\r\n\0"
_NEAR_LINES: Final = 20
"""Lines before a line that are compared; a quarter must be equal."""
_EDITED_LINES: Final = 50
"""Lines at the end of a file that may all have been edited."""
MOST_OLDER_FILES: Final = 3
"""Older files that a place goes on with."""
_MOST_COMPARED: Final = 1 << 20
"""Lines of an old text times lines of an edited one whose order is compared."""
_ROTATION: Final = re.compile(r"[-._][-._0-9TZ]+|[-._](?:old|prev|previous|last)")
"""Matches a number, a date or a word behind a rotated log's name, or before its suffix."""
_BACKUP: Final = "~"
"""Suffix by which editors rename a file before they write it anew."""


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
    def status_ns(self) -> int:
        """When it was last written, renamed, linked or removed, in nanoseconds."""
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
    """Digests of the last whole lines (`_FINGERPRINT_BYTES`); empty in places of version 0.1."""
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

    def is_newer_than(self, content: Content) -> bool:
        """Return whether another file is known to have been made before it."""
        return 0 < content.born_ns < self.born_ns


_DIGEST: Final = 16
"""Characters of a digest."""
_DATE_DIGITS: Final = 4
"""Digits of a number in a name that may be of a date."""

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
    return _hash(content.read(0, min(_FINGERPRINT_BYTES[0], shown)))


def _count_unfinished(content: Content, shown: int) -> int:
    """Count the bytes of the unfinished line before an offset; 0 if it is too long to tell."""
    before = content.read(max(0, shown - _LINE_BYTES), min(shown, _LINE_BYTES))
    rest = len(before) - before.rfind(b"\n") - 1
    return rest if rest < len(before) else 0


def _hash_last(content: Content, shown: int) -> str:
    size = min(_FINGERPRINT_BYTES[-1], shown)
    before = content.read(shown - size, size)
    return "".join(_hash(before[-least:]) for least in _FINGERPRINT_BYTES)


class Findings(NamedTuple):
    """The facts that `follow` decides on: the files of a log as they are now."""

    log: str
    """The log's name in its folder."""
    now: Content | None
    """The file at the path; None: there is none."""
    find: Callable[[Inode], Content | None]
    """Returns a file by its number: one that is still open, or has another name in the folder."""
    get_name: Callable[[Content], str]
    """Returns the name of a file in the folder; empty: it has none."""
    list_later: Callable[[int], Sequence[Content]]
    """Lists rotated files of the log that were written since an instant (ns), the oldest first."""
    was_away: bool
    """True if the path was without a file since the last look."""
    tail: bytes
    """The bytes before the place, at most `TAIL_BYTES`; empty: not known."""
    sizes: Mapping[Inode, int]
    """Sizes of files a moment before, where that was asked for (`Part.is_unsure`)."""


class Part(NamedTuple):
    """A file that a wait reads on in, and from where."""

    content: Content
    position: StreamPosition
    begin: int
    """Offset from which its text is new to the wait."""
    is_unsure: bool = False
    """True if it was written, yet is no longer: the system sets a file's time before its size. It
    was written once more if a look a moment later finds the same size."""
    edited: bytes = b""
    """Lines before the position that the older file did not have; they are shown first."""
    is_copy: bool = False
    """True if it was copied before its text was cut; nobody writes it on."""

    @property
    def is_read(self) -> bool:
        """True if all of it was shown."""
        return self.position.shown >= self.content.end and not self.edited

    def build_seen(self, position: StreamPosition | None = None) -> SeenFile:
        """Return how far the wait has read in it, up to a position; None: no further."""
        return SeenFile.build(self.content, position or self.position, self.begin)


def choose_part(parts: list[Part]) -> tuple[list[Part], int]:
    """Return the parts for the next place, and the one to read by its index; -1: there is none.

    A place has no file of which edited lines are yet to be shown: the older one tells them.
    """
    at = next((n for n, part in enumerate(parts) if not part.is_read), len(parts) - 1)
    end = next((n for n in range(at + 1, len(parts)) if parts[n].edited), len(parts))
    return parts[:end], at


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
    ended = [
        n
        for n, part in enumerate(parts[:-1])
        if n < at or part.is_read or (n == at and position.shown >= part.content.end)
    ]
    ended.sort(key=lambda n: has_name(parts[n].content))
    dropped = set(ended[: max(0, len(parts) - 1 - MOST_OLDER_FILES)])
    dropped.update(n for n in ended if parts[n].is_copy)
    return format_place(tuple(each for n, each in enumerate(seen) if n not in dropped))


def follow(place: Place, found: Findings) -> list[Part]:
    """Return the files to read on in, the oldest first; empty: there is no file to read."""
    *older, seen = place
    parts = [
        _read_on(content, each, found)
        for each in older
        if (content := _find_file(found, each)) is not None
        and content.end >= each.position.shown
        and _is_same_text(content, each)  # else a copy was made over it
    ]
    now, content = found.now, _find_file(found, seen)
    if content is not None:
        copies = _read_copies(content, seen, found, {part.content.inode for part in parts})
        parts += copies or [_read_on(content, seen, found, found.tail)]
    if now is None or seen.is_of(now):
        return parts
    if content is not None and not now.end and found.get_name(content) == found.log + _BACKUP:
        return parts  # an editor is about to write it
    inodes = {part.content.inode for part in parts} | {now.inode}
    # Its old writer may have gone on since, while others were written.
    written_ns = seen.changed_ns or (content.changed_ns if content is not None else 0)
    later = found.list_later(written_ns) if written_ns else ()
    chain = [
        *(each for each in later if each.inode not in inodes and not seen.is_newer_than(each)),
        now,
    ]
    if content is not None:
        chain.insert(0, content)
    elif chain[0] is now and found.was_away:
        parts.append(_begin(now))  # it was removed, and made anew
    else:
        parts.append(_begin(chain[0], _find_last_bytes(chain[0], seen)))
    return parts + [_begin_after(old, new, found) for old, new in pairwise(chain)]


def _begin_after(old: Content, new: Content, found: Findings) -> Part:
    """Return the next file of a log, from where the text of the one before it ends in it."""
    end = _find_old_text(old, new, found)
    return _begin(new, end, b"" if end is None else _find_edited_lines(old, new, end))


def _read_copies(
    content: Content, seen: SeenFile, found: Findings, older: set[Inode]
) -> list[Part]:
    """Return the copies that were made of a file before it was cut, and the file; empty: of none.

    A copy holds what was shown of the file, or was made since, under the log's name and more.
    """
    shown = seen.position.shown
    is_cut = content.end < shown or not _is_same_text(content, seen)
    is_short = shown < _FINGERPRINT_BYTES[0]  # too little to know a copy by
    since = seen.changed_ns or seen.born_ns
    if not since or not (is_cut or is_short):
        return []
    later = [each for each in found.list_later(since) if each.inode not in older]
    inodes = [each.inode for each in later]
    if content.inode in inodes:
        later = later[: inodes.index(content.inode)]  # it was renamed since
    elif found.now is None or content.inode != found.now.inode:
        later = [each for each in later if each.changed_ns < content.changed_ns]
    later = [each for each in later if each.changed_ns <= content.changed_ns]
    for at, copy in enumerate(later):
        part = _read_copy(copy, seen, found.tail)
        if is_short or part is None:
            is_new = 0 < seen.changed_ns < copy.born_ns
            if not is_new or not found.get_name(copy).startswith(found.log):
                continue
            if not is_cut and _hash_last(content, copy.end) == _hash_last(copy, copy.end):
                continue
        copies = later[at:]
        parts = [_begin(copy) if part is None else part]
        for old, new in pairwise((*copies, content)):
            parts.append(_begin(new, _find_end_of(old, new, is_rotated=True)))
        return [*(each._replace(is_copy=True) for each in parts[:-1]), parts[-1]]
    return []


def _read_copy(copy: Content, seen: SeenFile, tail: bytes) -> Part | None:
    """Return a copy from where what was shown of its file ends; None: it does not hold that."""
    shown = seen.position.shown
    if copy.end >= shown and _is_same_text(copy, seen):
        return Part(copy, seen.position, seen.begin)
    if tail:
        known = _find_trimmed_end(_drop_cut_line(tail, shown), copy, is_whole=False)
    else:
        known = _find_last_bytes(copy, seen, least=2)
    return None if known is None else _begin(copy, known)


def _find_old_text(old: Content, new: Content, found: Findings) -> int | None:
    """Return where the text of a file ends in the next one of its log; None: all of that is new.

    A file that was made before the old one was moved away or removed was prepared beside it, and
    may hold its text. One that was made later is new. If neither is known, names and texts tell.
    """
    name = found.get_name(old)
    is_rotated = is_rotated_name(name, found.log)
    is_prepared = False
    if name != found.log + _BACKUP:
        if new.born_ns > old.status_ns and (name or found.was_away):
            return None
        if new is found.now and not name and found.was_away and new.born_ns in (0, old.status_ns):
            return None
        # What is written has one time for both; later rotations rename it once more.
        is_moved = old.status_ns != old.changed_ns and new is found.now
        is_prepared = is_moved and 0 < new.born_ns < old.status_ns
    return _find_end_of(old, new, is_rotated=is_rotated and not is_prepared)


def is_rotated_name(name: str, log: str) -> bool:
    """Return True if a file with this name may be a log of another, rotated and not compressed."""
    stem, dot, suffix = log.rpartition(".")
    ways = [name.removeprefix(log)] if name.startswith(log) else []
    if stem and name.startswith(stem) and name.endswith(dot + suffix):
        ways.append(name[len(stem) :].removesuffix(dot + suffix))
    return any(map(_ROTATION.fullmatch, ways))


def sort_rotated(files: Iterable[tuple[int, str]]) -> list[str]:
    """Return the names of rotated logs, given with when they were last written, by their age.

    Of those that were written at once, one with a higher number is older, or with an earlier date.
    """

    def find_age(file: tuple[int, str]) -> tuple[int, int, str]:
        numbers = re.findall(r"[0-9]+", file[1])
        number = int(numbers[-1]) if numbers and len(numbers[-1]) < _DATE_DIGITS else 0
        return file[0], -number, file[1]

    return [name for _, name in sorted(files, key=find_age)]


def _find_file(found: Findings, seen: SeenFile) -> Content | None:
    """Return a file of a place; None: it is not there any more."""
    content = found.find(seen.inode)
    return content if content is not None and seen.is_of(content) else None


def _begin(content: Content, known: int | None = None, edited: bytes = b"") -> Part:
    """Return a file whose text up to an offset is known, but for edited lines; None: all is new."""
    begin = known or 0
    return Part(content, StreamPosition(begin, begin), begin, edited=edited)


def _read_on(content: Content, seen: SeenFile, found: Findings, tail: bytes = b"") -> Part:
    """Return a file that had this number before, from where it is new."""
    shown, end = seen.position.shown, content.end
    if end >= shown and _is_same_text(content, seen):
        is_written = end == shown and seen.changed_ns not in (0, content.changed_ns)
        if is_written and content.size == end:
            if found.sizes.get(content.inode) == end:
                return _begin(content)  # the same text was written once more
            return Part(content, seen.position, seen.begin, is_unsure=True)
        return Part(content, seen.position, seen.begin)
    if not tail:
        return _begin(content, _find_last_bytes(content, seen, least=2))
    is_whole = len(tail) == shown
    tail = _drop_cut_line(tail, shown)
    return _begin(content, _find_trimmed_end(tail, content, is_whole=is_whole))


def _drop_cut_line(tail: bytes, end: int) -> bytes:
    """Return the whole lines of the bytes before an offset; zeros before them are a hole."""
    text = tail.lstrip(b"\0")
    if len(tail) == end or len(text) < len(tail):
        return text
    return tail[tail.find(b"\n") + 1 :]


def _is_same_text(content: Content, seen: SeenFile) -> bool:
    """Tell whether a file still holds what was shown, by its beginning and the end of it."""
    shown = seen.position.shown
    if seen.last:
        last = _hash_last(content, shown - seen.rest)
        return (_hash_head(content, shown), last[:_DIGEST]) == (seen.head, seen.last[:_DIGEST])
    size = min(_FINGERPRINT_BYTES[0], shown)
    return _hash(content.read(0, size) + content.read(shown - size, size)) == seen.head


def _find_last_bytes(now: Content, seen: SeenFile, least: int = 1) -> int | None:
    """Return where the last bytes that were shown end in a file that replaced theirs.

    Of several places, the one where they were; else the one that most text before it confirms, and
    then the nearest. `least`: digests that must be equal. None: nowhere, or they are not known.
    """
    shown = seen.position.shown - seen.rest
    wanted = [seen.last[at : at + _DIGEST] for at in range(0, len(seen.last), _DIGEST)]
    sizes = [min(size, shown) for size in _FINGERPRINT_BYTES[: len(wanted)]]
    if not shown or len(wanted) < least:
        return None
    near = min(shown, now.end)
    begin = max(0, min(near, now.end - _SEARCHED_BYTES // 2) - _SEARCHED_BYTES // 2)
    data = now.read(begin, _SEARCHED_BYTES)

    def count_equal(end: int) -> int:
        if end < sizes[0] or (
            sizes[0] == shown < end and data[end - shown - 1 : end - shown] != b"\n"
        ):
            return 0  # all that was shown is whole lines
        pairs = zip(sizes, wanted, strict=True)
        equal = takewhile(lambda p: p[0] <= end and _hash(data[end - p[0] : end]) == p[1], pairs)
        return sum(1 for _ in equal)

    best, best_end = 0, 0
    for end in _list_nearest_line_ends(data, near - begin):
        if (equal := count_equal(end)) > best:
            best, best_end = equal, end
            if best == len(wanted) or begin + end == shown:
                break
    return min(begin + best_end + seen.rest, now.end) if best >= least else None


def _list_nearest_line_ends(data: bytes, near: int) -> Iterator[int]:
    """Yield the offsets after line ends, and the end, by their distance from an offset."""
    before, after = data.rfind(b"\n", 0, near) + 1, near
    for _ in range(_MOST_LINE_ENDS):
        if before and (after > len(data) or near - before <= after - near):
            yield before
            before = data.rfind(b"\n", 0, before - 1) + 1
        elif after <= len(data):
            yield after
            after = data.find(b"\n", after) + 1 or (len(data) if after < len(data) else after + 1)
        else:
            break


# --- files that hold old text in another place ---------------------------------------------


def _find_end_of(old: Content, now: Content, *, is_rotated: bool) -> int | None:
    """Return where the text of a file ends in the one that has replaced it; None: nowhere.

    `is_rotated`: likely it was not replaced, and the same program wrote the like once more.
    """
    size = min(old.end, TAIL_BYTES)
    data = old.read(old.end - size, size)
    tail = _drop_cut_line(data, old.end)
    is_whole = size == old.end or data[:1] == b"\0"
    if is_rotated:
        least = min(old.end, now.end)
        head = now.read(0, min(len(tail), _FINGERPRINT_BYTES[0]))
        is_alike = _hash_head(old, least) == _hash_head(now, least)
        is_alike |= is_whole and tail.startswith(head)
        return None if is_alike else _find_trimmed_end(tail, now, is_whole=False)
    known = _find_trimmed_end(tail, now, is_whole=False)
    return _find_edited_end(tail, now, old.end) if known is None else known


def _find_trimmed_end(tail: bytes, content: Content, *, is_whole: bool) -> int | None:
    """Return where the text that ended with `tail` ends in a file that was trimmed; None: nowhere.

    `is_whole`: the tail was all of it. A file that holds it again was written anew, not trimmed.
    One line, or lines that stand there more often, tell nothing: they may be new ones.
    """
    if not is_whole and (found := _find_lines(tail, content)) is not None:
        return found + len(tail)
    head = content.read(0, len(tail))
    start = tail.find(b"\n") + 1
    while 0 < start < len(tail):
        kept = tail[start:]
        if head.startswith(kept):
            return len(kept) if _is_telling(kept) and tail.find(kept) == start else None
        start = tail.find(b"\n", start) + 1
    return None


def _is_telling(text: bytes) -> bool:
    """Tell whether a text is of different lines."""
    return len({line for line in text.splitlines() if line.strip(_BLANKS)}) > 1


def _find_lines(wanted: bytes, content: Content) -> int | None:
    """Return the offset of text that begins with a line; None: it is not there."""
    if wanted.strip(_BLANKS) and content.read(0, len(wanted)) == wanted:
        return 0
    at, end = 0, content.end if _is_telling(wanted) else 0
    while at < end:
        data = content.read(at, _CHUNK_BYTES + len(wanted) + 1)
        found = max(data.find(before + wanted) for before in (b"\n", b"\0"))
        if found >= 0:
            return at + found + 1
        at += _CHUNK_BYTES
    return None


def _find_edited_end(tail: bytes, now: Content, size: int) -> int | None:
    """Return where old text ends in a file in which lines were edited; None: it is another text.

    The last line of the old text that stands there once, among lines that are alike, is known
    again; the last one after it that stands as far behind it as before is the end. What comes
    after was edited or is new, and what was edited before it is in `_find_edited_lines`.
    """
    lines = tail.splitlines(keepends=True)
    begin = max(0, size - _CHUNK_BYTES)
    data = now.read(begin, 2 * _CHUNK_BYTES)
    text = data.lstrip(b"\0")
    begin += len(data) - len(text)
    there = text.splitlines(keepends=True)
    ends = [begin, *accumulate(map(len, there), initial=begin)][1:]
    places: dict[bytes, list[int]] = {}
    for number, line in enumerate(there):
        places.setdefault(line, []).append(number)
    for last in range(len(lines) - 1, max(-1, len(lines) - 1 - _EDITED_LINES), -1):
        number, *others = places.get(lines[last], [-1])
        is_once = number >= 0 and not others and lines.count(lines[last]) == 1
        if not is_once or not lines[last].strip(_BLANKS):
            continue
        near = min(_NEAR_LINES, last, number)
        equal = sum(lines[last - n] == there[number - n] for n in range(1, near + 1))
        if 4 * equal >= max(near, 1) or last == number == 0:
            after = zip(lines[last:], there[number:], strict=False)
            known = max(n for n, (old, new) in enumerate(after) if old == new)
            return ends[number + known + 1]
    return None


def _find_edited_lines(old: Content, now: Content, end: int) -> bytes:
    """Return the lines before an offset that the old file did not have there.

    The last MiB of both is compared, line by line and by the order of lines: what finds less that
    is new, counts. What stands before the first known line is left out if text begins earlier.
    """
    old_lines, is_old_cut = _read_last_lines(old, old.end)
    new_lines, is_new_cut = _read_last_lines(now, end)
    by_place = {
        number
        for number, (line, new) in enumerate(zip(old_lines, new_lines, strict=False))
        if line == new
    }
    known = max(by_place, _find_known_lines(old_lines, new_lines), key=len)
    first = min(known, default=len(new_lines)) if is_old_cut or is_new_cut else 0
    new = [line for number, line in enumerate(new_lines) if number >= first and number not in known]
    return b"".join(line if line[-1:] in (b"\n", b"\r") else line + b"\n" for line in new)


def _find_known_lines(old: list[bytes], new: list[bytes]) -> set[int]:
    """Return which lines are old ones, in their order; of many that differ, in any order."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))
    begin = sum(1 for _ in pairs)
    pairs = takewhile(
        lambda pair: pair[0] == pair[1],
        zip(reversed(old[begin:]), reversed(new[begin:]), strict=False),
    )
    end = len(new) - sum(1 for _ in pairs)
    known = {*range(begin), *range(end, len(new))}
    before, after = old[begin : len(old) - len(new) + end], new[begin:end]
    if len(before) * len(after) <= _MOST_COMPARED:
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        for _, at, size in matcher.get_matching_blocks():
            known.update(range(begin + at, begin + at + size))
        return known
    left = Counter(before)
    for number, line in enumerate(after, begin):
        if left[line] > 0:
            left[line] -= 1
            known.add(number)
    return known


def _read_last_lines(content: Content, end: int) -> tuple[list[bytes], bool]:
    """Return the lines before an offset, and whether there are more before them."""
    size = min(end, _CHUNK_BYTES)
    data = content.read(end - size, size)
    lines = _drop_cut_line(data, end).splitlines(keepends=True)
    return lines, size < end and data[:1] != b"\0"
