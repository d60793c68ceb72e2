"""Verify claims that a file was made.

A file counts as made since the work began if its *changed* time (ctime) is not older: the last
change of its content, name, owner, mode or links. Only the kernel sets it, to its own clock. The
other times do not count: any program can set them, and honest work does. What is unpacked (`tar`,
`unzip`), downloaded (`wget`) or copied (`cp -p`, `rsync -a`) keeps old times, onto an old file as
well as beside it. So an old file that was touched, moved or had its mode changed during the work
counts, too: no time tells it from one that was copied.

A folder, or a pattern such as `out/*.png`, counts if one file in it does. The folder of the work
itself says nothing in particular and does not count. An empty file counts if
files of its name are empty by convention (`is_marker`), or if the claim says so by its checksum.

The path of a claim is resolved, and decides whether the file may be read. Paths are strings here,
not `Path`, which would normalise them: only the kernel may resolve a path.
"""
# ruff: noqa: PTH112, PTH114, PTH116, PTH117, PTH118, PTH119

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Final, NamedTuple

from taskmem_evidence.findings import (
    ClaimDoubted,
    ClaimRefuted,
    ClaimUnchecked,
    build_verified_finding,
    format_name,
)
from taskmem_hookspecs import Claim, Finding, Verdict
from taskmem_hookspecs import paths as hookspecs

SECOND: Final = 1_000_000_000
TICK: Final = 10_000_000
"""How far a timestamp may be before the real time. Nanoseconds.

The kernel stamps with the time of its last tick; there are at least 100 a second.
"""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class FileStamps(NamedTuple):
    """Identity and state of a file. Times are nanoseconds since 1970."""

    device: int
    inode: int
    size: int
    written: int
    changed: int


def read_stamps(info: os.stat_result) -> FileStamps:
    """Return a file's identity and state."""
    return FileStamps(info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def is_made_since(changed: int, since: datetime) -> bool:
    """Return whether a file with this *changed* time was made after `since`."""
    earliest = (since - _EPOCH) // timedelta(microseconds=1) * 1000 - TICK
    # The kernel's time shows the file system's resolution: if it is whole seconds, the whole second
    # counts.
    if changed % SECOND == 0:
        earliest -= earliest % SECOND
    return changed >= earliest


_MARKERS: Final = frozenset(
    ("__init__.py", "py.typed", ".gitkeep", ".keep", ".nojekyll", ".nomedia", ".hushlogin")
)
_MARKER_WORDS: Final = frozenset(
    """
    complete completed done finished flag lock marker ok ready sentinel stamp success timestamp
    touch
    """.split()  # noqa: SIM905 - it is read as a text
)
"""Whole names, or suffixes, of files that say something by being there."""
_EMPTY_SUM: Final = hashlib.sha256().hexdigest()


def is_marker(name: str) -> bool:
    """Return whether files of this name are empty by convention."""
    return name in _MARKERS or name.casefold().lstrip("_").rpartition(".")[2] in _MARKER_WORDS


# --- paths --------------------------------------------------------------------


_LONGEST_PATH: Final = 4095
"""Maximum length of a path in any kernel. Bytes."""
_NO_SUCH: Final = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)
_ACCESS_ERRORS: Final = (errno.EACCES, errno.EPERM)


def _to_absolute_path(claim: Claim) -> str:
    """Return the claimed path as an absolute one, with its links and dots unresolved.

    Raises:
        ClaimUnchecked: The claim does not say which file it means.
        ClaimRefuted: No file can have such a path.
    """
    subject, folder = claim.subject, claim.folder
    if not subject.strip():
        raise ClaimUnchecked("The claim names no file; give its path.")
    if subject.startswith("~"):
        raise ClaimUnchecked(
            f"{format_name(subject)} begins with ~, and nobody here knows whose home; "
            "give the whole path."
        )
    if not os.path.isabs(subject) and not (folder and os.path.isabs(folder)):
        raise ClaimUnchecked(
            f"Nobody knows in which folder {format_name(subject)} lies; give the whole path, "
            "from / on."
        )
    path = os.path.join(folder or "/", subject)
    try:
        possible = "\0" not in path and len(os.fsencode(path)) <= _LONGEST_PATH
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ClaimRefuted(f"No file can have the path {format_name(path)}.")
    return path


def _resolve_allowed_path(path: str, roots: Sequence[str]) -> str:
    """Resolve the links of a path, which need not exist, and check that it is allowed.

    This comes first, so that nothing outside the allowed folders is looked at.

    Raises:
        ClaimUnchecked: The path leads outside the allowed folders.
        ClaimRefuted: There are too many links.
    """
    end = resolve_links(path)
    if hookspecs.is_within_any(end, roots):
        return end
    where = f"{format_name(path)} leads to {format_name(end)}" if end != path else format_name(path)
    lies = ", which lies" if end != path else " lies"
    folders = " or ".join(format_name(root) for root in roots[:3]) or "any (none is named)"
    raise ClaimUnchecked(f"{where}{lies} outside of {folders}, where it may be looked at.")


def resolve_links(path: str) -> str:
    """Resolve the links of a path, which need not exist.

    Raises:
        ClaimRefuted: There are too many links.
    """
    try:
        return hookspecs.resolve_links(path)
    except RecursionError:
        raise ClaimRefuted(f"{format_name(path)} leads through too many links.") from None


@contextlib.contextmanager
def _explain_os_errors(path: str) -> Generator[None]:
    """Turn OS errors about a path into findings in words."""
    name = format_name(path)
    try:
        yield
    except OSError as error:
        code = error.errno
        if code == errno.ENOENT:
            raise ClaimRefuted(_describe_missing(path)) from None
        if code == errno.ENOTDIR:
            raise ClaimRefuted(f"There is no {name}: what it names as a folder is none.") from None
        if code == errno.ELOOP:
            raise ClaimRefuted(f"{name} is a link that leads back to itself.") from None
        if code in _NO_SUCH:
            raise ClaimRefuted(f"No file can have the path {name}.") from None
        if code in _ACCESS_ERRORS:
            raise ClaimUnchecked(
                f"{name} may not be read here; make it readable for the user that the "
                "daemon runs as."
            ) from None
        reason = error.strerror or type(error).__name__
        raise ClaimUnchecked(f"{name} could not be read ({reason}).") from None


def _describe_missing(path: str) -> str:
    name = format_name(path)
    if os.path.islink(path):
        target = format_name(resolve_links(path))
        return f"{name} is a link to {target}, where nothing is."
    return f"There is no file {name}."


# --- the verifier -------------------------------------------------------------


HASHING_SECONDS: Final = 1.4
"""Time limit for reading the content. Seconds.

A hook has 2 s, and a busy machine needs some of them. There is no limit on size besides: how much
can be read, some hundreds of MB, depends on the machine. Larger files stay unproven.
"""
_CHUNK: Final = 1 << 20
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
"""Flags that prevent blocking if a FIFO or terminal has replaced the file."""
_KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileVerifier:
    """Verifies that a file exists, is in its folders, is not empty and is new.

    Empty means a size of 0. The content is not judged: a single blank line can be correct. A claim
    can give a checksum. Of a folder, or a pattern, one such file is enough, and none is read.
    """

    async def verify(self, claim: Claim) -> Finding:
        """Verify a claim; the finding contains none of the file's content.

        Reading blocks; the plug-in's event loop has a thread of its own.
        """
        try:
            return _verify_file(claim)
        except ClaimDoubted as error:
            return error.finding


def _verify_file(claim: Claim) -> Finding:
    path = _to_absolute_path(claim)
    with _explain_os_errors(path):
        if hookspecs.PATTERN_CHARS.search(path) and not os.path.lexists(path):
            return _verify_pattern(claim, path)
        end = _resolve_allowed_path(path, claim.roots)
        if os.path.isdir(end):
            return _verify_folder(claim, path, end)
        with _open_file(path, end) as handle:
            seen = _require_new_file(path, handle, claim)
            checksum = _hash_content(path, handle, seen.size)
            _require_unchanged(path, end, seen)
    return build_verified_finding(claim, checksum, seen.size, _describe_file(path, end, seen))


# --- folders and patterns -------------------------------------------------------


def _verify_pattern(claim: Claim, pattern: str) -> Finding:
    plain = hookspecs.PATTERN_CHARS.split(pattern, maxsplit=1)[0]
    folder = plain.rpartition("/")[0] or "/"
    # Resolve this first, so that nothing outside the allowed folders is looked at.
    end = _resolve_allowed_path(folder, claim.roots)
    if not pattern.removeprefix(folder).strip("*?/."):
        return _verify_folder(claim, folder, end)
    return _verify_files(claim, pattern, _list_matches(pattern, claim.roots))


def _list_matches(pattern: str, roots: Sequence[str]) -> Iterator[str | None]:
    """Yield the files that a pattern matches, and those in folders that it matches.

    None stands for each other path that was looked at.
    """
    for path in hookspecs.iterate_matches(pattern, roots):
        end = None if path is None else resolve_links(path)
        yield from _list_folder(end) if end is not None and os.path.isdir(end) else (end,)


def _verify_folder(claim: Claim, path: str, end: str) -> Finding:
    whole = [resolve_links(each) for each in (*claim.roots, claim.folder or "") if each]
    if any(f"{each}/".startswith(f"{end}/") for each in whole):
        raise ClaimRefuted(f"{format_name(path)} is the folder of the work, and no thing in it.")
    return _verify_files(claim, path, _list_folder(end))


def _list_folder(folder: str) -> Iterator[str | None]:
    """Yield what lies below a folder, without what is git's; None: a folder. Links stay closed."""
    waiting = [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder and entry.name != ".git":
                    waiting.append(entry.path)
                yield None if is_folder else entry.path


def _verify_files(claim: Claim, path: str, files: Iterator[str | None]) -> Finding:
    """Verify that one of several files counts as made; None is none.

    Raises:
        ClaimRefuted: None does.
        ClaimUnchecked: There are too many to be looked at.
    """
    name = format_name(path)
    if claim.checksum is not None:
        raise ClaimRefuted(f"{name} is no single file and has no SHA-256.")
    count, new, size, until = 0, 0, 0, perf_counter() + HASHING_SECONDS
    for file in files:
        with contextlib.suppress(OSError):
            if file is not None and stat.S_ISREG((info := os.lstat(file)).st_mode):
                filled = info.st_size > 0 or is_marker(os.path.basename(file))
                count, size = count + 1, size + info.st_size
                new += filled and is_made_since(info.st_ctime_ns, claim.since)
        if perf_counter() > until:
            if not new:
                raise ClaimUnchecked(f"{name} holds too many files; claim one of them.")
            break
    if not count:
        raise ClaimRefuted(f"There is no file in {name}.")
    if not new:
        raise ClaimRefuted(
            f"{name} is older than the task: all of its files ({count:,}) were there before the "
            "work began, or are empty.",
            size=size,
        )
    detail = f"Of the files in {name} ({count:,}), {new:,} were made since the work began."
    return Finding(verdict=Verdict.VERIFIED, detail=detail, size=size)


# --- what is in it ------------------------------------------------------------


@contextlib.contextmanager
def _open_file(path: str, end: str) -> Generator[int]:
    """Open a regular file for reading; opening a device may have side effects.

    Raises:
        ClaimRefuted: It is not a regular file.
        ClaimUnchecked: It was replaced meanwhile.
        OSError: It cannot be opened.
    """
    # The kernel resolves the path as given; our own resolution may differ.
    _require_file(path, os.stat(path))
    try:
        handle = os.open(end, _FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:  # it was no link a moment ago
            raise _build_changed_error(path) from None
        raise
    try:
        yield handle
    finally:
        os.close(handle)


def _require_file(path: str, info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        kind = _KINDS.get(stat.S_IFMT(info.st_mode), "something else")
        raise ClaimRefuted(f"{format_name(path)} is {kind}, and no file.")


def _require_new_file(path: str, handle: int, claim: Claim) -> FileStamps:
    """Return the state of a file that counts as made.

    Raises:
        ClaimRefuted: It is not a regular file, is empty, or existed before the work began.
    """
    info = os.fstat(handle)
    _require_file(path, info)
    seen = read_stamps(info)
    if seen.size == 0 and not (is_marker(os.path.basename(path)) or claim.checksum == _EMPTY_SUM):
        raise ClaimRefuted(f"{format_name(path)} is empty.", size=0)
    if not is_made_since(seen.changed, claim.since):
        raise ClaimRefuted(
            f"{format_name(path)} is older than the task: nothing has happened to it since the "
            "work began.",
            size=seen.size,
        )
    return seen


def _hash_content(path: str, handle: int, size: int) -> str:
    """Return the SHA-256 of the first `size` bytes, in hex.

    A file that grows meanwhile is detected by `_require_unchanged`.

    Raises:
        ClaimUnchecked: The file is shorter, or reading took too long.
    """
    content = hashlib.sha256()
    until = perf_counter() + HASHING_SECONDS
    while size > 0:
        chunk = os.read(handle, _CHUNK)
        if not chunk:
            raise _build_changed_error(path)
        content.update(chunk)
        size -= len(chunk)
        if size > 0 and perf_counter() > until:
            raise ClaimUnchecked(
                f"{format_name(path)} is too large to be read in {HASHING_SECONDS:g} s; "
                "claim a smaller file that shows the same, such as a list of checksums."
            )
    return content.hexdigest()


def _require_unchanged(path: str, end: str, seen: FileStamps) -> None:
    """Check the path and the file's state again, without reading the content.

    A file that is still being written can be claimed later.

    Raises:
        ClaimUnchecked: It is another file, or in another state.
    """
    try:
        same = read_stamps(os.stat(path)) == seen and resolve_links(path) == end
    except OSError:
        same = False
    if not same:
        raise _build_changed_error(path)


def _build_changed_error(path: str) -> ClaimUnchecked:
    return ClaimUnchecked(
        f"{format_name(path)} was changed while it was looked at; claim it once nothing "
        "writes it any more."
    )


def _describe_file(path: str, end: str, seen: FileStamps) -> str:
    links = f" (a link to {format_name(end)})" if os.path.islink(path) else ""
    return (
        f"{format_name(path)}{links} is there: {seen.size:,} bytes, written at "
        f"{_format_instant(seen.written)}."
    )


def _format_instant(nanoseconds: int) -> str:
    try:
        at = datetime.fromtimestamp(nanoseconds // SECOND, UTC)
    except (ValueError, OverflowError, OSError):  # a stamp can be any number
        return "an impossible time"
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
