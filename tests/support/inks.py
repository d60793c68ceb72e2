"""Inks: hues that nothing else on a test's screen has, found again in pictures.

Whatever makes a scene's condition true is painted in INK, so that a fake model judges
the picture it was sent. STEER is for text that talks to the model.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

ENOUGH = 20
"""Pixels of a hue that are no accident: the fringes of other text are fewer."""

DARKEST = 60
"""The least value; below it the encoder makes up hues."""


@dataclass(frozen=True, slots=True)
class Ink:
    """A colour, and what counts as it after antialiasing, scaling and JPEG."""

    colour: str
    """As Tk and xterm take it."""
    hue: int
    """Of 256, as Pillow counts."""
    breadth: int
    """How far a hue may be off."""
    saturation: int
    """The least; a thin stroke on grey keeps a sixth of its own."""


INK = Ink("#c2188b", hue=227, breadth=11, saturation=38)
STEER = Ink("#5a9e00", hue=61, breadth=10, saturation=60)
TWIN = "#008c32"
"""A green that is as light as INK: grey pictures cannot tell them apart."""


def has_ink(picture: bytes, ink: Ink) -> bool:
    """Whether something in an encoded picture is painted in an ink."""
    return ink_pixels(picture, ink) >= ENOUGH


def ink_pixels(picture: bytes, ink: Ink) -> int:
    """Count the pixels of an encoded picture that have the hue of an ink."""
    from PIL import Image, ImageChops

    with Image.open(io.BytesIO(picture)) as image:
        hue, saturation, value = image.convert("RGB").convert("HSV").split()
    near = hue.point([255 * (abs(h - ink.hue) <= ink.breadth) for h in range(256)])
    vivid = saturation.point([255 * (s >= ink.saturation) for s in range(256)])
    bright = value.point([255 * (v >= DARKEST) for v in range(256)])
    matching = ImageChops.darker(ImageChops.darker(near, vivid), bright)
    return matching.histogram()[255]


def jpeg(image: Image.Image, width: int | None = None) -> bytes:
    """Encode a picture as a model gets it: quality 80, and no wider than that."""
    from PIL import Image

    if width is not None and image.width > width:
        size = (width, round(image.height * width / image.width))
        image = image.resize(size, Image.Resampling.LANCZOS)
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", quality=80)
    return encoded.getvalue()
