"""Share the reading of a picture among all waits."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from hashlib import blake2b
from typing import Final

from taskmem_vision.change.pending_pictures import consume_exception
from taskmem_vision.reading.ocr import OcrEngine
from taskmem_vision.reading.page import OcrPage

KEPT: Final = 16
"""How many readings are remembered."""


class SharedOcr:
    """`OcrEngine` that reads each picture once for all waits on a screen.

    A full screen takes seconds, and only one is read at a time.
    """

    def __init__(self, engine: OcrEngine) -> None:
        """Set the engine that reads."""
        self._engine = engine
        self._readings: OrderedDict[tuple[bytes, bool], asyncio.Task[OcrPage]] = OrderedDict()

    async def read(self, picture: bytes, *, numbers: bool = False) -> OcrPage:
        """Return the text of a picture; a failed reading is repeated on the next call.

        Raises:
            JudgeUnavailable: It could not be read.
        """
        key = (blake2b(picture, digest_size=16).digest(), numbers)
        reading = self._readings.get(key)
        if reading is None or (reading.done() and _has_failed(reading)):
            reading = asyncio.create_task(self._engine.read(picture, numbers=numbers))
            reading.add_done_callback(consume_exception)
            self._readings[key] = reading
        self._readings.move_to_end(key)
        while len(self._readings) > KEPT:
            self._readings.popitem(last=False)
        # Shielded: a cancelled caller does not cancel the others' reading.
        return await asyncio.shield(reading)


def _has_failed(reading: asyncio.Task[OcrPage]) -> bool:
    return reading.cancelled() or reading.exception() is not None
