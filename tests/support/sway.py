"""Wayland sessions of a test's own: sway without a monitor, and windows of foot."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.processes import bind_command, end
from tests.support.required import do_without
from tests.support.screens import FOREIGN, Screen
from tests.support.waiting import PATIENCE, until

PROGRAMS = ("sway", "swaymsg", "grim", "foot", "setpriv")
NOBODY = 65_534
"""A user and a group; sway does not run as root."""


def require_sway(*programs: str) -> None:
    """Skip the test if a tool is missing; fail it where tools are required."""
    if lacks := [name for name in (*PROGRAMS, *programs) if shutil.which(name) is None]:
        do_without(f"{', '.join(lacks)}: not installed")


class Sway(Screen):
    """A compositor with one monitor; runs within `with`."""

    is_wayland = True

    def __init__(
        self, size: tuple[int, int] = (800, 600), *, config: str = "", xwayland: bool = False
    ) -> None:
        super().__init__(size)
        self._xwayland = xwayland
        self._config = config
        self.runtime = Path(tempfile.mkdtemp(prefix="tmw"))

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.runtime)

    @property
    def display(self) -> str:
        return "wayland-1"

    @property
    def variables(self) -> dict[str, str]:
        found = {
            "XDG_RUNTIME_DIR": str(self.runtime),
            "WAYLAND_DISPLAY": self.display,
            "SWAYSOCK": str(self.socket),
        }
        if self._xwayland:
            found["DISPLAY"] = (self.runtime / "x11").read_text().strip()
        return found

    @property
    def socket(self) -> Path:
        """Where sway is told what to do."""
        return next(self.runtime.glob("sway-ipc.*.sock"), self.runtime / "none")

    def start(self) -> None:
        """Start the compositor; return when it serves."""
        width, height = self.size
        begin, config, log = (self.runtime / name for name in ("begin", "config", "log"))
        # Another user, which the tests may be, could not reach it otherwise.
        xwayland = self.runtime / "xwayland"
        xwayland.write_text('#!/bin/sh\nexec Xwayland "$@" -ac\n')
        xwayland.chmod(0o755)
        begin.write_text(f"cd {self.runtime}; printenv DISPLAY > x11; touch serves")
        config.write_text(
            f"output HEADLESS-1 mode {width}x{height}\n"
            "output HEADLESS-1 bg #000000 solid_color\n"
            "default_border none\ndefault_floating_border none\n"
            f"xwayland {'force' if self._xwayland else 'disable'}\n"
            'for_window [title="^Dialog"] floating enable\n'
            f"{self._config}\nexec sh {begin}\n"
        )
        as_user: tuple[str, ...] = ()
        if os.getuid() == 0:
            os.chown(self.runtime, NOBODY, NOBODY)
            as_user = ("--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")
        given = {
            **{name: each for name, each in os.environ.items() if name not in FOREIGN},
            "WLR_BACKENDS": "headless",
            "WLR_RENDERER": "pixman",
            "WLR_LIBINPUT_NO_DEVICES": "1",
            "WLR_XWAYLAND": str(xwayland),
            "XDG_RUNTIME_DIR": str(self.runtime),
        }
        program, *command = bind_command("sway", "-c", str(config))
        with log.open("wb") as errors:
            compositor = subprocess.Popen(
                [program, *as_user, *command],
                env=given,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        self._running.append(compositor)

        def serves() -> bool:
            assert compositor.poll() is None, log.read_text()
            return (self.runtime / "serves").exists()

        until(serves, "a compositor")

    def stop(self) -> None:
        """End the compositor, and with it all that shows on it."""
        super().stop()
        shutil.rmtree(self.runtime)
        self.runtime.mkdir()

    def tell(self, *command: str) -> str:
        """Have the compositor do something, or tell something."""
        told = ["swaymsg", "--raw", *command]
        return subprocess.check_output(told, env=self.environ, timeout=PATIENCE, text=True)


class Terminal:
    """A window of a colour, with a title, that shows what it is told; from `with` on."""

    def __init__(self, sway: Sway, title: str, colour: int) -> None:
        self._sway = sway
        self._title, self._colour = title, colour
        self._fifo = Path(tempfile.mkdtemp(dir=sway.runtime)) / "pipe"

    def __enter__(self) -> Self:
        os.mkfifo(self._fifo)
        script = f"touch {self._fifo}.there; exec cat {self._fifo}"
        self._process = subprocess.Popen(
            bind_command(
                *("foot", "--config=/dev/null", "--title", self._title),
                *("--override=csd.preferred=none", "--override=cursor.color=000000 000000"),
                *("sh", "-c", script),
            ),
            env=self._sway.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(Path(f"{self._fifo}.there").exists, "a program in a window")
        shown = f'"name": "{self._title}"'
        until(lambda: shown in self._sway.tell("-t", "get_tree"), "a window")
        self._pipe = self._fifo.open("wb", buffering=0)
        self.paint(self._colour)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._pipe.close()
        end(self._process)

    def paint(self, colour: int) -> None:
        """Give all of it another colour."""
        self.write(f"\033]11;#{colour:06x}\033\\")

    def call(self, title: str) -> None:
        """Give it another title."""
        self.write(f"\033]2;{title}\033\\")

    def write(self, text: str) -> None:
        """Show a text."""
        self._pipe.write(text.encode())

    def close(self) -> None:
        """Close the window."""
        self._pipe.close()
        self._process.wait(PATIENCE)
