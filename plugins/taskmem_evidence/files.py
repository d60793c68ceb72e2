"""Verify claims that a file was made.

A file's times decide whether it was made since the work began. A file has three times, and none of
them alone is proof:

- *written* (mtime): the last change of its content. Any program can set it.
- *changed* (ctime): the last change of its content, name, owner, mode or links. Only the
  kernel sets it, to its own clock; but a `chmod` or `mv` of an old file changes it too.
- *born* (btime): its creation. On Linux no program can set it.

A file counts as made since the work began if it was *changed* since, and also either *written* or
*born* since:

- A file that was generated, edited, appended to, copied, or moved into place was written
  since.
- A file that was unpacked with old times (`tar`, `unzip`), downloaded with the server's
  (`wget`) or copied with the original's (`cp -p`, `rsync -a`) was born since. Refusing it
  would prevent nothing, because a copy without `-p` counts.
- An old file that was renamed, linked or had its mode changed was neither: refused.
- An old file whose *written* time was set ahead before the work began was not changed
  since: refused. Renaming it does not help: writing also sets *changed*, so a *written*
  time later than *changed* was set by hand and does not count.

Not detected: an old file that was touched, or rewritten with the same bytes, during the work. Its
times are the same as those of a new file.

The path of a claim is resolved, and decides whether the file may be read. Paths are strings here,
not `Path`, which would normalise them: only the kernel may resolve a path.
"""
# ruff: noqa: PTH114, PTH116, PTH117, PTH118

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Generator, Sequence
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
from taskmem_hookspecs import Claim, Finding
from taskmem_hookspecs import paths as hookspecs
from taskmem_hookspecs.birth_times import read_birth_time

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


def is_made_since(seen: FileStamps, born: int | None, since: datetime) -> bool:
    """Return whether a file was made after `since`.

    `born` is its creation in nanoseconds since 1970; None: unknown.
    """
    earliest = (since - _EPOCH) // timedelta(microseconds=1) * 1000 - TICK
    # Only the kernel sets `changed`, so it shows the file system's resolution: if that is whole
    # seconds, the whole second counts.
    if seen.changed % SECOND == 0:
        earliest -= earliest % SECOND
    if seen.changed < earliest:
        return False
    written = earliest <= seen.written <= seen.changed
    return written or (born is not None and born >= earliest)


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
        return f"{name} is a link to {target}, where nothing is; write that file."
    return f"There is no file {name}; write it, if it is yet to be made."


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
    can give a checksum.
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
        end = _resolve_allowed_path(path, claim.roots)
        with _open_file(path, end) as handle:
            seen = _require_new_file(path, handle, claim.since)
            checksum = _hash_content(path, handle, seen.size)
            _require_unchanged(path, end, seen)
    return build_verified_finding(claim, checksum, seen.size, _describe_file(path, end, seen))


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
    if stat.S_ISDIR(info.st_mode):
        raise ClaimRefuted(f"{format_name(path)} is a folder; name a file in it.")
    if not stat.S_ISREG(info.st_mode):
        kind = _KINDS.get(stat.S_IFMT(info.st_mode), "something else")
        raise ClaimRefuted(f"{format_name(path)} is {kind}, and no file.")


def _require_new_file(path: str, handle: int, since: datetime) -> FileStamps:
    """Return the state of a file that counts as made.

    Raises:
        ClaimRefuted: It is not a regular file, is empty, or existed before the work began.
    """
    info = os.fstat(handle)
    _require_file(path, info)
    seen = read_stamps(info)
    if seen.size == 0:
        raise ClaimRefuted(f"{format_name(path)} is empty; write what belongs into it.", size=0)
    if not is_made_since(seen, read_birth_time(handle), since):
        raise ClaimRefuted(
            f"{format_name(path)} was there before the work began at "
            f"{since:%Y-%m-%dT%H:%M:%SZ}: its content is of {_format_instant(seen.written)}, "
            f"its name and mode of {_format_instant(seen.changed)}; write it anew.",
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
