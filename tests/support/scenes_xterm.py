"""The scene that a terminal plays: a caret blinks, and a line appears."""

from __future__ import annotations

import os
import pty
import random
import select
import subprocess
import sys
import time
import tty
from collections.abc import Callable
from pathlib import Path

from tests.support.desktop import desktop
from tests.support.inks import INK
from tests.support.processes import bind_command, end
from tests.support.scenes_stage import Lines, obey, say
from tests.support.waiting import PATIENCE, until

CURSOR = b"\033[6n"
"""Asks a terminal where its cursor is; the answer ends with an R."""


class Terminal:
    """An xterm that shows what is written to it, without a program inside."""

    def __init__(self, title: str, x: int, y: int) -> None:
        master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        look = {
            "*iconHint": "none",
            "*color5": INK.colour,
            "*cursorColor": "#808080",
            "*faceName": "DejaVu Sans Mono",
            "*faceSize": "10",
        }
        blinking = ("-bc", "-bcn", "500", "-bcf", "500")
        placed = ("-geometry", f"100x28+{x}+{y}", "-T", title)
        resources = [part for item in look.items() for part in ("-xrm", ": ".join(item))]
        inherited = Path(os.ttyname(self._slave)).name
        self.process = subprocess.Popen(
            bind_command("xterm", *blinking, *placed, *resources, f"-S{inherited}/{master}"),
            pass_fds=(master,),
            stdin=subprocess.DEVNULL,
        )
        os.close(master)
        # In this mode a terminal begins by writing the number of its window.
        self._read_to(b"\n")

    def write(self, text: str) -> None:
        """Show a text; return when it has been drawn."""
        os.write(self._slave, text.encode())
        # A terminal draws what it took before it reads on: two answers, one drawing.
        for _ in range(2):
            os.write(self._slave, CURSOR)
            self._read_to(b"R")

    def _read_to(self, last: bytes) -> None:
        read = b""
        while not read.endswith(last):
            there, _, _ = select.select([self._slave], [], [], PATIENCE)
            assert there, "the terminal says nothing"
            read += os.read(self._slave, 1)


def caret(title: str, seed: int, after: float) -> None:
    """Play the scene."""
    seeded = random.Random(seed)  # noqa: S311
    terminal = Terminal(title, seeded.randint(90, 900), seeded.randint(90, 480))
    try:
        terminal.write("$ make\r\nBuilding the project...\r\n")
        with desktop() as found:
            until(lambda: not found.has_manager or title in found.titles, "the terminal")
        _play(terminal, after)
    finally:
        end(terminal.process)


def _play(terminal: Terminal, after: float) -> None:
    def come_true() -> None:
        nonlocal due
        due = float("inf")
        terminal.write("\033[35mBUILD SUCCESSFUL in 14 s\033[0m\r\n")
        say("true", until=None)

    def retitle(*words: str) -> None:
        terminal.write(f"\033]2;{' '.join(words)}\a")

    def close() -> None:
        end(terminal.process)

    commands: dict[str, Callable[..., None]] = {
        "now": come_true,
        "again": come_true,
        "title": retitle,
        "close": close,
    }
    due = time.monotonic() + after
    say("ready")
    lines = Lines()
    while not lines.ended and terminal.process.poll() is None:
        left = None if due == float("inf") else max(0.0, due - time.monotonic())
        there, _, _ = select.select([sys.stdin], [], [], left)
        if not there:
            come_true()
            continue
        for line in lines.read():
            obey(line, commands)
