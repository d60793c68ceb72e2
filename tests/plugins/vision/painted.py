"""Pictures made for tests, and the looks that they are."""

from __future__ import annotations

from PIL import Image

from taskmem_vision.looking.look import Look, Track

SIZE = (640, 480)
GREY = (90, 90, 90)


def picture(*boxes, size=SIZE, ground=(240, 240, 240), ink=GREY):
    """Return a picture with boxes of left, top, width, height."""
    image = Image.new("RGB", size, ground)
    for left, top, width, height in boxes:
        image.paste(ink, (left, top, left + width, top + height))
    return image


class Easel:
    """A target that is painted in a test; its looks are told apart by one track."""

    def __init__(self, size=SIZE):
        self.size = size
        self.track = Track()

    def look(self, now, *boxes, title=None) -> Look:
        return self.track.take(now, picture(*boxes, size=self.size), title)
