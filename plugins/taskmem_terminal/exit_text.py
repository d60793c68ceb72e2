"""Describe in words how a command ended."""

from __future__ import annotations

import contextlib
import signal


def describe_end(what: str, status: int | None) -> str:
    """Return a sentence on how something ended.

    Args:
        what: The subject of the sentence.
        status: The exit status; the negative number of the signal that ended it; None: unknown.
    """
    if status is None:
        return f"{what} ended."
    if status >= 0:
        return f"{what} ended with status {status}."
    with contextlib.suppress(ValueError):
        return f"{what} was ended by {signal.Signals(-status).name}."
    return f"{what} was ended by signal {-status}."
