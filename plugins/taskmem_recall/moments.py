"""Define what a screen showed at an instant, and which moments form a segment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

GAP: Final = timedelta(minutes=2)
"""Longest time between two moments of a segment."""
LONGEST: Final = timedelta(minutes=30)
"""Longest time from the first moment of a segment to its last."""
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a screen showed from an instant on."""

    at: datetime
    """Aware."""
    window_title: str
    application: str
    page: str | None = None
    """Title of the page; None: the window is no browser's."""
    text: str = ""
    """Everything that was read on the picture."""
    new_text: str = ""
    """Lines that the moment before of the same window did not have."""
    display: str = ""
    picture: str | None = None
    """Path in the folder of recordings; None: no picture was kept. Set by the store."""
    id: int = 0
    """Greater than those of all moments that were recorded before. Set by the store."""
    segment: int = 0
    """Id of the moment with which its segment began, see `choose_segment`. Set by the store."""
    place_ms: int = 0
    """Time since its segment began, not below that of the moment before. Set by the store."""


@dataclass(frozen=True, slots=True)
class ScoredMoment:
    """A moment that matches a search."""

    moment: Moment
    score: float
    """BM25 with the weights of the columns: greater is better, above 0."""


def choose_segment(last: Moment | None, at: datetime) -> tuple[int | None, int]:
    """Return the segment of a moment and its place there in milliseconds; None: it begins one.

    A segment is what one application showed without a gap of more than `GAP`, and is `LONGEST` at
    most. Where the clock was set back, time stands still in a segment, or another begins.

    Args:
        last: The moment before of the same application and display; None: there is none.
        at: When the moment is recorded.
    """
    if last is None or abs(at - last.at) > GAP:
        return None, 0
    place = last.place_ms + max(0, round((at - last.at) / _MILLISECOND))
    return (last.segment, place) if place <= LONGEST // _MILLISECOND else (None, 0)
