"""A stand-in for the `openclaw` command: it notes its arguments, and fails as told."""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Self

from tests.support.waiting import PATIENCE

_SCRIPT = """\
#!{python} -IS
import json, os, signal, subprocess, sys
folder = {folder!r}
with open(os.path.join(folder, "calls"), "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
with open(os.path.join(folder, "behaviour")) as behaviour:
    exec(behaviour.read())
"""
_HANG = """
alive = os.open({path!r}, os.O_WRONLY)
child = "import signal; signal.pause()"
subprocess.Popen([sys.executable, "-IS", "-c", child], pass_fds=[alive])
os.write(alive, b"!")
signal.pause()
"""


class FakeOpenClaw:
    """The command, and what it was called with."""

    def __init__(self, folder: Path) -> None:
        """Prepare it; it is not there before it is installed."""
        self.folder = folder
        self.binary = folder / "openclaw"
        folder.mkdir(exist_ok=True)

    def install(self, behaviour: str = "") -> None:
        """Put the command where it belongs; it succeeds unless a program is given."""
        self._write("behaviour", behaviour)
        text = _SCRIPT.format(python=sys.executable, folder=str(self.folder))
        self._write("openclaw", text)

    def hang(self) -> HangingCommand:
        """Let it hang when it is called, and so does a child that it starts."""
        hanging = HangingCommand(self.folder / "alive")
        self.install(_HANG.format(path=str(hanging.path)))
        return hanging

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of every call so far."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def _write(self, name: str, text: str) -> None:
        fresh = self.folder / f"{name}.fresh"
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(self.folder / name)


class HangingCommand:
    """A command that hangs, seen from outside: a pipe that it and its child hold."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def __enter__(self) -> Self:
        """Answer itself; leaving the block lets go of the pipe."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the pipe."""
        os.close(self._pipe)

    def wait_until_it_hangs(self) -> None:
        """Wait until the command was called, and its child started."""
        assert self._next() == b"!"

    def wait_until_all_are_dead(self) -> None:
        """Wait until neither the command nor its child lives any more."""
        while self._next():
            pass  # it was called once more

    def _next(self) -> bytes:
        readable, _, _ = select.select([self._pipe], [], [], PATIENCE)
        assert readable, "the command does not hang, or lives on"
        return os.read(self._pipe, 1)
