"""Pictures made for tests, and the looks that they are."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from PIL import Image, ImageFont

from taskmem_hookspecs import Frame
from taskmem_vision.ocr import Tesseract
from taskmem_vision.pictures import Look, LookHistory
from tests.plugins.vision.frames import DAWN
from tests.support.required import do_without

SIZE = (640, 480)
GREY = (90, 90, 90)
FONT = "DejaVuSans.ttf"


def picture(*boxes, size=SIZE, ground=(240, 240, 240), ink=GREY):
    """Return a picture with boxes of left, top, width, height."""
    image = Image.new("RGB", size, ground)
    for left, top, width, height in boxes:
        image.paste(ink, (left, top, left + width, top + height))
    return image


def require_tesseract():
    """Return the real program, where it and its font are installed."""
    found = Tesseract.find()
    try:
        ImageFont.truetype(FONT, 11)
    except OSError:
        found = None
    if found is None:
        do_without("not installed: apt-get install tesseract-ocr fonts-dejavu-core")
    return found


class Easel:
    """A target that is painted in a test; its looks are told apart by one track."""

    def __init__(self, size=SIZE):
        self.size = size
        self.track = LookHistory()

    def look(self, now, *boxes, title=None) -> Look:
        return self.track.add_look(now, picture(*boxes, size=self.size), title)


class Room:
    """One wait on a target that is painted here; tests move its clock."""

    def __init__(self, size=SIZE):
        self.now = 100.0
        self.easel = Easel(size)
        self.painted = ()
        self.title = None
        self.judge = None

    def frame(self, **fields):
        given = {"seen_at": DAWN + timedelta(seconds=self.now), "place": "now", "text": self.title}
        if not {"gone", "picture"} & set(fields):
            look = self.easel.look(self.now, *self.painted, title=self.title)
            given["picture"] = look
        return Frame(**{**given, **fields})

    async def rule(self, **fields):
        ruling = await self.judge.rule(self.frame(**fields))
        await turn()
        return ruling


async def turn():
    """Let whatever is under way go on for a moment."""
    for _ in range(4):
        await asyncio.sleep(0)
