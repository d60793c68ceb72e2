"""Verify claims that a file was made."""
# ruff: noqa: PTH114, PTH116

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Generator
from datetime import UTC, datetime
from time import perf_counter
from typing import Final

from taskmem_evidence.file_times import (
    SECOND,
    FileStamps,
    is_made_since,
    read_birth_time,
    read_stamps,
)
from taskmem_evidence.findings import (
    ClaimRefuted,
    ClaimUnchecked,
    build_refuted_finding,
    build_unproven_finding,
    build_verified_finding,
    format_name,
)
from taskmem_evidence.paths import (
    explain_os_errors,
    resolve_allowed_path,
    resolve_links,
    to_absolute_path,
)
from taskmem_hookspecs import Claim, Finding

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
        except ClaimRefuted as error:
            return build_refuted_finding(error)
        except ClaimUnchecked as error:
            return build_unproven_finding(str(error))


def _verify_file(claim: Claim) -> Finding:
    path = to_absolute_path(claim)
    with explain_os_errors(path):
        end = resolve_allowed_path(path, claim.roots)
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
