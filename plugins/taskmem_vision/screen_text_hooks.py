"""Hook of the rule-based judge for screens and windows, which reads them locally."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from taskmem_hookspecs import ConditionUnclear, Judge, Reader, Target, hookimpl

if TYPE_CHECKING:
    from taskmem_hookspecs.conditions import Condition
    from taskmem_vision.ocr import OcrEngine


@hookimpl(trylast=True)
def wait_judge(target: Target, condition: Condition, reader: Reader | None) -> Judge | None:
    """Return the judge of a condition's forms by text, title and changes.

    Without an OCR engine it reads only titles, and a `reader` must judge the rest.

    Raises:
        ConditionUnclear: A form is impossible for the target.
    """
    if target.scheme not in ("screen", "window"):
        return None
    from taskmem_hookspecs.conditions import TextForm
    from taskmem_vision.screen_judge import ScreenJudge, explain_refusal, is_read

    for index, side in enumerate(condition.sides):
        for form in side.forms:
            if refusal := explain_refusal(target.scheme, form):
                sees = reader is not None and reader.sees_pictures
                reads_text = sees or _get_engine() is not None
                sentence = " ".join(refusal if reads_text else refusal[:1])
                raise ConditionUnclear(sentence, sides=(index,))
    if not condition.parsed_sides:
        return None
    forms = [form for side in condition.sides for form in side.forms]
    reads = any(map(is_read, forms))
    judge = ScreenJudge(condition, _get_engine() if reads else None)
    if any(isinstance(form, TextForm) and not is_read(form) for form in forms):
        judge.advice = "A text needs two letters or digits to be read surely: quote more of it."
    if reads and not judge.reads:
        judge.advice = (
            "Its text could be read by tesseract: install tesseract-ocr (or "
            "openclaw-taskmem[ocr]) and restart the daemon."
        )
    return judge


def find_unread(condition: Condition) -> tuple[int, ...]:
    """Return the sides that rules cannot decide on a screen or in a window.

    These are in plain English, or contain a text that nothing on this machine can read.
    """
    from taskmem_vision.screen_judge import can_decide

    reads = _get_engine() is not None
    sides = enumerate(condition.sides)
    return tuple(number for number, side in sides if not can_decide(side, reads=reads))


@cache
def _get_engine() -> OcrEngine | None:
    """Return the process's OCR engine; None: none is installed.

    Tesseract is preferred: it takes a tenth of the memory.
    """
    from taskmem_vision.ocr import RapidOcr, SharedOcr, Tesseract

    found = Tesseract.find() or RapidOcr.find()
    return SharedOcr(found) if found else None
