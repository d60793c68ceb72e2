"""`window:` on X11 without xcffib: the part of the screen where a window lies.

The program `xwininfo` says where that is. What covers the window is seen in its place.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from contextlib import suppress
from typing import Final

from taskmem_hookspecs import TargetGone
from taskmem_vision.capture.display import HIDDEN, Box, DisplayGone, NotViewable
from taskmem_vision.capture.screen import shot
from taskmem_vision.capture.watch import PictureWatch
from taskmem_vision.capture.windows import Window, name
from taskmem_vision.gemini.keys import without_keys
from taskmem_vision.lines import one_line

PROGRAM: Final = "xwininfo"
NOTE: Final = (
    "Only what is visible of the window is seen, and what covers it; install "
    "openclaw-taskmem[x11] and restart the daemon to see all of it, and its dialogs."
)
SECONDS: Final = 2.0
"""How long the program may take."""

# A title may hold anything; the last of what looks like its end is its end.
_LINE: Final = re.compile(
    r'\s+0x(?P<id>[0-9a-f]{1,8}) "(?P<title>.*)": \(.*\)'
    r"  \d+x\d+\+-?\d+\+-?\d+  \+-?\d+\+-?\d+"
)
_FACT: Final = re.compile(
    r"  (Absolute upper-left [XY]|Width|Height|Map State): +(\S+)"
)


class RegionWatch(PictureWatch):
    """Plays `Watch`."""

    def __init__(self, display: str, window: Window, note: str | None) -> None:
        """Take a display by its name, the window, and what there is to say of it."""
        super().__init__(" ".join(filter(None, (note, NOTE))))
        self._display = display
        self._window = window
        self._turn = asyncio.Lock()

    @classmethod
    async def begin(cls, display: str, window: Window, note: str | None) -> RegionWatch:
        """Return a watch of a window that is there.

        Raises:
            TargetGone: The window was closed just now.
            DisplayGone: So is the display.
        """
        with suppress(NotViewable):
            await asyncio.to_thread(place, display, window.id)
        return cls(display, window, note)

    async def changed(self) -> None:
        """Return now and then; more often after a change."""
        await self._news.poll()

    async def close(self) -> None:
        """Let go: nothing is held."""

    @property
    def _text(self) -> str | None:
        # Not unknown: with the window its title has gone.
        return "" if self._gone else None

    async def _see(self) -> str | None:
        # Others look meanwhile, and one look is enough for all.
        async with self._turn:
            return await self._see_alone()

    async def _see_alone(self) -> str | None:
        try:
            if self._gone is None and (self._look is None or self._news.due()):
                at = self._news.looked()
                box = await asyncio.to_thread(place, self._display, self._window.id)
                self._take(self._track.take(at, shot(self._display, box)))
        except (NotViewable, DisplayGone) as hidden:
            self._look = None
            return str(hidden)
        except TargetGone:
            self._look = None
            self._gone = f"The window {name(self._window)} was closed."
        return None


def possible() -> bool:
    """Whether the program is there."""
    return shutil.which(PROGRAM) is not None


def listed(display: str) -> tuple[Window, ...]:
    """Return the windows that have a title, the top-most first.

    Raises:
        DisplayGone: It cannot be reached.
    """
    return windows_in(_said(display, "-root", "-tree"))


def place(display: str, number: int) -> Box:
    """Return where on the screen a window is.

    Raises:
        TargetGone: It is closed.
        NotViewable: It is not on the screen.
        DisplayGone: The display cannot be reached.
    """
    return place_in(_said(display, "-id", f"0x{number:x}"))


def windows_in(told: str) -> tuple[Window, ...]:
    """Return the windows with a title out of what `xwininfo -root -tree` writes."""
    lines = filter(None, map(_LINE.fullmatch, told.split("\n")))
    found: dict[int, Window] = {}
    for line in lines:
        number = int(line["id"], 16)
        found.setdefault(number, Window(number, one_line(line["title"])))
    return tuple(found.values())


def place_in(told: str) -> Box:
    """Return where a window is, out of what `xwininfo -id` writes.

    Raises:
        TargetGone: It does not know the window.
        NotViewable: The window is not on the screen.
    """
    # The title comes before the facts, whatever it holds: the last ones count.
    facts = dict(_FACT.findall(told))
    try:
        left, top, width, height = (
            int(facts[each])
            for each in (
                *("Absolute upper-left X", "Absolute upper-left Y"),
                *("Width", "Height"),
            )
        )
    except (KeyError, ValueError):
        raise TargetGone("The window is closed.") from None
    if facts.get("Map State") != "IsViewable":
        raise NotViewable(HIDDEN)
    return left, top, width, height


def _said(display: str, *arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and nothing of a title
            [PROGRAM, "-display", display, *arguments],
            stdin=subprocess.DEVNULL,
            env=without_keys(os.environ),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DisplayGone(f"{PROGRAM} does not answer.") from error
    if b"unable to open display" in done.stderr:
        raise DisplayGone(f"The display {display} cannot be reached.")
    return done.stdout.decode(errors="replace")
