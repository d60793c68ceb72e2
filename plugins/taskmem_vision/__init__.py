"""Judges that ask a model."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from taskmem_hookspecs import ConditionUnclear, Judge, Target, hookimpl

if TYPE_CHECKING:
    from taskmem_vision.gemini import Gemini


@hookimpl(trylast=True)
def wait_judge(target: Target, wake_when: str) -> Judge | None:
    """Let Gemini read a terminal, when there is a key for it.

    Raises:
        ConditionUnclear: There is none.
    """
    if target.scheme != "pty":
        return None
    from taskmem_vision.gemini import has_key

    if not has_key(os.environ):
        raise ConditionUnclear(
            "A model could judge it: set GEMINI_API_KEY (or GOOGLE_API_KEY) and "
            "restart the daemon."
        )
    from taskmem_vision.text_judge import GeminiTextJudge

    return GeminiTextJudge(wake_when, _gemini())


@cache
def _gemini() -> Gemini:
    """Return the one client of this process: its pauses and its usage are shared."""
    from taskmem_vision.gemini import Gemini

    return Gemini()
