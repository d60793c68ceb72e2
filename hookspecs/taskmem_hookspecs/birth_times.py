"""Read when a file was created, which no program can set on Linux."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any, Final

_SECOND: Final = 1_000_000_000
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
        return int(os.fstat(handle).st_birthtime * _SECOND)
    try:
        system = _load_system()
        return None if _is_overlay(system, handle) else _call_statx(system, handle)
    except (AttributeError, OSError):  # a C library without these calls
        return None


@cache
def _load_system() -> Any:  # noqa: ANN401 - ctypes has no types
    return ctypes.CDLL(None)


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
    return seconds * _SECOND + rest if mask & _BTIME and seconds else None
