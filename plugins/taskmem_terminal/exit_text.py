"""How a command ended, in words."""

from __future__ import annotations

import contextlib
import signal


def describe_end(what: str, status: int | None) -> str:
    """Return a sentence that says how something ended.

    Args:
        what: Its subject.
        status: Of the command; minus the signal's number when one ended it. None:
            unknown.
    """
    if status is None:
        return f"{what} ended."
    if status >= 0:
        return f"{what} ended with status {status}."
    with contextlib.suppress(ValueError):
        return f"{what} was ended by {signal.Signals(-status).name}."
    return f"{what} was ended by signal {-status}."
