"""`taskmem log`: the end of the daemon's log, and what is added to it."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import IO, Final

import click

from openclaw_taskmem.domain.texts import to_printable

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks at the log."""


def print_log(path: Path, lines: int, *, follows: bool) -> None:
    """Print the last lines of a log; with `follows`, go on until Ctrl-C.

    What could control a terminal is replaced. A log that was rotated is read from its beginning.
    """
    click.echo(f"{path}:", err=True)
    try:
        file = path.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        click.echo("There is no log yet; the daemon writes it.", err=True)
        return
    with file:
        for line in deque(file, maxlen=max(0, lines)):
            _print_line(line)
        if not follows:
            return
        while True:
            _print_new_lines(file)
            time.sleep(LOOK_SECONDS)
            if path.exists() and path.stat().st_size < file.tell():
                file.seek(0)


def _print_new_lines(file: IO[str]) -> None:
    while line := file.readline():
        _print_line(line)


def _print_line(line: str) -> None:
    click.echo(to_printable(line.rstrip("\n"), "\ufffd"))
