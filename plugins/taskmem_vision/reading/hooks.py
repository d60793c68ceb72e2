"""A judge that reads screens and windows on this machine, where text can tell."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from taskmem_hookspecs import ConditionUnclear, Judge, Readiness, Target, hookimpl

if TYPE_CHECKING:
    from taskmem_vision.reading.ocr import Reader


@hookimpl(trylast=True)
def wait_judge(target: Target, wake_when: str) -> Judge | None:
    """Read the text of a screen or a window, for a condition that names it.

    Where Gemini may be asked, it looks at pictures, and this one reads only the title.

    Raises:
        ConditionUnclear: It names none, or nothing here can read it.
    """
    if target.scheme not in ("screen", "window"):
        return None
    from taskmem_vision.reading.phrases import parse

    wanted = parse(wake_when)
    if wanted is None:
        raise ConditionUnclear(
            'Its text could be read, if you quote it: shows "Download complete".'
        )
    from taskmem_vision.gemini.client import Gemini

    gemini = Gemini()
    asks_gemini = (
        gemini.status().readiness is Readiness.READY and gemini.calls_per_day != 0
    )
    reader = None if asks_gemini else _reader()
    if reader is None and wanted.reads_text:
        if not asks_gemini:
            raise ConditionUnclear(
                "Its text could be read by tesseract: install tesseract-ocr (or "
                "openclaw-taskmem[ocr]) and restart the daemon."
            )
        if target.scheme == "screen":
            return None
    from taskmem_vision.reading.judge import ScreenTextJudge

    return ScreenTextJudge(wanted, reader)


@cache
def _reader() -> Reader | None:
    """Return the one reader of this process, which reads in turn; None: there is none.

    Tesseract comes first: it takes a tenth of the memory.
    """
    from taskmem_vision.reading.ocr import Tesseract
    from taskmem_vision.reading.rapid import RapidReader
    from taskmem_vision.reading.shared import SharedReader

    found = Tesseract.find() or RapidReader.find()
    return SharedReader(found) if found else None
