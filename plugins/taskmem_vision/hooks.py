"""Hooks of the vision plug-in: sensor, judges that ask a reader, and Gemini as a reader."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from taskmem_hookspecs import Condition, DoctorCheck, Judge, Reader, Sensor, Target, hookimpl

if TYPE_CHECKING:
    from taskmem_vision.picture_judge import QuestionBatcher
    from taskmem_vision.sensor import ScreenSensor


@hookimpl(trylast=True)
def wait_sensor(target: Target) -> Sensor | None:
    """Return the sensor for `screen` and `window:TITLE`."""
    return _get_screen_sensor() if target.scheme in ("screen", "window") else None


@hookimpl(trylast=True)
def wait_judge(target: Target, condition: Condition, reader: Reader | None) -> Judge | None:
    """Return the judge that asks a reader about the sides that rules cannot decide.

    These are the sides in plain English; on a screen or in a window, also text that nothing on this
    machine can read.
    """
    if reader is None or target.scheme not in ("pty", "screen", "window"):
        return None
    sides = condition.free
    if target.scheme != "pty":
        from taskmem_vision.screen_text_hooks import find_unread

        sides = find_unread(condition)
    if not sides:
        return None
    from taskmem_vision.text_judge import name_sides

    words = name_sides(condition, sides)
    if target.scheme == "pty":
        from taskmem_vision.text_judge import TerminalReaderJudge

        return TerminalReaderJudge(words, reader, sides=sides)
    if reader.sees_pictures:
        from taskmem_vision.picture_judge import PictureJudge

        return PictureJudge(words, _get_batcher(reader), sides=sides)
    return None


@hookimpl(trylast=True)
def reader() -> Reader:
    """Return Gemini, which is used if there is a key for it."""
    from taskmem_vision.gemini import Gemini

    return Gemini()


@hookimpl(trylast=True)
def health_checks() -> Sequence[DoctorCheck]:
    """Return the check of the display, and of what reads its text."""
    from taskmem_vision.doctor import ScreenCheck

    return [ScreenCheck()]


@cache
def _get_screen_sensor() -> ScreenSensor:
    """Return the process's sensor."""
    from taskmem_vision.sensor import ScreenSensor

    return ScreenSensor(os.environ)


_askers: WeakKeyDictionary[Reader, QuestionBatcher] = WeakKeyDictionary()


def _get_batcher(reader: Reader) -> QuestionBatcher:
    """Return the object that batches the questions to one reader."""
    from taskmem_vision.picture_judge import QuestionBatcher

    if reader not in _askers:
        _askers[reader] = QuestionBatcher(reader)
    return _askers[reader]
