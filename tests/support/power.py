"""A power cut, simulated: what a disk still has of SQLite's files at any instant.

Functions put in front of those of SQLite's file system record what is written, cut off,
deleted and synced. What was synced survives a cut, and so does a deletion; of what was
written after the last sync, any sectors do.
Source: SQLite's documented `sqlite3_vfs` and `sqlite3_io_methods`.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

_FRONTS: Final[list[Any]] = []
"""What SQLite may call as long as this process lives."""
SECTOR = 512
"""Bytes that a disk writes whole or not at all."""
_POINTER = ctypes.c_void_p
_XOPEN = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, _POINTER, ctypes.c_int, _POINTER)
_XDELETE = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, ctypes.c_int)
_XWRITE = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, ctypes.c_int, ctypes.c_int64)
_XTRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, ctypes.c_int64)
_XSYNC = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, ctypes.c_int)


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("numbers", ctypes.c_int * 3),
        ("pointers", _POINTER * 3),
        ("x_open", _POINTER),
        ("x_delete", _POINTER),
    )


class _Methods(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("x_close", _POINTER),
        ("x_read", _POINTER),
        ("x_write", _POINTER),
        ("x_truncate", _POINTER),
        ("x_sync", _POINTER),
        ("others", _POINTER * 13),
    )


@dataclass
class _File:
    """One file: what was synced, and what was done to it since."""

    synced: bytes | None = None
    """None: never synced, so that the file itself may be missing after a cut."""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes as (offset, bytes), truncations as (size, None)."""

    def make_content(self, is_kept: Callable[[], bool]) -> bytes:
        """Return what is there when some of the pending sectors were written."""
        content = bytearray(self.synced or b"")
        for offset, data in self.pending:
            if data is None:
                if is_kept():
                    del content[offset:]
                continue
            for start in range(0, len(data), SECTOR):
                if is_kept():
                    part, at = data[start : start + SECTOR], offset + start
                    content.extend(bytes(max(0, at - len(content))))
                    content[at : at + len(part)] = part
        return bytes(content)

    def sync(self) -> None:
        """Put all that was done on the disk."""
        self.synced = self.make_content(lambda: True)
        self.pending.clear()


class Disk:
    """The files of one folder, as a disk has them."""

    def __init__(self, folder: Path) -> None:
        self.on_sync: Callable[[], object] = lambda: None
        """Called after each sync, in the thread that synced."""
        self._folder = os.fsencode(folder.resolve())
        self._files: dict[str, _File] = {}
        self._open: dict[int, _File] = {}
        self._tables: dict[int, _Methods] = {}

    def cut(self, into: Path, random: Random | None) -> None:
        """Write what is left after a cut into a folder.

        `random` chooses the sectors that were written after the last sync; None: none.
        """
        into.mkdir()
        for name, file in list(self._files.items()):
            if file.synced is not None:
                kept = file.make_content(lambda: random is not None and random.random() < 0.5)
                (into / name).write_bytes(kept)

    @contextmanager
    def record_writes(self) -> Iterator[None]:
        """Record what this process's SQLite does to the folder's files."""
        library = ctypes.CDLL(_sqlite3.__file__)
        library.sqlite3_vfs_find.restype = _POINTER
        vfs = _Vfs.from_address(library.sqlite3_vfs_find(None))
        real = vfs.x_open, vfs.x_delete
        open_file, delete_file = _XOPEN(vfs.x_open), _XDELETE(vfs.x_delete)

        def record_open(vfs: int, path: int, file: int, flags: int, out: int) -> int:
            code = open_file(vfs, path, file, flags, out)
            if not code and (name := self._name_of(path)):
                self._put_before(file, name)
            return code

        def record_delete(vfs: int, path: int, is_synced: int) -> int:
            code = delete_file(vfs, path, is_synced)
            self._files.pop(self._name_of(path), None)
            return code

        fronts = _XOPEN(record_open), _XDELETE(record_delete)
        _FRONTS.append((self, fronts))
        vfs.x_open, vfs.x_delete = (ctypes.cast(front, _POINTER) for front in fronts)
        try:
            yield
        finally:
            vfs.x_open, vfs.x_delete = real

    def _name_of(self, path: int | None) -> str:
        """Return the name of a file that is recorded, "" of another."""
        folder, name = os.path.split(ctypes.string_at(path) if path else b"")
        return os.fsdecode(name) if folder == self._folder else ""

    def _put_before(self, file: int, name: str) -> None:
        """Let the methods of an open file record what they do."""
        self._open[file] = self._files.setdefault(name, _File())
        place = _POINTER.from_address(file)
        table = place.value
        assert table is not None
        if table not in self._tables:
            self._tables[table] = self._make_methods(table)
        place.value = ctypes.addressof(self._tables[table])

    def _make_methods(self, table: int) -> _Methods:
        """Return a table of methods that records, and calls those of another."""
        methods = _Methods.from_buffer_copy(ctypes.string_at(table, ctypes.sizeof(_Methods)))
        write = _XWRITE(methods.x_write)
        truncate = _XTRUNCATE(methods.x_truncate)
        sync = _XSYNC(methods.x_sync)

        def record_write(file: int, data: int, size: int, offset: int) -> int:
            self._open[file].pending.append((offset, ctypes.string_at(data, size)))
            return write(file, data, size, offset)

        def record_truncate(file: int, size: int) -> int:
            self._open[file].pending.append((size, None))
            return truncate(file, size)

        def record_sync(file: int, flags: int) -> int:
            code = sync(file, flags)
            self._open[file].sync()
            self.on_sync()
            return code

        fronts = (_XWRITE(record_write), _XTRUNCATE(record_truncate), _XSYNC(record_sync))
        _FRONTS.append(fronts)
        methods.x_write, methods.x_truncate, methods.x_sync = (
            ctypes.cast(front, _POINTER) for front in fronts
        )
        return methods
