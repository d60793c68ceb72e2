"""A Wayland display: what its monitors show, which grim reads, and its windows, if it is sway's.

Wayland itself lets no program see what others paint. Compositors made with wlroots (sway, labwc,
cage, Hyprland, river, Wayfire) have a protocol for it, which grim speaks. It tells nothing of
painting, so a screen is looked at again now and then; a look takes about 50 ms.
"""

from __future__ import annotations

import asyncio
import io
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from PIL import Image

from taskmem_hookspecs.errors import NoProvider
from taskmem_vision.desktop import DisplayGone
from taskmem_vision.gemini import remove_keys
from taskmem_vision.programs import run_program
from taskmem_vision.sway import WindowTree, find_socket, read_tree
from taskmem_vision.text_lines import to_one_line

LIMIT_SECONDS: Final = 5.0
"""Time limit for one picture of the screen. Seconds."""
_MOST_BYTES: Final = 1 << 28
"""Maximum size of one picture; four monitors with 3840 x 2160 pixels have less than half."""
_SAID_CHARACTERS: Final = 200
_BLIND_DESKTOPS: Final = frozenset({"GNOME", "KDE"})
"""Names in XDG_CURRENT_DESKTOP of desktops whose compositors never show grim anything."""
_NO_PROTOCOL: Final = "doesn't support"
"""Part of what grim says where the compositor lets it see nothing."""
_INSTALL: Final = (
    "A Wayland screen is read by grim, which is not installed: apt install grim, and run: taskmem "
    "daemon restart."
)


class NoSight(NoProvider):
    """The compositor shows grim nothing."""


def find_runtime_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder with the sockets of a user's Wayland sessions."""
    return Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")


def find_grim(environ: Mapping[str, str]) -> str:
    """Return the path of grim.

    Raises:
        NoProvider: It is not installed.
        NoSight: It would see nothing.
    """
    if _BLIND_DESKTOPS & {*environ.get("XDG_CURRENT_DESKTOP", "").split(":")}:
        raise NoSight("The desktop shows grim nothing.")
    found = shutil.which("grim", path=environ.get("PATH"))
    if found is None:
        raise NoProvider(_INSTALL)
    return found


class WaylandDisplay:
    """A Wayland display that grim reads."""

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        """Set the name, as in WAYLAND_DISPLAY, and the environment of the daemon."""
        self._folder: Final = find_runtime_folder(environ)
        self._path: Final = self._folder / name
        self._environ: Final = {**remove_keys(environ), "WAYLAND_DISPLAY": str(self._path)}
        self._sway: Path | None = None
        """The socket at which sway answered last; None: it did not."""

    async def find_sway(self) -> Path | None:
        """Return the socket of the sway whose display it is; None: it is not sway's."""
        named = self._environ.get("SWAYSOCK")
        return await asyncio.to_thread(find_socket, self._path, self._folder, named)

    def close(self) -> None:
        """Do nothing: each look has a connection of its own."""

    async def read_tree(self) -> WindowTree:
        """Return all windows.

        Raises:
            DisplayGone: They cannot be told now.
        """
        path = self._sway or await self.find_sway()
        if path is None:
            raise DisplayGone("sway is gone.")
        self._sway = None
        tree = await asyncio.to_thread(read_tree, path)
        self._sway = path
        return tree

    async def read_pixels(self) -> Image.Image:
        """Return what all monitors show, in RGB.

        Raises:
            DisplayGone: It cannot be read now.
            NoProvider: grim is not installed.
            NoSight: The compositor does not show it to grim.
        """
        command = (find_grim(self._environ), "-t", "ppm", "-")
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                printed = await run_program(command, self._environ, most_bytes=_MOST_BYTES)
        except TimeoutError:
            raise DisplayGone(f"grim read no picture within {LIMIT_SECONDS:g} s.") from None
        except OSError as error:
            raise DisplayGone(f"grim cannot be started ({error.strerror}).") from None
        if len(printed.output) > _MOST_BYTES:
            raise DisplayGone(f"grim gives a picture of more than {_MOST_BYTES >> 20} MiB.")
        if printed.status:
            reason = to_one_line(printed.errors.decode("utf-8", "replace"), _SAID_CHARACTERS)
            if _NO_PROTOCOL in reason:
                raise NoSight(f"The compositor shows grim nothing ({reason}).")
            raise DisplayGone(f"grim fails: {reason or f'status {printed.status}'}.")
        try:
            return Image.open(io.BytesIO(printed.output)).convert("RGB")
        except (OSError, ValueError) as error:
            raise DisplayGone("grim gave no picture.") from error
