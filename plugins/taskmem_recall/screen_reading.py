"""Read the text of a screen, and of it only what has changed since the last reading."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from PIL import Image

from taskmem_hookspecs import JudgeUnavailable
from taskmem_vision.change.motion import Block, find_clusters
from taskmem_vision.change.thumbnail import BLOCK, Thumbnail, find_box_around
from taskmem_vision.reading.ocr import Tesseract
from taskmem_vision.reading.page import Word, arrange_words
from taskmem_vision.reading.rapid import RapidOcr

LARGE: Final = 0.8
"""Part of the screen from which a change is read with the whole screen."""
PARTS: Final = 4
"""Maximum number of parts that are read one by one."""
APART: Final = 3
"""Distance up to which changes are one part. Blocks."""
LONGEST_SIDE: Final = 1920
"""Longest side of a stored picture. Pixels."""
QUALITY: Final = 70

Area = tuple[int, int, int, int]
"""Left, top, right, bottom, in pixels."""


class ScreenWords(NamedTuple):
    """The words of a screen, and what it looked like."""

    sight: Thumbnail
    words: tuple[Word, ...]

    @property
    def lines(self) -> list[str]:
        """The lines of text, from top to bottom."""
        return [line for line in arrange_words(self.words).text.splitlines() if line.strip()]


class ScreenReader:
    """Reads one screen again and again; forgets it when told to."""

    def __init__(self) -> None:
        self._engine: Tesseract | RapidOcr | None = None
        self._last: ScreenWords | None = None
        self.cpu_seconds = 0.0
        """Time on a processor that programs and threads have taken to read for it."""

    def find_engine(self) -> bool:
        """Return whether something on this machine reads text; look anew if nothing did."""
        self._engine = self._engine or Tesseract.find() or RapidOcr.find()
        return self._engine is not None

    def forget_engine(self) -> None:
        """Look for something that reads text anew, because this does not work any more."""
        self._engine = None

    def forget_screen(self) -> None:
        """Forget what was read, so that the next reading is of the whole screen."""
        self._last = None

    async def read_screen(self, pixels: Image.Image, sight: Thumbnail) -> ScreenWords:
        """Return the words of a screen; `sight`: its thumbnail.

        Raises:
            JudgeUnavailable: It could not be read.
        """
        last, areas = self._last, [(0, 0, *pixels.size)]
        kept: Sequence[Word] = ()
        if last is not None and last.sight.size == sight.size:
            changed = sight.find_differences(last.sight)
            areas = list_changed_areas(changed, last.words, pixels.size)
            kept = [each for each in last.words if not any(_touches(each, a) for a in areas)]
        words = [*kept]
        for left, top, right, bottom in areas:
            # At the scale of a whole screen: a larger one takes twice as long, and loses words.
            found = await self.read_strip(pixels.crop((left, top, right, bottom)), pixels.size)
            words += [_shift_word(each, left, top) for each in found]
        self._last = ScreenWords(sight, tuple(words))
        return self._last

    async def read_strip(
        self, pixels: Image.Image, whole: tuple[int, int] | None = None
    ) -> Sequence[Word]:
        """Return the words of a picture, apart from what was read of the screen before.

        `whole`: width and height of the screen of which it is a part; None: it stands alone.

        Raises:
            JudgeUnavailable: It could not be read.
        """
        if self._engine is None:
            raise JudgeUnavailable("Nothing on this machine reads text.")
        out = io.BytesIO()
        _to_rgb(pixels).save(out, "PNG", compress_level=1)
        engine, before = self._engine, self._engine.cpu_seconds
        try:
            return await engine.find_words(out.getvalue(), whole)
        finally:
            self.cpu_seconds += engine.cpu_seconds - before


def list_changed_areas(
    changed: frozenset[Block], words: Iterable[Word], size: tuple[int, int]
) -> list[Area]:
    """Return the parts of a screen to read again; whole words are in them.

    Args:
        changed: The blocks that differ from the last reading.
        words: The words of that.
        size: Width and height of the screen.
    """
    if not changed:
        return []
    words = [*words]
    clusters = find_clusters(changed, APART)
    groups = clusters if len(clusters) <= PARTS else [changed]
    areas = [_include_words(find_box_around(each, size, BLOCK // 2), words) for each in groups]
    covered = sum((right - left) * (bottom - top) for left, top, right, bottom in areas)
    return areas if covered < LARGE * size[0] * size[1] else [(0, 0, *size)]


def encode_picture(pixels: Image.Image) -> bytes:
    """Return pixels of a screen as WebP, which keeps text legible in the least space."""
    image = _to_rgb(pixels)
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    out = io.BytesIO()
    image.save(out, "WEBP", quality=QUALITY, method=2)
    return out.getvalue()


def _include_words(area: Area, words: Iterable[Word]) -> Area:
    """Return an area that holds the words at its edge in full."""
    left, top, right, bottom = area
    for each in words:
        if _touches(each, area):
            left, top = min(left, int(each.left)), min(top, int(each.top))
            right, bottom = max(right, round(each.right)), max(bottom, round(each.bottom))
    return left, top, right, bottom


def _touches(word: Word, area: Area) -> bool:
    left, top, right, bottom = area
    return word.left < right and word.right > left and word.top < bottom and word.bottom > top


def _shift_word(word: Word, left: int, top: int) -> Word:
    return word._replace(
        left=word.left + left, right=word.right + left, top=word.top + top, bottom=word.bottom + top
    )


def _to_rgb(pixels: Image.Image) -> Image.Image:
    return Image.frombuffer("RGB", pixels.size, pixels.tobytes(), "raw", "BGRX", 0, 1)
