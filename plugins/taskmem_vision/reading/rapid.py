"""An OCR engine that is a Python package, for machines without tesseract.

It takes a gigabyte of memory and several seconds for a full screen; its models come
with it.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Final, cast

from taskmem_hookspecs import JudgeUnavailable

_PACKAGES: Final = ("rapidocr", "onnxruntime")
_SAME_LINE: Final = 0.5
"""Boxes whose middles are nearer than this part of their height are on one line."""

Box = Sequence[Sequence[float]]
"""The four corners of a text: x and y, in pixels."""


class RapidOcr:
    """Runs rapidocr in a thread; one process has one object, and reads in turn."""

    name = "rapidocr"

    def __init__(self) -> None:
        """Import nothing yet: that takes seconds."""
        self._turn = asyncio.Lock()
        self._engine: Callable[[bytes], Any] | None = None

    @classmethod
    def find(cls) -> RapidOcr | None:
        """Return it where rapidocr and onnxruntime are; None: they are not."""
        return cls() if all(map(_installed, _PACKAGES)) else None

    async def read(self, picture: bytes) -> str:
        """Return the text of a PNG or JPEG, in lines; an empty one: it shows none.

        Raises:
            JudgeUnavailable: It cannot be loaded, or does not read the picture.
        """
        async with self._turn:
            return await asyncio.to_thread(self._read, picture)

    def _read(self, picture: bytes) -> str:
        try:
            if self._engine is None:
                module = cast("Any", importlib.import_module("rapidocr"))
                self._engine = cast("Callable[[bytes], Any]", module.RapidOCR())
            found = self._engine(picture)
            texts: Sequence[str] = [] if found.txts is None else list(found.txts)
            boxes: Sequence[Box] = [] if found.boxes is None else list(found.boxes)
            return "\n".join(_lines(texts, boxes))
        # Whatever a package of another hand raises, the wait goes on.
        except Exception as error:
            raise JudgeUnavailable(
                f"rapidocr could not read the picture ({type(error).__name__}); "
                "install it anew, or install tesseract."
            ) from error


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # a module that says nothing of where it is from
        return False


def _lines(texts: Sequence[str], boxes: Sequence[Box]) -> list[str]:
    """Return lines from left to right, of texts that stand side by side."""
    placed: list[tuple[float, float, float, str]] = []
    for text, box in zip(texts, boxes, strict=True):
        top, bottom = min(y for _, y in box), max(y for _, y in box)
        left = min(x for x, _ in box)
        placed.append(((top + bottom) / 2, bottom - top, left, text))
    rows: list[list[tuple[float, float, float, str]]] = []
    for each in sorted(placed):
        middle, height = each[:2]
        if rows and middle - rows[-1][0][0] < _SAME_LINE * height:
            rows[-1].append(each)
        else:
            rows.append([each])
    return [
        " ".join(text for _, _, _, text in sorted(row, key=lambda each: each[2]))
        for row in rows
    ]
