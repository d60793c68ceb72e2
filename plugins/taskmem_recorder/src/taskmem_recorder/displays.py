"""Choose the display to record, or say what is missing."""

from __future__ import annotations

import errno
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_SOCKETS: Final = Path("/tmp/.X11-unix")  # noqa: S108 - that is where X servers listen
_SOCKET_NAME: Final = re.compile(r"X(\d+)")
_MOST_NAMED_DISPLAYS: Final = 5
"""How many displays a sentence names."""
DISPLAY_VARIABLE: Final = "TASKMEM_DISPLAY"
ONLY_X11: Final = (
    "This screen cannot be recorded: Wayland and macOS do not tell a program which windows are "
    "where, so nothing could be left out. Log in to a session of X11"
)


class DisplayLost(Exception):
    """The display does not answer, or no longer; the message says which."""


def has_other_screen(environ: Mapping[str, str]) -> bool:
    """Return whether the desktop is one that shows windows without X11."""
    return bool(environ.get("WAYLAND_DISPLAY")) or sys.platform == "darwin"


def find_display(environ: Mapping[str, str], terminal: str | None = None) -> str:
    """Return the display that the operator names, or else that of the user's terminal.

    Where that one is gone, or of another machine, it is the display of the environment, if that
    names one; and where nothing names one, the only one of this machine.

    Args:
        environ: The daemon's environment.
        terminal: As in DISPLAY, of the terminal in which the recording was switched on; None: it
            had none.

    Raises:
        DisplayLost: There is none that can be recorded; the message says why.
    """
    if has_other_screen(environ):
        raise DisplayLost(f"{ONLY_X11}.")
    if chosen := environ.get(DISPLAY_VARIABLE, "").strip():
        return chosen
    named = environ.get("DISPLAY", "").strip()
    if terminal is not None and (not named or _is_here(terminal)):
        return terminal
    if named:
        return named
    numbers = [int(match[1]) for name in list_sockets() if (match := _SOCKET_NAME.fullmatch(name))]
    displays = [f":{number}" for number in sorted(numbers)]
    match displays:
        case [display]:
            return display
        case []:
            raise DisplayLost(
                "There is no display: neither DISPLAY nor TASKMEM_DISPLAY is set where the daemon "
                "was started. Where there is a desktop, set one, such as TASKMEM_DISPLAY=:0, and "
                "run: taskmem daemon restart."
            )
        case _:
            named = ", ".join(displays[:_MOST_NAMED_DISPLAYS])
            more = " …" if len(displays) > _MOST_NAMED_DISPLAYS else ""
            raise DisplayLost(
                f"Several displays are here ({named}{more}), and none "
                f"is named: set {DISPLAY_VARIABLE} to one of them, such as {displays[0]}, and "
                "restart the daemon."
            )


def list_sockets() -> Iterator[str]:
    """Yield the names of the sockets that have a listening server.

    It connects to each, so it is called only when needed.
    """
    with suppress(OSError):
        yield from (path.name for path in _SOCKETS.iterdir() if _has_listener(path))


def _is_here(display: str) -> bool:
    """Return whether a display, as in DISPLAY, is one of this machine's that runs."""
    number = display.removeprefix(":").partition(".")[0]
    return display.startswith(":") and f"X{number}" in list_sockets()


def _has_listener(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as knocking:
        # A killed server leaves its socket file behind.
        knocking.settimeout(0)
        return knocking.connect_ex(str(path)) in (0, errno.EAGAIN)
