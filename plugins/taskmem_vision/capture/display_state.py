"""What a display tells of itself, and why it cannot be seen."""

from __future__ import annotations

from typing import Final, NamedTuple

HIDDEN: Final = "The window is minimised or on another desktop; it cannot be seen."

Box = tuple[int, int, int, int]
"""Left, top, width, height, in pixels of the screen."""


class DisplayGone(Exception):
    """It does not answer, or not any more; a sentence says which."""


class NotViewable(Exception):
    """The window is there without pixels; a sentence says why."""


class DisplayEvents(NamedTuple):
    """What has happened on a display since it was listened to last."""

    painted: bool = False
    """Whether anything was painted anew."""
    changed: bool = False
    """Whether a title, a place, or the list of windows is another."""
    closed: frozenset[int] = frozenset()
    """Windows that are gone."""
