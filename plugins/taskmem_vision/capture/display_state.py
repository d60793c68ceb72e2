"""Values and errors of a display."""

from __future__ import annotations

from typing import Final, NamedTuple

HIDDEN: Final = "The window is minimised or on another desktop; it cannot be seen."

Box = tuple[int, int, int, int]
"""Left, top, width, height, in screen pixels."""


class DisplayGone(Exception):
    """The display does not answer, or no longer; the message says which."""


class NotViewable(Exception):
    """The window exists but has no pixels; the message says why."""


class DisplayEvents(NamedTuple):
    """What happened on a display since the last call."""

    painted: bool = False
    """Whether anything was painted."""
    changed: bool = False
    """Whether a title, a position, or the list of windows changed."""
    closed: frozenset[int] = frozenset()
    """Windows that were closed."""
