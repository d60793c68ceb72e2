"""Failed tries: how long to rest after one, and which of many are logged."""

from __future__ import annotations

import sys
from datetime import timedelta


def read_retry_after(error: BaseException) -> float | None:
    """Return for how many seconds an error asks to be left alone; None: it does not.

    What is no finite number from 0 on is no answer: no rest ends that is for ever.
    """
    seconds: object = getattr(error, "retry_seconds", None)
    if isinstance(seconds, int | float) and 0 <= seconds <= sys.float_info.max:
        return float(seconds)
    return None


def compute_backoff(
    attempts: int, first: float, longest: float, asked: float | None = None
) -> timedelta:
    """Return how long to wait after that many failed tries: doubled each time.

    Args:
        attempts: How many there were.
        first: The rest after the first, in seconds.
        longest: The longest rest, likewise.
        asked: How long whoever failed asks to be left alone, which then counts
            instead; None: they do not say.
    """
    doublings = max(0, min(attempts - 1, 30))
    seconds = first * 2**doublings if asked is None else max(first, asked)
    return timedelta(seconds=min(seconds, longest))


def is_worth_logging(attempts: int) -> bool:
    """Whether a failed try is logged, so that thousands leave but a few entries.

    It is the first, or there are twice as many as when one was last logged.
    """
    return attempts & (attempts - 1) == 0
