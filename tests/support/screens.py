"""X screens of a test's own: a server without a monitor, and a window manager."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from PIL import Image, ImageGrab

from tests.support.desktop import desktop
from tests.support.processes import bind_command, end
from tests.support.required import do_without
from tests.support.waiting import ProcessOutput, until

PROGRAMS = ("Xvfb", "openbox", "xterm", "xdotool", "setpriv")
PREFERENCES = Path(__file__).with_name("openbox.xml")
FOREIGN = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "SESSION_MANAGER", "SWAYSOCK")
"""Variables that may name another display."""
NUMBERS = range(1_000, 50_000)
"""Displays to choose from; a low number would soon be somebody else's."""


@cache
def list_missing_tools() -> tuple[str, ...]:
    """Say which tools that screens and scenes need are not there."""
    tools = [name for name in PROGRAMS if shutil.which(name) is None]
    if find_spec("_tkinter") is None:
        tools.append("tkinter")
    if "DejaVu Sans" not in _fonts():
        tools.append("DejaVu fonts")
    return tuple(tools)


def require_screen(*programs: str) -> None:
    """Skip the test if a tool is missing; fail it where tools are required.

    `programs` are needed besides.
    """
    others = (name for name in programs if shutil.which(name) is None)
    if not (lacks := [*list_missing_tools(), *others]):
        return
    do_without(f"{', '.join(lacks)}: not installed")


class Screen:
    """An X server and, unless told otherwise, openbox on it; runs within `with`."""

    is_wayland = False

    def __init__(
        self, size: tuple[int, int] = (1920, 1080), *, manager: bool = True, resources: str = ""
    ) -> None:
        """Take what the screen is like.

        Args:
            size: In pixels.
            manager: Whether a window manager runs.
            resources: What programs take as preferences, such as "Xft.rgba: rgb".
        """
        self.size = size
        self._resources = resources
        self._manager = manager
        self._number: int | None = None
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def display(self) -> str:
        """The display's name, the same one after a restart."""
        assert self._number is not None, "the screen was never started"
        return f":{self._number}"

    @property
    def environ(self) -> dict[str, str]:
        """This process's environment, with this display and no other."""
        kept = {name: each for name, each in os.environ.items() if name not in FOREIGN}
        return {**kept, **self.variables}

    @property
    def variables(self) -> dict[str, str]:
        """The variables that name this display."""
        return {"DISPLAY": self.display}

    @property
    def pids(self) -> list[int]:
        """The processes that make the screen; the server is the first."""
        return [process.pid for process in self._running]

    def start(self) -> None:
        """Start the server and the manager; return when both serve."""
        if self._number is not None:
            assert self._serve(self._number), f"no server on {self.display}"
        else:
            numbers = random.sample(NUMBERS, 20)
            free = (number for number in numbers if self._serve(number))
            self._number = next(free, None)
            assert self._number is not None, "no X server starts"
        with desktop(self.display) as found:
            found.prefer(self._resources)
            if self._manager:
                self._manage()
                until(lambda: found.has_manager, "a window manager")

    def stop(self) -> None:
        """End the server, and with it all that shows on it."""
        for process in self._running:
            end(process)
        self._running.clear()

    def restart(self) -> None:
        """Serve again under the same name; no window is left."""
        self.stop()
        self.start()

    def picture(self) -> Image.Image:
        """Return what the screen shows."""
        return ImageGrab.grab(xdisplay=self.display)

    def _serve(self, number: int) -> bool:
        """Start a server; whether it serves that display."""
        width, height = self.size
        told, tells = os.pipe()
        server = subprocess.Popen(
            bind_command(
                *("Xvfb", f":{number}", "-screen", "0", f"{width}x{height}x24"),
                *("-displayfd", str(tells), "-dpi", "96"),
                *("-nolisten", "tcp", "-noreset"),
            ),
            pass_fds=(tells,),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(tells)
        # The line comes when the server accepts clients; none, if it ended.
        ready = ProcessOutput(os.fdopen(told, "rb"))
        serves = ready.wait_for(f"{number}") is not None
        if serves:
            self._running.append(server)
        else:
            end(server)
        return serves

    def _manage(self) -> None:
        manager = subprocess.Popen(
            bind_command("openbox", "--sm-disable", "--config-file", str(PREFERENCES)),
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._running.append(manager)


def _fonts() -> str:
    lister = shutil.which("fc-list")
    if lister is None:
        return ""
    listed = subprocess.run([lister, ":", "family"], stdout=subprocess.PIPE, check=True)
    return listed.stdout.decode()
