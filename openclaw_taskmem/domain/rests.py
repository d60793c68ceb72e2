"""Rests that plug-ins ask for, as far as they can be kept."""

from __future__ import annotations

import sys


def asked_for(error: BaseException) -> float | None:
    """Return for how many seconds an error asks to be left alone; None: it does not.

    What is no finite number from 0 on is no answer: no rest ends that is for ever.
    """
    seconds: object = getattr(error, "retry_seconds", None)
    if isinstance(seconds, int | float) and 0 <= seconds <= sys.float_info.max:
        return float(seconds)
    return None
