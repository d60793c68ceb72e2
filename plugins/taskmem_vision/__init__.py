"""What watches screens and windows, and judges that ask a model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from taskmem_hookspecs import (
    ConditionUnclear,
    Judge,
    ModelUsage,
    Sensor,
    Target,
    hookimpl,
)

if TYPE_CHECKING:
    from taskmem_vision.capture.sensor import Screens
    from taskmem_vision.gemini.client import Gemini
    from taskmem_vision.judges.asker import Asker


@hookimpl(trylast=True)
def wait_sensor(target: Target) -> Sensor | None:
    """Watch `screen` and `window:TITLE`."""
    return _screens() if target.scheme in ("screen", "window") else None


@hookimpl(trylast=True)
def wait_judge(target: Target, wake_when: str) -> Judge | None:
    """Let Gemini read a terminal, or look at a screen, when there is a key for it.

    Raises:
        ConditionUnclear: There is none, or no question is allowed.
    """
    if target.scheme not in ("pty", "screen", "window"):
        return None
    from taskmem_vision.gemini.client import has_key

    if not has_key(os.environ):
        raise ConditionUnclear(
            "A model could judge it: set GEMINI_API_KEY (or GOOGLE_API_KEY) and "
            "restart the daemon."
        )
    from taskmem_vision.gemini.spending import VARIABLE, calls_per_day

    if calls_per_day(os.environ) == 0:
        raise ConditionUnclear(
            f"A model could judge it: set {VARIABLE} higher than 0 and restart the "
            "daemon."
        )
    if target.scheme == "pty":
        from taskmem_vision.judges.text_judge import GeminiTextJudge

        return GeminiTextJudge(wake_when, _gemini())
    from taskmem_vision.judges.picture_judge import PictureJudge

    return PictureJudge(wake_when, _asker())


@hookimpl(trylast=True)
def model_usage() -> Sequence[ModelUsage]:
    """Tell what Gemini was asked on this day, once it was asked at all."""
    from taskmem_vision.gemini.client import model_of
    from taskmem_vision.gemini.spending import calls_per_day, spending_of

    account = spending_of(os.environ)
    return account.usage(model_of(os.environ), calls_per_day(os.environ))


@cache
def _screens() -> Screens:
    """Return the one sensor of this process."""
    from taskmem_vision.capture.sensor import Screens

    return Screens(os.environ)


@cache
def _gemini() -> Gemini:
    """Return the one client of this process: its pauses and its usage are shared."""
    from taskmem_vision.gemini.client import Gemini

    return Gemini()


@cache
def _asker() -> Asker:
    """Return what puts the questions of this process together."""
    from taskmem_vision.judges.asker import Asker

    return Asker(_gemini())
