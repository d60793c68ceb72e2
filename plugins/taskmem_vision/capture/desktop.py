"""Choose the display to watch, or say what is missing. Pure.

Source: docs/origins.md, "Settings".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from taskmem_hookspecs.errors import NoProvider

SOCKETS: Final = "/tmp/.X11-unix"  # noqa: S108 - that is where X servers listen
"""Folder with the sockets of all local X servers."""
VARIABLE: Final = "TASKMEM_DISPLAY"
HIDDEN: Final = "The window is minimised or on another desktop; it cannot be seen."

NAMED: Final = 5
"""How many displays a sentence names."""
_SOCKET: Final = re.compile(r"X(\d+)")
SCREEN_INSTEAD: Final = "Wait on the whole screen instead: target screen."
_NO_WAYLAND: Final = (
    "Wayland shows no program what others paint, and its portal is not asked yet; log "
    "in to an X11 session, or wait on a terminal: pty:NAME."
)
_NO_DISPLAY: Final = (
    "There is no display: neither DISPLAY nor TASKMEM_DISPLAY is set where the daemon "
    "was started. Where there is a desktop, set one, such as TASKMEM_DISPLAY=:0, and "
    "run: taskmem daemon restart. Where there is none, wait on a terminal (pty:NAME) or a "
    "file (pty:file:/PATH)."
)

Box = tuple[int, int, int, int]
"""Left, top, width, height, in screen pixels."""


class DisplayGone(Exception):
    """The display does not answer, or no longer; the message says which."""


class NotViewable(Exception):
    """The window exists but has no pixels; the message says why."""


class DisplayEvents(NamedTuple):
    """What happened on a display since the last call."""

    painted: bool = False
    """Whether anything was painted."""
    changed: bool = False
    """Whether a title, a position, or the list of windows changed."""
    closed: frozenset[int] = frozenset()
    """Windows that were closed."""


class Desktop(NamedTuple):
    """A display that can be watched."""

    name: str | None
    """As in DISPLAY; None: the system does not use X11."""
    note: str | None = None
    """A sentence for the agent: why this display was chosen, or which windows it cannot show; None:
    it was configured."""


def find_screen_display(
    environ: Mapping[str, str], platform: str, sockets: Iterable[str]
) -> Desktop:
    """Return the display for the target `screen`.

    Args:
        environ: The daemon's environment.
        platform: The system, as in `sys.platform`.
        sockets: Names of the files in `SOCKETS`.

    Raises:
        NoProvider: It cannot be watched; the message says what is missing.
    """
    if platform in ("darwin", "win32"):
        return Desktop(None)
    if environ.get("WAYLAND_DISPLAY") and not environ.get(VARIABLE):
        raise NoProvider(_NO_WAYLAND)
    return _find_x11_display(environ, sockets)


def find_window_display(
    environ: Mapping[str, str], platform: str, sockets: Iterable[str]
) -> Desktop:
    """Return the display for `window:` targets.

    Raises:
        NoProvider: They cannot be watched; the message says what is missing.
    """
    if platform in ("darwin", "win32"):
        system = "macOS" if platform == "darwin" else "Windows"
        raise NoProvider(
            f"A single window cannot be watched on {system} yet; that takes a plug-in "
            f"that answers wait_sensor for window:. {SCREEN_INSTEAD}"
        )
    found = _find_x11_display(environ, sockets)
    if environ.get("WAYLAND_DISPLAY") and found.note is None:
        only = "On Wayland, only windows of X11 programs can be watched."
        return found._replace(note=only)
    return found


def _find_x11_display(environ: Mapping[str, str], sockets: Iterable[str]) -> Desktop:
    for variable in (VARIABLE, "DISPLAY"):
        if name := environ.get(variable, "").strip():
            return Desktop(name)
    numbers = [found[1] for name in sockets if (found := _SOCKET.fullmatch(name))]
    if len(numbers) == 1:
        name = f":{numbers[0]}"
        return Desktop(name, f"It is on display {name}, the only one here.")
    if environ.get("WAYLAND_DISPLAY"):
        raise NoProvider(_NO_WAYLAND)
    if numbers:
        first, *_ = there = [f":{each}" for each in sorted(numbers, key=int)]
        named = ", ".join(there[:NAMED]) + (" …" if len(there) > NAMED else "")
        raise NoProvider(
            f"Several displays are here ({named}), and none is named: set {VARIABLE} "
            f"to one of them, such as {first}, and restart the daemon."
        )
    raise NoProvider(_NO_DISPLAY)
