"""Decide how long to rest after failures, for wakes and readers."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Final

_LONGEST_ASKED: Final = 60.0
"""Seconds at which the rests stop to grow where the other side expects to work again soon."""


def read_retry_after(error: BaseException) -> float | None:
    """Return the seconds after which an error asks to retry; None: it does not ask.

    Negative, infinite and NaN values are ignored.
    """
    seconds: object = getattr(error, "retry_seconds", None)
    if isinstance(seconds, int | float) and 0 <= seconds <= sys.float_info.max:
        return float(seconds)
    return None


def compute_backoff(
    attempts: int, first: float, longest: float, asked: float | None = None
) -> timedelta:
    """Return how long to rest after so many failed attempts; the rest doubles each time.

    Args:
        attempts: Failed attempts so far.
        first: Rest after the first, in seconds.
        longest: Longest rest, in seconds.
        asked: Rest that the other side asked for, in seconds: no shorter one is taken, and the
            doubling ends at `LONGEST_ASKED`; None: it asked for none.
    """
    doublings = max(0, min(attempts - 1, 30))
    seconds = first * 2**doublings
    if asked is not None:
        seconds = max(asked, min(seconds, _LONGEST_ASKED))
    return timedelta(seconds=min(seconds, longest))


def is_worth_logging(attempts: int) -> bool:
    """True for the 1st, 2nd, 4th, 8th … failed attempt, so that the log stays short."""
    return attempts & (attempts - 1) == 0
