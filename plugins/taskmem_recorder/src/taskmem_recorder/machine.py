"""Keep the recorder from disturbing: when it rests, how much it may read, what that has taken.

Pure, except what reads the facts of the machine and the clock of the processor.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

MOST_LOAD: Final = 2.0
"""Load for each processor above which the recorder rests, unless the user sets `_LOAD_VARIABLE`."""
_LOAD_VARIABLE: Final = "TASKMEM_RECORD_LOAD"
LEAST_FREE_BYTES: Final = 500 * 1024 * 1024
"""Free space on the disk below which the recorder rests."""
CPU_SHARE: Final = 0.022
"""Share of one processor that looking and reading may take in the long run."""
_MOST_SAVED: Final = 15.0
"""Seconds on a processor that may be saved up, for a time in which much happens."""
FIRST_SECONDS: Final = 10.0
"""Seconds on a processor with which it begins: who has switched it on expects what follows."""
_SESSIONS: Final = Path("/run/systemd/sessions")
"""Has a file for each session, where logind runs."""
_PROPERTIES: Final = ("--property=LockedHint", "--property=Type")
_POWER_SUPPLIES: Final = Path("/sys/class/power_supply")


class CpuBudget:
    """Time on a processor that may be spent, which grows as time passes."""

    def __init__(self, now: float, saved: float = FIRST_SECONDS) -> None:
        """Begin with some time saved. Seconds."""
        self._at = now
        self._left = saved

    def can_spend(self, now: float) -> bool:
        """Return whether anything is left; what is spent then may be more than is left."""
        self._earn(now)
        return self._left > 0

    def spend(self, now: float, seconds: float) -> None:
        """Record what was spent."""
        self._earn(now)
        self._left -= seconds

    def is_left_at(self, now: float) -> float:
        """Return when something is left."""
        self._earn(now)
        return now + max(0.0, -self._left / CPU_SHARE)

    def _earn(self, now: float) -> None:
        self._left = min(_MOST_SAVED, self._left + (now - self._at) * CPU_SHARE)
        self._at = now


class MachineFacts(NamedTuple):
    """Facts that decide if a machine can record."""

    load: float = 0.0
    """Programs that want a processor, for each processor, in the last minute."""
    is_on_battery: bool = False
    is_locked: bool | None = False
    """True if the user's session says that its screen is locked; None: it could not be asked."""
    free_bytes: int = 1 << 62
    reads_text: bool = True
    """True if something reads text on this machine."""


class Rest(NamedTuple):
    """Why nothing is recorded just now, and what follows."""

    why: str
    follows: str

    def __str__(self) -> str:
        return f"The recording rests: {self.why}. {self.follows}"


_LOCKED_REST: Final = Rest("the screen is locked", "It goes on when it is unlocked.")
_UNKNOWN_LOCK_REST: Final = Rest(
    "loginctl does not say whether the screen is locked",
    "It is asked again soon; see what it says: loginctl list-sessions",
)


def find_rest(facts: MachineFacts, most_load: float = MOST_LOAD) -> Rest | None:
    """Return why the recorder rests; None: it can record."""
    if not facts.reads_text:
        return Rest(
            "nothing on this machine reads text",
            "Install tesseract-ocr (or openclaw-taskmem[ocr]); it goes on within a minute.",
        )
    if facts.free_bytes < LEAST_FREE_BYTES:
        return Rest(
            f"the disk has only {facts.free_bytes >> 20} MiB left",
            f"It goes on when {LEAST_FREE_BYTES >> 20} MiB are free; make room, or use: "
            "taskmem record forget",
        )
    if facts.is_locked is not False:
        return _LOCKED_REST if facts.is_locked else _UNKNOWN_LOCK_REST
    if facts.is_on_battery:
        return Rest("the machine runs on battery", "It goes on with the charger.")
    if facts.load > most_load:
        return Rest(
            f"the machine is busy, with a load of {facts.load:.1f} for each processor",
            f"It goes on below {most_load:g}.",
        )
    return None


def read_most_load(environ: Mapping[str, str]) -> float:
    """Return the user's limit of load; the default if it is no number."""
    try:
        return float(environ.get(_LOAD_VARIABLE, "") or MOST_LOAD)
    except ValueError:
        return MOST_LOAD


def read_facts(folder: Path, *, reads_text: bool) -> MachineFacts:
    """Read the facts of this machine; `folder` is on the disk that is recorded to."""
    free = 1 << 62
    with suppress(OSError):
        place = next(each for each in (folder, *folder.parents) if each.exists())
        free = shutil.disk_usage(place).free
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return MachineFacts(
        load=load,
        is_on_battery=is_on_battery(_POWER_SUPPLIES),
        is_locked=is_session_locked(os.environ),
        free_bytes=free,
        reads_text=reads_text,
    )


def is_session_locked(environ: Mapping[str, str]) -> bool | None:
    """Return whether a graphical session of this user is locked, as logind says.

    Desktops that draw their lock themselves, such as GNOME, tell only this way. None: there are
    sessions, and logind could not be asked about them.
    """
    if not _list_folder(_SESSIONS):
        return False
    program = shutil.which("loginctl", path=environ.get("PATH"))
    if program is None:
        return None
    try:
        listed = _run_program(program, "list-sessions", "--no-legend")
        sessions = parse_sessions(listed, os.getuid())
        told = _run_program(program, "show-session", *sessions, *_PROPERTIES) if sessions else ""
    except (OSError, subprocess.SubprocessError):
        return None
    return has_locked_session(told)


def parse_sessions(listed: str, user: int) -> list[str]:
    """Return the ids of a user's sessions from the list of `loginctl`."""
    rows = (line.split() for line in listed.splitlines())
    return [row[0] for row in rows if row[1:2] == [str(user)]]


def has_locked_session(told: str) -> bool:
    """Return whether the screen of a session is locked, as the properties of several say.

    They are one a line, with an empty line between two sessions.
    """
    return any(map(_is_locked_session, told.split("\n\n")))


def _is_locked_session(told: str) -> bool:
    rows = (line.partition("=") for line in told.splitlines())
    properties = {name: value for name, _, value in rows}
    return properties.get("LockedHint") == "yes" and properties.get("Type") in ("x11", "wayland")


def _run_program(*command: str) -> str:
    return subprocess.run(  # noqa: S603 - loginctl, without a shell
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=2.0, check=True
    ).stdout.decode("utf-8", "replace")


def is_on_battery(folder: Path) -> bool:
    """Return whether a battery is discharged and no charger is connected, as the kernel says."""
    supplies = [(_read_word(each / "type"), each) for each in _list_folder(folder)]
    if any(kind != "battery" and _read_word(each / "online") == "1" for kind, each in supplies):
        return False
    return any(
        kind == "battery"
        and _read_word(each / "scope") != "device"
        and _read_word(each / "status") == "discharging"
        for kind, each in supplies
    )


def _list_folder(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [*folder.iterdir()]
    return []


def _read_word(file: Path) -> str:
    with suppress(OSError):
        return file.read_text().strip().casefold()
    return ""


_P = ParamSpec("_P")
_T = TypeVar("_T")


class CpuMeter:
    """Counts what is called and awaited through it; may be used from several threads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Time on a processor so far."""
        self._lock = threading.Lock()

    def call(self, function: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> _T:
        """Call a function in this thread."""
        before = time.thread_time()
        try:
            return function(*given, **named)
        finally:
            spent = time.thread_time() - before
            with self._lock:
                self.seconds += spent

    @types.coroutine
    def run(self, work: Coroutine[Any, Any, _T]) -> Generator[Any, Any, _T]:
        """Await a coroutine, and count its own steps: not what else runs while it waits."""
        step = partial(work.send, None)
        while True:
            try:
                awaited = self.call(step)
            except StopIteration as ended:
                result: _T = ended.value
                return result
            try:
                step = partial(work.send, (yield awaited))
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's
                step = partial(work.throw, error)
