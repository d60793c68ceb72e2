"""A test's own room: folders of its own, and processes that carry its mark."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

T = TypeVar("T")

MARK = "OPENCLAW_E2E_ROOM"
"""The variable that every process of a room inherits."""


def until(
    probe: Callable[[], T | None],
    what: str,
    limit: float = 240,
    *,
    shown: Callable[[], object] = str,
) -> T:
    """Ask again and again until the answer is true, within a time limit.

    Each pause is a tenth of the time that has passed: asking costs a gateway more than it seems.

    Raises:
        AssertionError: It was not; what was `shown` by then goes with it.
    """
    began = time.monotonic()
    while not (answer := probe()):
        passed = time.monotonic() - began
        if passed > limit:
            raise AssertionError(f"not within {limit:g} s: {what}\n{shown()}")
        time.sleep(min(max(passed / 10, 0.05), 1))
    return answer


@dataclass(frozen=True)
class Room:
    """Where one test lives; nothing of the user's own is read or written."""

    root: Path
    mark: str = field(default_factory=lambda: token_hex(8))
    number: int = 0
    """How many have used it before; each has a taskmem of its own."""

    def __post_init__(self) -> None:
        for folder in (self.home, self.state):
            folder.mkdir(parents=True, exist_ok=self.number > 0)
        self.taskmem.mkdir()

    @property
    def home(self) -> Path:
        """The home folder of everything that runs here."""
        return self.root / "home"

    @property
    def state(self) -> Path:
        """The gateway's state folder."""
        return self.root / "state"

    @property
    def config(self) -> Path:
        """The gateway's configuration file."""
        return self.state / "openclaw.json"

    @property
    def taskmem(self) -> Path:
        """The state folder of taskmem."""
        return self.root / f"taskmem{self.number or ''}"

    @property
    def openclaw(self) -> Path:
        """The executable that stands for `openclaw` on this room's gateway."""
        return self.root / "openclaw"

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """A clean environment with this room's mark."""
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        own = {"HOME": str(self.home), "LANG": "C.UTF-8", MARK: self.mark}
        return {**kept, **own, **(more or {})}

    def processes(self) -> dict[int, str]:
        """The living processes that carry the mark: id to command line."""
        wanted = f"{MARK}={self.mark}".encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(folder.name)] = line.decode(errors="replace")[:200]
            except OSError:
                continue
        return found

    def left_behind(self, grace: float = 60) -> dict[int, str]:
        """What is still running after a time of grace; it is killed here."""
        try:
            until(lambda: not self.processes(), "every process is gone", grace)
        except AssertionError:
            left = self.processes()
            for process in left:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            return left
        return {}


def last_lines(path: Path, lines: int = 60) -> str:
    """The end of a log file, for a failure report."""
    if not path.exists():
        return ""
    text = path.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join(_plain(line)[:500] for line in text)


def _plain(line: str) -> str:
    """The readable part of a JSON log line; any other line as it is."""
    try:
        entry = json.loads(line)
        return f"{entry['time']} {entry['message']}"
    except (ValueError, KeyError, TypeError):
        return line
