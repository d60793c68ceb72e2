"""Stands between a process and the files of a folder: writes down, kills, lets calls fail.

In front of SQLite are functions of its file system (its documented `sqlite3_vfs` and
`sqlite3_io_methods`), in front of Python's own files functions of `os` and `io`.
"""

from __future__ import annotations

import _sqlite3
import builtins
import ctypes
import errno
import io
import os
import pickle
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.power_loss.operations import (
    CREATE,
    DELETE,
    HOME,
    OPEN,
    RENAME,
    SYNC,
    TRUNCATE,
    WRITE,
    Control,
    Operation,
)

_POINTER = ctypes.c_void_p
_INT, _LONG = ctypes.c_int, ctypes.c_int64
_XOPEN = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _POINTER, _INT, _POINTER)
_XDELETE = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _INT)
_XCLOSE = ctypes.CFUNCTYPE(_INT, _POINTER)
_XWRITE = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _INT, _LONG)
_XTRUNCATE = ctypes.CFUNCTYPE(_INT, _POINTER, _LONG)
_XSYNC = ctypes.CFUNCTYPE(_INT, _POINTER, _INT)
_XSHMMAP = ctypes.CFUNCTYPE(_INT, _POINTER, _INT, _INT, _INT, _POINTER)
_SHMMAP = 7
"""Which of the other methods it is."""

_FULL, _CANTOPEN = 13, 14
_IOERR: Final = {WRITE: 778, SYNC: 1034, TRUNCATE: 1546, DELETE: 2570, OPEN: 4618}
"""What SQLite calls an operation that failed."""
_POSSIBLE: Final = {
    errno.EIO: (CREATE, WRITE, TRUNCATE, SYNC, RENAME, DELETE, OPEN),
    errno.ENOSPC: (CREATE, WRITE, SYNC, RENAME),
    errno.EMFILE: (CREATE, OPEN),
}
"""Which operations may fail so."""


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("numbers", _INT * 3),
        ("pointers", _POINTER * 3),
        ("x_open", _POINTER),
        ("x_delete", _POINTER),
    )


class _Methods(ctypes.Structure):
    _fields_ = (
        ("version", _INT),
        ("x_close", _POINTER),
        ("x_read", _POINTER),
        ("x_write", _POINTER),
        ("x_truncate", _POINTER),
        ("x_sync", _POINTER),
        ("others", _POINTER * 13),
    )


class Recorder:
    """Records what this process does to a folder's files, from `install` on."""

    def __init__(self, folder: Path, journal: Path, control: Control) -> None:
        self._folder = os.path.realpath(folder)
        self._control = control
        self._write, self._getpid = os.write, os.getpid
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._journal = os.open(journal, flags, 0o600)
        self._lock = threading.RLock()
        self._open: dict[int, str] = {}
        """The path of each open file of SQLite, by its address, or of Python, by its number."""
        self._made: set[str] = set()
        """The files that SQLite made and has not synced yet."""
        self._tables: dict[int, _Methods] = {}
        self._fronts: list[object] = []
        """What SQLite may call as long as this process lives."""

    def install(self) -> None:
        """Stand in front of SQLite and of Python's files; this is for good."""
        self._stand_before_sqlite()
        self._stand_before_python()

    def perform(
        self, operation: Operation, do: Callable[[], Any], fail: Callable[[int], Any]
    ) -> Any:
        """Do an operation and write it down; or die before it, or fail."""
        control = self._control
        with self._lock:
            fault = control.fault
            if fault and operation.kind in _POSSIBLE[fault]:
                if control.skipped:
                    control.skipped -= 1
                else:
                    control.times -= 1
                    control.failed += 1
                    if control.times <= 0:
                        control.fault = 0
                    return fail(fault)
            if operation.kind == OPEN:
                return do()
            if control.done == control.kill_at:
                os.kill(self._getpid(), signal.SIGKILL)
            answer = do()
            self._write(self._journal, pickle.dumps(tuple(operation)))
            control.done += 1
            return answer

    def _name(self, path: Any, dir_fd: int | None = None) -> str:
        """Return a path inside the folder; "": it is outside."""
        if isinstance(path, int):
            return self._open.get(path, "")
        text = os.fsdecode(path)
        if dir_fd is not None:
            text = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text)  # noqa: PTH115, PTH118
        folder, name = os.path.split(os.path.abspath(text))  # noqa: PTH100
        whole = os.path.join(os.path.realpath(folder), name)  # noqa: PTH118
        if whole == self._folder:
            return HOME
        inside = whole.startswith(f"{self._folder}/")
        return whole[len(self._folder) + 1 :] if inside else ""

    # --- SQLite ---------------------------------------------------------------

    def _stand_before_sqlite(self) -> None:
        library = ctypes.CDLL(_sqlite3.__file__)
        library.sqlite3_vfs_find.restype = _POINTER
        vfs = _Vfs.from_address(library.sqlite3_vfs_find(None))
        really_open, really_delete = _XOPEN(vfs.x_open), _XDELETE(vfs.x_delete)

        def open_file(given: int, path: int, file: int, flags: int, out: int) -> int:
            name = self._name(ctypes.string_at(path)) if path else ""
            if not name:
                return really_open(given, path, file, flags, out)
            is_new = not os.path.lexists(ctypes.string_at(path))

            def fail(_: int) -> int:
                _POINTER.from_address(file).value = None
                return _CANTOPEN

            code: int = self.perform(
                Operation(CREATE if is_new else OPEN, name),
                lambda: really_open(given, path, file, flags, out),
                fail,
            )
            if not code:
                self._put_before(file, name)
                if is_new:
                    self._made.add(name)
            return code

        def delete_file(given: int, path: int, is_synced: int) -> int:
            there = ctypes.string_at(path)
            name = self._name(there) if os.path.lexists(there) else ""
            if not name:
                return really_delete(given, path, is_synced)
            return int(
                self.perform(
                    Operation(DELETE, name, is_synced),
                    lambda: really_delete(given, path, is_synced),
                    lambda _: _IOERR[DELETE],
                )
            )

        vfs.x_open, vfs.x_delete = self._keep(_XOPEN(open_file), _XDELETE(delete_file))

    def _keep(self, *fronts: Any) -> list[int | None]:
        self._fronts += fronts
        return [ctypes.cast(front, _POINTER).value for front in fronts]

    def _put_before(self, file: int, name: str) -> None:
        """Let the methods of an open file record what they do."""
        self._open[-file] = name
        place = _POINTER.from_address(file)
        table = place.value
        assert table is not None
        if table not in self._tables:
            self._tables[table] = self._make_methods(table)
        place.value = ctypes.addressof(self._tables[table])

    def _make_methods(self, table: int) -> _Methods:
        """Return a table of methods that records, and calls those of another."""
        methods = _Methods.from_buffer_copy(ctypes.string_at(table, ctypes.sizeof(_Methods)))
        really_write = _XWRITE(methods.x_write)
        really_truncate = _XTRUNCATE(methods.x_truncate)
        really_sync = _XSYNC(methods.x_sync)
        really_map = _XSHMMAP(methods.others[_SHMMAP] or 0)

        def fail_as(kind: str) -> Callable[[int], int]:
            return lambda fault: _FULL if (kind, fault) == (WRITE, errno.ENOSPC) else _IOERR[kind]

        def write(file: int, data: int, size: int, offset: int) -> int:
            def fail(fault: int) -> int:
                # A disk that gets full takes the first part.
                really_write(file, data, size // 2, offset)
                half = Operation(WRITE, self._open[-file], offset, given[: size // 2])
                self._write(self._journal, pickle.dumps(tuple(half)))
                self._control.done += 1
                return fail_as(WRITE)(fault)

            given = ctypes.string_at(data, size)
            operation = Operation(WRITE, self._open[-file], offset, given)
            return int(
                self.perform(operation, lambda: really_write(file, data, size, offset), fail)
            )

        def truncate(file: int, size: int) -> int:
            return int(
                self.perform(
                    Operation(TRUNCATE, self._open[-file], size),
                    lambda: really_truncate(file, size),
                    fail_as(TRUNCATE),
                )
            )

        def sync(file: int, flags: int) -> int:
            name = self._open[-file]
            # SQLite syncs the folder too, once, of a log or journal that it has made.
            whole = name in self._made and name.endswith(("-wal", "-journal"))

            def do() -> int:
                self._made.discard(name)
                return really_sync(file, flags)

            return int(self.perform(Operation(SYNC, name, whole), do, fail_as(SYNC)))

        def map_shared(file: int, page: int, size: int, extend: int, out: int) -> int:
            return int(
                self.perform(
                    Operation(OPEN, self._open[-file]),
                    lambda: really_map(file, page, size, extend, out),
                    lambda fault: _CANTOPEN if fault == errno.EMFILE else _IOERR[OPEN],
                )
            )

        methods.x_write, methods.x_truncate, methods.x_sync, methods.others[_SHMMAP] = self._keep(
            _XWRITE(write), _XTRUNCATE(truncate), _XSYNC(sync), _XSHMMAP(map_shared)
        )
        return methods

    # --- Python ---------------------------------------------------------------

    def _stand_before_python(self) -> None:
        os.open = self._front_open(os.open)  # type: ignore[assignment]
        os.close = self._front_close(os.close)
        os.write = self._front_write(os.write)
        os.pwrite = self._front_pwrite(os.pwrite)
        os.fsync = self._front_sync(os.fsync)
        os.ftruncate = os.truncate = self._front_truncate(os.truncate)
        os.rename = self._front_rename(os.rename)
        os.replace = self._front_rename(os.replace)
        os.unlink = os.remove = self._front_delete(os.unlink)
        io.open = builtins.open = self._front_file(io.open)  # type: ignore[assignment]

    def _call(self, operation: Operation, do: Callable[[], Any], path: Any = None) -> Any:
        def fail(fault: int) -> None:
            raise OSError(fault, os.strerror(fault), path)

        return self.perform(operation, do, fail)

    def _front_open(self, real: Any) -> Any:
        def front(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            def do() -> int:
                return int(real(path, flags, mode, dir_fd=dir_fd))

            name = self._name(path, dir_fd)
            if not name:
                return do()
            try:
                found = os.stat(path, dir_fd=dir_fd)
            except OSError:
                is_new, has_data = bool(flags & os.O_CREAT), False
            else:
                is_new, has_data = False, stat.S_ISREG(found.st_mode) and found.st_size > 0
            number: int = self._call(Operation(CREATE if is_new else OPEN, name), do, path)
            self._open[number] = name
            if flags & os.O_TRUNC and has_data:
                self._call(Operation(TRUNCATE, name), lambda: None)
            return number

        return front

    def _front_close(self, real: Any) -> Any:
        def front(number: int) -> None:
            self._open.pop(number, None)
            real(number)

        return front

    def _front_write(self, real: Any) -> Any:
        def front(number: int, data: Any) -> int:
            name = self._name(number)
            if not name:
                return int(real(number, data))
            import fcntl

            appends = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND
            offset = os.lseek(number, 0, os.SEEK_END if appends else os.SEEK_CUR)
            operation = Operation(WRITE, name, offset, bytes(data))
            return int(self._call(operation, lambda: real(number, data)))

        return front

    def _front_pwrite(self, real: Any) -> Any:
        def front(number: int, data: Any, offset: int) -> int:
            name = self._name(number)
            if not name:
                return int(real(number, data, offset))
            operation = Operation(WRITE, name, offset, bytes(data))
            return int(self._call(operation, lambda: real(number, data, offset)))

        return front

    def _front_sync(self, real: Any) -> Any:
        def front(number: Any) -> None:
            place = number if isinstance(number, int) else number.fileno()
            name = self._name(place)
            if name:
                is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
                self._call(Operation(SYNC, name, is_folder), lambda: real(number))
            else:
                real(number)

        return front

    def _front_truncate(self, real: Any) -> Any:
        def front(path: Any, length: int) -> None:
            name = self._name(path)
            if name:
                self._call(Operation(TRUNCATE, name, length), lambda: real(path, length), path)
            else:
                real(path, length)

        return front

    def _front_rename(self, real: Any) -> Any:
        def front(source: Any, target: Any, **where: Any) -> None:
            name = self._name(source, where.get("src_dir_fd"))
            to = self._name(target, where.get("dst_dir_fd"))
            if name:
                operation = Operation(RENAME, name, to=to)
                self._call(operation, lambda: real(source, target, **where), source)
            else:
                real(source, target, **where)

        return front

    def _front_delete(self, real: Any) -> Any:
        def front(path: Any, *, dir_fd: int | None = None) -> None:
            name = self._name(path, dir_fd)
            if name and os.path.lexists(path):
                self._call(Operation(DELETE, name), lambda: real(path, dir_fd=dir_fd), path)
            else:
                real(path, dir_fd=dir_fd)

        return front

    def _front_file(self, real: Any) -> Any:
        def front(file: Any, mode: str = "r", buffering: int = -1, *more: Any, **named: Any) -> Any:
            name = self._name(file) if not isinstance(file, int) else self._open.get(file, "")
            if not name or not set(mode) & set("wax+"):
                return real(file, mode, buffering, *more, **named)
            raw_mode = "".join(each for each in mode if each not in "bt")
            opener = {} if isinstance(file, int) else {"opener": os.open}
            raw = _RawFile(file, raw_mode, **opener)
            raw.forget = self._open.pop
            if "b" in mode and buffering == 0:
                return raw
            buffer: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            if "b" in mode:
                return buffer
            return io.TextIOWrapper(buffer, *more, **named)

        return front


class _RawFile(io.FileIO):
    """A file whose writes go through `os`, where they are recorded."""

    forget: Callable[[int, None], object]

    def write(self, data: Any, /) -> int:
        return os.write(self.fileno(), data)

    def truncate(self, size: int | None = None, /) -> int:
        length = self.tell() if size is None else size
        os.ftruncate(self.fileno(), length)
        return length

    def close(self) -> None:
        if not self.closed:
            self.forget(self.fileno(), None)
        super().close()
