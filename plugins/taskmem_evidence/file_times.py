"""Decide from a file's times whether it was made since the work began.

A file has three times, and none of them alone is proof:

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
"""

from __future__ import annotations

import ctypes
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

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

    Args:
        seen: Its state.
        born: Its creation time in nanoseconds since 1970; None: unknown.
        since: When the work began.
    """
    earliest = _to_nanoseconds(since) - TICK
    # Only the kernel sets `changed`, so it shows the file system's resolution: if that is whole
    # seconds, the whole second counts.
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
"""Size of the `statx` result. Bytes."""
_STATFS: Final = 256
"""More than the size of the `fstatfs` result on any machine. Bytes."""
_OVERLAY: Final = 0x794C7630


def read_birth_time(handle: int) -> int | None:
    """Return the creation time of an open file in nanoseconds since 1970; None: unknown.

    An overlay, as under containers, copies a file of a lower layer when its mode or name changes,
    which gives an old file a new creation time: there it is unknown.
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
