"""Pictures as looks: our own are looks already, those of other sensors become some."""

from __future__ import annotations

import io

from PIL import Image

from taskmem_hookspecs import Picture
from taskmem_vision.looking.look import Look, Track


def look_of(picture: Picture, track: Track | None, now: float) -> Look:
    """Return the look that a picture is.

    Args:
        picture: As a frame holds it.
        track: Where the looks before were put; None: there were none.
        now: When it was looked, in seconds that only grow.
    """
    if isinstance(picture, Look):
        return picture
    pixels = Image.open(io.BytesIO(picture.png())).convert("RGB")
    return (track or Track()).take(now, pixels)
