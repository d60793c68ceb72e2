"""One look at a target: its pixels, its motion since the previous look, its encodings."""

from __future__ import annotations

import io
import itertools
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from PIL import Image

from taskmem_hookspecs import Picture
from taskmem_vision.change.motion import Block, Motion, MotionHistory
from taskmem_vision.change.thumbnail import Thumbnail

QUALITY: Final = 80
"""Quality of the JPEGs."""
KEPT: Final = 512
"""How many motions are remembered: over a minute at five looks a second."""
TITLE: Final = (-64, -64)
"""A pseudo-block that changes when the target's title does."""

_numbers = itertools.count()


class LookHistory:
    """All looks at one target, compared with each other."""

    def __init__(self) -> None:
        self.rhythms: Final = MotionHistory()
        self._motions: deque[tuple[int, Motion]] = deque(maxlen=KEPT)
        self._last: Look | None = None
        self._noted: Thumbnail | None = None
        """The reference for comparison: each block as of its last change.

        So a slow fade counts as a change in the end.
        """
        self._title: str | None = None
        self.moved_at = float("-inf")
        """When anything last differed."""

    def add_look(self, now: float, pixels: Image.Image, title: str | None = None) -> Look:
        """Return the look with these pixels; the previous look if nothing differs.

        Args:
            now: Time of the look, in monotonic seconds.
            pixels: From the screen: RGB, or four bytes in the order BGRX.
            title: The target's title; None: it has none.
        """
        look, last = Look(self, now, pixels), self._last
        if last is not None and look.sight == last.sight and title == self._title:
            return last
        changed: frozenset[Block] = frozenset()
        anew = last is not None and last.size != look.size
        if self._noted is not None:
            changed = look.sight.find_differences(self._noted)
        if self._noted is None or anew:
            self._noted = look.sight
        elif changed:
            self._noted = self._noted.renew_blocks(look.sight, changed)
        if last is not None and title != self._title:
            changed |= {TITLE}
        self._last, self._title = look, title
        if changed:
            self.moved_at = now
        motion = self.rhythms.record_changes(now, changed, anew=anew)
        self._motions.append((look.number, motion))
        return look

    def list_motions_since(self, number: int) -> Iterator[Motion]:
        """Yield the motions after a look, oldest first."""
        newer = itertools.takewhile(lambda each: each[0] > number, reversed(self._motions))
        return reversed([motion for _, motion in newer])


class Look:
    """`Picture` of one look."""

    def __init__(self, track: LookHistory, now: float, pixels: Image.Image) -> None:
        """Set the pixels; those with four bytes are in the order BGRX."""
        self.track: Final = track
        self.number: Final = next(_numbers)
        """Grows with every look, across all targets."""
        self.at: Final = now
        self.size = pixels.size
        self._pixels = pixels
        # All waits on a target request the same encodings.
        self._encodings: dict[object, bytes] = {}

    @cached_property
    def sight(self) -> Thumbnail:
        """Thumbnail for comparison with other looks."""
        return Thumbnail(self._pixels)

    @property
    def image(self) -> Image.Image:
        """The pixels as RGB; not cached, because they are large."""
        return _to_rgb(self._pixels)

    def png(self) -> bytes:
        """Return it losslessly."""
        if "png" not in self._encodings:
            held = io.BytesIO()
            self.image.save(held, "PNG", compress_level=1)
            self._encodings["png"] = held.getvalue()
        return self._encodings["png"]

    def jpeg(self, longest: int) -> bytes:
        """Return it with sides of at most `longest` pixels."""
        if longest not in self._encodings:
            self._encodings[longest] = encode_jpeg(_to_rgb(shrink_image(self._pixels, longest)))
        return self._encodings[longest]

    def crop(self, box: tuple[int, int, int, int]) -> bytes:
        """Return a part at original size; the box is left, top, right, bottom in pixels."""
        if box not in self._encodings:
            self._encodings[box] = encode_jpeg(_to_rgb(self._pixels.crop(box)))
        return self._encodings[box]


def to_look(picture: Picture, track: LookHistory | None, now: float) -> Look:
    """Return the look of a picture.

    Args:
        picture: The frame's picture.
        track: The history of earlier looks; None: there are none.
        now: Time of the look, in monotonic seconds.
    """
    if isinstance(picture, Look):
        return picture
    pixels = Image.open(io.BytesIO(picture.png())).convert("RGB")
    return (track or LookHistory()).add_look(now, pixels)


def _to_rgb(pixels: Image.Image) -> Image.Image:
    """Return the pixels as three bytes: red, green, blue."""
    if pixels.mode == "RGB":
        return pixels
    data = pixels.tobytes()
    return Image.frombuffer("RGB", pixels.size, data, "raw", "BGRX", 0, 1)


def shrink_image(image: Image.Image, longest: int) -> Image.Image:
    """Return an image with sides of at most `longest` pixels."""
    scale = longest / max(image.size)
    if scale >= 1:
        return image
    width, height = (max(1, round(side * scale)) for side in image.size)
    return image.resize((width, height), Image.Resampling.BOX)  # pyright: ignore[reportUnknownMemberType]


def encode_jpeg(image: Image.Image) -> bytes:
    """Return an image as JPEG."""
    held = io.BytesIO()
    # No colour subsampling, because letters often differ from their background only in colour.
    image.save(held, "JPEG", quality=QUALITY, subsampling=0)
    return held.getvalue()
