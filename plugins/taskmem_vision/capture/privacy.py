"""Windows that nobody else is to see: black in whatever is sent or kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from PIL import Image

from taskmem_vision.capture.windows import Window, find_dialogs

VARIABLE: Final = "TASKMEM_PRIVATE_WINDOWS"
"""Parts of their titles, separated by commas."""


class Privacy:
    """Tells private windows from others."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Take the environment."""
        listed = environ.get(VARIABLE, "").split(",")
        self._parts = [part for each in listed if (part := each.strip().casefold())]

    def __bool__(self) -> bool:
        """Whether anything is private at all."""
        return bool(self._parts)

    def covers(self, window: Window) -> bool:
        """Whether a window is private, by its title."""
        title = window.title.casefold()
        return any(part in title for part in self._parts)

    def find_private(self, windows: Sequence[Window]) -> frozenset[Window]:
        """Return those that are private, and their dialogs by whatever title."""
        private = {each for each in windows if self.covers(each)}
        return frozenset(private).union(*(find_dialogs(each, windows) for each in private))


def black_out(pixels: Image.Image, boxes: Iterable[tuple[int, int, int, int]]) -> Image.Image:
    """Return a picture that is black in boxes of left, top, width, height."""
    black = pixels
    for left, top, width, height in boxes:
        black = pixels.copy() if black is pixels else black
        black.paste(0, (left, top, left + width, top + height))
    return black
