"""What is left of a folder's files after a kill, or after a power cut, at any operation.

A kill leaves all that was done. A cut leaves what was synced, and any sectors of what was
written since. Names that came or went since are kept up to any one of them, in their order: file
systems write them down in order, and with a file that is synced its own name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from tests.power_loss.operations import CREATE, DELETE, RENAME, SYNC, TRUNCATE, WRITE, Operation

SECTORS: Final = (512, 4096)
"""Bytes that a disk writes whole or not at all."""


@dataclass(eq=False)
class _File:
    """One file, whatever its name is."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """What was done since: writes as (offset, bytes), truncations as (size, None)."""

    def do(self, offset: int, data: bytes | None) -> None:
        self.pending.append((offset, data))
        _change(self.content, offset, data)

    def sync(self) -> None:
        self.synced = bytes(self.content)
        self.pending.clear()


@dataclass(frozen=True)
class _Naming:
    """A file gets a name, in place of an old one perhaps, or loses its only one."""

    file: _File
    name: str | None
    old: str | None = None

    def is_in(self, folder: Path) -> bool:
        return any(Path(name).parent == folder for name in (self.name, self.old) if name)

    def apply(self, names: dict[str, _File]) -> None:
        if self.old is not None:
            names.pop(self.old, None)
        if self.name is not None:
            names[self.name] = self.file


class Disk:
    """The files of one folder, as the system sees them and as the disk has them."""

    def __init__(self) -> None:
        self._names: dict[str, _File] = {}
        self._safe: dict[str, _File] = {}
        """The names that a cut leaves."""
        self._pending: list[_Naming] = []
        """What was done to names since."""

    def apply(self, operation: Operation) -> None:
        """Do what the process did."""
        kind, path = operation.kind, operation.path
        if kind == CREATE:
            self._rename(_Naming(_File(), path))
            return
        file = self._names.get(path)
        if file is None:
            # A folder, a socket, or a file that is no longer there and still written to.
            if kind == SYNC and operation.offset:
                named = [n for n, each in enumerate(self._pending, 1) if each.is_in(Path(path))]
                self._keep_names(max(named, default=0))
            return
        if kind == WRITE:
            file.do(operation.offset, operation.data)
        elif kind == TRUNCATE:
            file.do(operation.offset, None)
        elif kind == RENAME:
            self._rename(_Naming(file, operation.to or None, path))
        elif kind == DELETE:
            self._rename(_Naming(file, None, path))
            if operation.offset:
                self._keep_names(len(self._pending))
        elif kind == SYNC:
            file.sync()
            own = [at for at, each in enumerate(self._pending, 1) if each.file is file]
            self._keep_names(len(self._pending) if operation.offset else max(own, default=0))

    def _rename(self, naming: _Naming) -> None:
        naming.apply(self._names)
        self._pending.append(naming)

    def _keep_names(self, count: int) -> None:
        for naming in self._pending[:count]:
            naming.apply(self._safe)
        del self._pending[:count]

    def write_killed(self, folder: Path) -> None:
        """Write what a kill leaves."""
        _write_files(folder, ((name, file.content) for name, file in self._names.items()))

    def write_cut(self, folder: Path, choose: Random) -> None:
        """Write what a power cut may leave."""
        names = dict(self._safe)
        for naming in self._pending[: choose.randint(0, len(self._pending))]:
            naming.apply(names)
        fate = choose.choice(_FATES)
        sector = choose.choice(SECTORS)
        _write_files(folder, ((name, fate(file, sector, choose)) for name, file in names.items()))


def _lose_all(file: _File, sector: int, choose: Random) -> bytes:
    """Nothing was written since the last sync."""
    return file.synced


def _lose_tail(file: _File, sector: int, choose: Random) -> bytes:
    """The last things that were done are lost, and one is torn."""
    content = bytearray(file.synced)
    parts = [part for each in file.pending for part in _split(*each, sector)]
    for offset, data in parts[: choose.randint(0, len(parts))]:
        _change(content, offset, data)
    return bytes(content)


def _lose_head(file: _File, sector: int, choose: Random) -> bytes:
    """The first things that were done are lost: the disk wrote the last ones first."""
    content = bytearray(file.synced)
    parts = [part for each in file.pending for part in _split(*each, sector)]
    for offset, data in parts[choose.randint(0, len(parts)) :]:
        _change(content, offset, data)
    return bytes(content)


def _lose_some(file: _File, sector: int, choose: Random) -> bytes:
    """Any sectors are lost."""
    content = bytearray(file.synced)
    kept = choose.choice((0.1, 0.5, 0.9))
    for each in file.pending:
        for offset, data in _split(*each, sector):
            if choose.random() < kept:
                _change(content, offset, data)
    return bytes(content)


def _lose_data(file: _File, sector: int, choose: Random) -> bytes:
    """The file has its length, and zeros for what was written."""
    return file.synced[: len(file.content)].ljust(len(file.content), b"\0")


_FATES: Final = (_lose_all, _lose_tail, _lose_tail, _lose_head, _lose_some, _lose_some, _lose_data)


def _split(offset: int, data: bytes | None, sector: int) -> Iterable[tuple[int, bytes | None]]:
    """Cut a write where the sectors of the disk begin."""
    if data is None:
        yield offset, None
        return
    start, end = offset, offset + len(data)
    while start < end:
        stop = min(end, (start // sector + 1) * sector)
        yield start, data[start - offset : stop - offset]
        start = stop


def _change(content: bytearray, offset: int, data: bytes | None) -> None:
    """Do one thing to a file: a truncation has no data."""
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if data is None:
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data


def _write_files(folder: Path, files: Iterable[tuple[str, bytes | bytearray]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files:
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)
