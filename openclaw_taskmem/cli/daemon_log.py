"""`taskmem log`: the end of the daemon's log, and what is added to it."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final, Self

import click

from openclaw_taskmem.domain.text.texts import to_printable

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks at the log."""


def print_log(path: Path, lines: int, *, follows: bool) -> None:
    """Print the last lines of a log and the one before it; with `follows`, go on until Ctrl-C.

    What could control a terminal is replaced.
    """
    click.echo(f"{path}:", err=True)
    with ExitStack() as files:
        older = path.with_name(f"{path.name}.1")
        rotated = [files.enter_context(older.open("rb"))] if older.exists() else []
        reader = files.enter_context(LogReader(path))
        found = chain(*rotated, reader.read_lines(also_begun=not follows))
        for line in deque(found, maxlen=max(0, lines)):
            _print_line(line)
        if not path.exists():
            click.echo("There is no log yet; the daemon writes it.", err=True)
        while follows:
            time.sleep(LOOK_SECONDS)
            for line in reader.read_lines():
                _print_line(line)


class LogReader:
    """Reads each line of a log once, also while the daemon rotates it.

    The daemon renames the log and begins another (`rotate_log`). What it still writes to the
    renamed one meanwhile is read, too, as the last two files are kept open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: list[BinaryIO] = []

    def __enter__(self) -> Self:
        """Return the reader; leaving the block closes its files."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def read_lines(self, *, also_begun: bool = False) -> Iterator[bytes]:
        """Yield the lines that were added since the last call; none if there is no log.

        `also_begun`: also a line that has no end yet; otherwise a later call gives it, whole.
        """
        self._open_newest()
        for file in self._files:
            if os.fstat(file.fileno()).st_size < file.tell():
                file.seek(0)  # somebody has emptied it
            while line := file.readline():
                if not line.endswith(b"\n") and not also_begun:
                    file.seek(-len(line), os.SEEK_CUR)
                    break
                yield line

    def _open_newest(self) -> None:
        """Open the file that has the log's name now, unless it is open."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        if self._files and os.path.sameopenfile(self._files[-1].fileno(), file.fileno()):
            file.close()
            return
        self._files.append(file)
        for old in self._files[:-2]:
            old.close()
        del self._files[:-2]


def _print_line(line: bytes) -> None:
    click.echo(to_printable(line.decode(errors="replace").rstrip("\n"), "\ufffd"))
