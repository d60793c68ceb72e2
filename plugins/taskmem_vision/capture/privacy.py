"""Private windows, which are blacked out in everything that is sent or stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from PIL import Image

from taskmem_vision.capture.windows import Window, find_dialogs

VARIABLE: Final = "TASKMEM_PRIVATE_WINDOWS"
"""Setting with parts of their titles, separated by commas."""


class Privacy:
    """Decides which windows are private."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Read the setting from the environment."""
        listed = environ.get(VARIABLE, "").split(",")
        self._parts = [part for each in listed if (part := each.strip().casefold())]

    def __bool__(self) -> bool:
        """Return whether any window can be private."""
        return bool(self._parts)

    def covers(self, window: Window) -> bool:
        """Return whether a window is private, by its title."""
        title = window.title.casefold()
        return any(part in title for part in self._parts)

    def find_private(self, windows: Sequence[Window]) -> frozenset[Window]:
        """Return the private windows and their dialogs, whatever the dialogs' titles."""
        private = {each for each in windows if self.covers(each)}
        return frozenset(private).union(*(find_dialogs(each, windows) for each in private))


def black_out(pixels: Image.Image, boxes: Iterable[tuple[int, int, int, int]]) -> Image.Image:
    """Return a picture with boxes (left, top, width, height) filled with black."""
    black = pixels
    for left, top, width, height in boxes:
        black = pixels.copy() if black is pixels else black
        black.paste(0, (left, top, left + width, top + height))
    return black
