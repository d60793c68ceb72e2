"""When a file was made, as far as its file system can be believed.

A file has three instants that matter, and none of them is proof alone:

- *written* (mtime): when its content changed last. Anybody can set it to anything.
- *changed* (ctime): when its content, name, owner, mode or links changed last. Only the
  kernel sets it, to its own clock; but a `chmod` or `mv` of an old file moves it too.
- *born* (btime): when it came to be at all. Nobody can set it on Linux.

A file counts as made since the work began when it was *changed* since, and besides
either *written* or *born* since:

- What was generated, edited, appended to, copied, or generated elsewhere and moved
  into place was written since.
- What was unpacked with old instants (`tar`, `unzip`), downloaded with the server's
  (`wget`) or copied with the original's (`cp -p`, `rsync -a`) was born since. To refuse
  it would stop nobody, for the same copy without `-p` is a file like any other.
- An old file that was renamed, linked or had its mode changed was neither: refused.
- An old file whose *written* had been set ahead before the work began was not changed
  since: refused. Nor does that count once it is renamed: what is written is changed at
  that very instant, so a *written* later than *changed* was set by hand.

What remains is an old file that was touched, or whose old bytes were written again,
during the work. No stamp tells that from a new file of the same content.
"""

from __future__ import annotations

import ctypes
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

SECOND: Final = 1_000_000_000
TICK: Final = 10_000_000
"""How far a stamp may lie before the instant it stands for, in nanoseconds.

A kernel stamps by the clock of its last tick, of which there are at least 100 a second.
"""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class FileStamps(NamedTuple):
    """Which file it is, and in which state. Instants are nanoseconds since 1970."""

    device: int
    inode: int
    size: int
    written: int
    changed: int


def read_stamps(info: os.stat_result) -> FileStamps:
    """Return what tells a file, and a state of it, from any other."""
    return FileStamps(info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def is_made_since(seen: FileStamps, born: int | None, since: datetime) -> bool:
    """Return whether a file was made after an instant.

    Args:
        seen: Its state.
        born: When it came to be, in nanoseconds since 1970; None: unknown.
        since: When the work began.
    """
    earliest = _to_nanoseconds(since) - TICK
    # Only the kernel sets it, so it tells how fine the file system's stamps are:
    # where they are whole seconds, all of that second has to count.
    if seen.changed % SECOND == 0:
        earliest -= earliest % SECOND
    if seen.changed < earliest:
        return False
    written = earliest <= seen.written <= seen.changed
    return written or (born is not None and born >= earliest)


def _to_nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


# --- birth --------------------------------------------------------------------

_EMPTY_PATH: Final = 0x1000
_BTIME: Final = 0x800
_STATX: Final = 256
"""Bytes of what `statx` answers."""
_STATFS: Final = 256
"""More bytes than `fstatfs` answers on any machine."""
_OVERLAY: Final = 0x794C7630


def read_birth_time(handle: int) -> int | None:
    """Return when an open file came to be, in nanoseconds since 1970; None: unknown.

    An overlay, as under containers, copies a file of a lower layer when its mode or
    name changes, so that what is old is born again: nothing is known there.
    """
    if sys.platform == "darwin":
        return int(os.fstat(handle).st_birthtime * SECOND)
    try:
        system = ctypes.CDLL(None)
        return None if _is_overlay(system, handle) else _call_statx(system, handle)
    except (AttributeError, OSError):  # a C library without these calls
        return None


def _is_overlay(system: Any, handle: int) -> bool:  # noqa: ANN401 - ctypes has no types
    answer = ctypes.create_string_buffer(_STATFS)
    if system.fstatfs(ctypes.c_int(handle), answer) != 0:
        return True
    return ctypes.c_long.from_buffer(answer).value == _OVERLAY


def _call_statx(system: Any, handle: int) -> int | None:  # noqa: ANN401 - likewise
    answer = ctypes.create_string_buffer(_STATX)
    asked = (ctypes.c_int(handle), b"", _EMPTY_PATH, ctypes.c_uint(_BTIME), answer)
    if system.statx(*asked) != 0:
        return None
    mask = ctypes.c_uint32.from_buffer(answer, 0).value
    seconds = ctypes.c_int64.from_buffer(answer, 80).value
    rest = ctypes.c_uint32.from_buffer(answer, 88).value
    return seconds * SECOND + rest if mask & _BTIME and seconds else None
