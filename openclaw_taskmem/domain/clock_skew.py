"""Jumps of the wall clock, told from time that passed, and time in which nothing ran.

A suspended machine and a clock that is set look alike: the wall moved by more
than the monotonic clock did. Of a process that was stopped, both went on.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

TOLERANCE: Final = 5.0
"""Seconds of difference that are drift, and no jump."""
BUSY: Final = 1.0
"""Seconds by which a sleep ends too late on a machine that is only busy."""


class ClockReading(NamedTuple):
    """Both clocks, read together."""

    wall: datetime
    monotonic: float


def measure_jump(before: ClockReading, after: ClockReading) -> float:
    """Return by how many seconds the wall jumped; 0: not at all."""
    passed = after.monotonic - before.monotonic
    difference = (after.wall - before.wall).total_seconds() - passed
    return difference if abs(difference) > TOLERANCE else 0.0


def measure_oversleep(seconds: float, took: float) -> float:
    """Return by how many seconds a sleep took too long; 0: a machine was busy."""
    late = took - seconds
    return late if late > BUSY else 0.0


def compute_grace(lost: float, threshold: float) -> float:
    """Return for how many seconds nobody's silence counts after some were lost.

    Nobody was silent while the machine slept, or the process was stopped and heard
    nobody: each agent gets the time it would have had, at most one threshold (of stuck
    tasks), or one lease (of runs).
    """
    return min(max(0.0, lost), threshold)
