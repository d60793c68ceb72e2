"""Sensor for `screen` and `window:` targets."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from taskmem_hookspecs import InvalidArguments, Target, TargetNotFound, Watch
from taskmem_hookspecs.errors import NoProvider
from taskmem_vision.capture import desktop
from taskmem_vision.capture.desktop import (
    PRIVATE_VARIABLE,
    DisplayGone,
    Privacy,
    Window,
    WindowChoice,
)

if TYPE_CHECKING:
    from taskmem_vision.capture.x11 import X11Display

_ENVIRONMENT_CURE: Final = (
    "See that DISPLAY (or TASKMEM_DISPLAY) and XAUTHORITY are those of your desktop "
    "where the daemon was started, and restart it."
)
_INSTALL: Final = "install libxcb (apt install libxcb1) and restart the daemon"
_NO_LIBRARY: Final = (
    f"A single window cannot be watched without libxcb; {_INSTALL}. {desktop.SCREEN_INSTEAD}"
)
_PRIVACY_LOST: Final = (
    f"{PRIVATE_VARIABLE} cannot be kept to, for nothing here says where windows are: on X11, "
    f"{_INSTALL}; or unset it."
)
_IS_PRIVATE: Final = f"The window is private, by {PRIVATE_VARIABLE}, and not looked at."


class ScreenSensor:
    """`Sensor` for screens and desktop."""

    def __init__(self, environ: Mapping[str, str], platform: str = sys.platform) -> None:
        """Set the environment, and the system as in `sys.platform`."""
        self._environ = environ
        self._platform = platform
        self._privacy = Privacy(environ)

    async def watch(self, target: Target) -> Watch:
        """Start to watch a screen or a window.

        Raises:
            TargetNotFound: The window does not exist; the message names those that do.
            InvalidArguments: A name is missing, or given where none is allowed.
            NoProvider: It cannot be watched here; the message says what is missing.
        """
        try:
            if target.scheme == "window":
                return self._watch_window(target.name)
            if target.name:
                raise InvalidArguments("screen takes no name: it is all that the monitors show.")
            return self._watch_screen()
        except DisplayGone as gone:
            raise NoProvider(f"{gone} {_ENVIRONMENT_CURE}") from gone

    def _watch_screen(self) -> Watch:
        from taskmem_vision.capture.watches import ScreenWatch

        found = desktop.find_screen_display(self._environ, self._platform, list_sockets())
        events = found.name is not None and _has_x11()
        if self._privacy and not events:
            raise NoProvider(_PRIVACY_LOST)
        return ScreenWatch(found, self._privacy, _connect_x11 if events else None)

    def _watch_window(self, name: str) -> Watch:
        found = desktop.find_window_display(self._environ, self._platform, list_sockets())
        if not _has_x11():
            raise NoProvider(_NO_LIBRARY)
        from taskmem_vision.capture.watches import WindowWatch

        display = _connect_x11(found.name or "")
        try:
            # Owners of dialogs are needed only if windows can be private.
            there = display.list_windows() if self._privacy else display.list_titled_windows()
            choice = self._choose_window(name, there)
            notes = " ".join(filter(None, (found.note, desktop.describe_choice(choice))))
            return WindowWatch(display, choice.window, notes or None, self._privacy)
        except BaseException:
            display.close()
            raise

    def _choose_window(self, name: str, there: Sequence[Window]) -> WindowChoice:
        """Return the window that the name means; no message names a private one."""
        private = self._privacy.find_private(there)
        open_ones = [window for window in there if window not in private]
        try:
            return desktop.choose_window(name, open_ones)
        except TargetNotFound:
            if not _has_match(name, private):
                raise
            raise TargetNotFound(_IS_PRIVATE) from None


def _has_match(name: str, there: Iterable[Window]) -> bool:
    try:
        desktop.choose_window(name, [*there])
    except TargetNotFound:
        return False
    return True


def list_sockets() -> Iterator[str]:
    """Yield the names of the sockets that have a listening server.

    It connects to each, so it is called only when needed.
    """
    with suppress(OSError):
        yield from (each.name for each in Path(desktop.SOCKETS).iterdir() if _has_listener(each))


def _has_listener(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as knocking:
        # A killed server leaves its socket file behind.
        knocking.settimeout(0)
        return knocking.connect_ex(str(path)) in (0, errno.EAGAIN)


@cache
def _has_x11() -> bool:
    """Return whether X11 can be used, which requires the system's libxcb."""
    try:
        import_module("xcffib")
    except (ImportError, OSError):
        return False
    return True


def _connect_x11(name: str) -> X11Display:
    from taskmem_vision.capture.x11 import X11Display

    return X11Display(name)
