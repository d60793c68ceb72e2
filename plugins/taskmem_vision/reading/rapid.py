"""OCR by the Python package rapidocr, for machines without tesseract.

It takes a gigabyte of memory and several seconds for a full screen; its models are included.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Final, cast

from taskmem_hookspecs import JudgeUnavailable
from taskmem_vision.reading.page import OcrPage, Word, arrange_words

_PACKAGES: Final = ("rapidocr", "onnxruntime")

Box = Sequence[Sequence[float]]
"""The four corners of a text: x and y, in pixels."""


class RapidOcr:
    """Runs rapidocr in a thread; one instance for each process, one picture at a time."""

    def __init__(self) -> None:
        """Import nothing yet, because that takes seconds."""
        self.cpu_seconds = 0.0
        """Time on a processor of all threads of this process while it read: its own are unknown."""
        self._turn = asyncio.Lock()
        self._engine: Callable[[bytes], Any] | None = None

    @classmethod
    def find(cls) -> RapidOcr | None:
        """Return the engine; None: rapidocr or onnxruntime is not installed."""
        return cls() if all(map(_is_installed, _PACKAGES)) else None

    async def read(self, picture: bytes, *, numbers: bool = False) -> OcrPage:
        """Return the text of a PNG or JPEG; empty if it shows none.

        Raises:
            JudgeUnavailable: The engine cannot be loaded, or cannot read the picture.
        """
        del numbers  # it reads each phrase by itself
        return arrange_words(await self.find_words(picture))

    async def find_words(
        self, picture: bytes, whole: tuple[int, int] | None = None
    ) -> tuple[Word, ...]:
        """Return the words of a PNG or JPEG with their boxes, in its own pixels.

        `whole` does not matter: it chooses a picture's scale by itself.

        Raises:
            JudgeUnavailable: As for `read`.
        """
        del whole
        async with self._turn:
            return await asyncio.to_thread(self._find_words, picture)

    def _find_words(self, picture: bytes) -> tuple[Word, ...]:
        before = time.process_time()
        try:
            if self._engine is None:
                module = cast("Any", importlib.import_module("rapidocr"))
                self._engine = cast("Callable[[bytes], Any]", module.RapidOCR())
            found = self._engine(picture)
            texts: Sequence[str] = [] if found.txts is None else list(found.txts)
            boxes: Sequence[Box] = [] if found.boxes is None else list(found.boxes)
            scores: Sequence[float] = [] if found.scores is None else [*found.scores]
            return tuple(map(_make_word, texts, boxes, scores))
        # Any error of this third-party package must not end the wait.
        except Exception as error:
            raise JudgeUnavailable(
                f"rapidocr could not read the picture ({type(error).__name__}); "
                "install it anew, or install tesseract."
            ) from error
        finally:
            self.cpu_seconds += time.process_time() - before


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # a module that says nothing of where it is from
        return False


def _make_word(text: str, box: Box, score: float) -> Word:
    across, down = [x for x, _ in box], [y for _, y in box]
    return Word(text, min(across), max(across), min(down), max(down), score)
