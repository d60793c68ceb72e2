"""System V shared memory into which an X server writes pictures (MIT-SHM)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

_PRIVATE: Final = 0
_MODE: Final = 0o1600
"""Create the segment, for its owner only."""
_REMOVE: Final = 0
_NOWHERE: Final = ctypes.c_void_p(-1).value

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p


class SharedSegment:
    """One segment, replaced by a larger one when needed."""

    def __init__(self, attach: Callable[[int], int], detach: Callable[[int], None]) -> None:
        """Set how to attach the server to a segment, by its id, and how to detach it."""
        self._attach = attach
        self._detach = detach
        self._size = 0
        self._segment = 0
        self._address = 0

    def read(self, size: int, put: Callable[[int], None]) -> bytes:
        """Call `put` with the segment, and return what the server wrote.

        Raises:
            OSError: No memory can be shared.
        """
        self._ensure_size(size)
        put(self._segment)
        return ctypes.string_at(self._address, size)

    def close(self) -> None:
        """Free the segment; a second call does nothing."""
        if not self._size:
            return
        address, self._size = self._address, 0
        try:
            self._detach(self._segment)
        finally:
            _libc.shmdt(ctypes.c_void_p(address))

    def _ensure_size(self, size: int) -> None:
        if size <= self._size:
            return
        self.close()
        handle = _libc.shmget(_PRIVATE, ctypes.c_size_t(size), _MODE)
        if handle < 0:
            raise OSError(ctypes.get_errno(), "there is no memory to share")
        address = _libc.shmat(handle, None, 0)
        if address == _NOWHERE:
            error = ctypes.get_errno()
            _libc.shmctl(handle, _REMOVE, None)
            raise OSError(error, "there is no memory to share")
        try:
            self._segment = self._attach(handle)
            self._address, self._size = address, size
        finally:
            # The segment is freed once both sides have detached, even if one is killed.
            _libc.shmctl(handle, _REMOVE, None)
            if not self._size:
                _libc.shmdt(ctypes.c_void_p(address))
