"""Jumps of the wall clock, told from time that passed.

A suspended machine and a clock that is set look alike: the wall moved by more
than the monotonic clock did.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

TOLERANCE: Final = 5.0
"""Seconds of difference that are drift, and no jump."""


class Reading(NamedTuple):
    """Both clocks, read together."""

    wall: datetime
    monotonic: float


def jump(before: Reading, after: Reading) -> float:
    """Return by how many seconds the wall jumped; 0: not at all."""
    passed = after.monotonic - before.monotonic
    difference = (after.wall - before.wall).total_seconds() - passed
    return difference if abs(difference) > TOLERANCE else 0.0


def hold(jumped: float, threshold: float) -> float:
    """Return for how many seconds nobody's silence counts after a jump.

    Nobody was silent while the machine slept: each agent gets the time it would
    have had, at most one threshold (of stuck tasks), or one lease (of runs).
    """
    return min(max(0.0, jumped), threshold)
