"""Detect jumps of the wall clock, and time in which the process did not run.

If the wall clock moved by more than the monotonic clock, the machine was suspended or the clock was
set. If a sleep took too long by both clocks, the process was stopped.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

_TOLERANCE: Final = 5.0
"""Largest difference in seconds that counts as drift."""
BUSY_SECONDS: Final = 1.0
"""Seconds by which a sleep may end late only because the machine is busy."""


class ClockReading(NamedTuple):
    """The wall clock and the monotonic clock, read together."""

    wall: datetime
    monotonic: float


def measure_jump(before: ClockReading, after: ClockReading) -> float:
    """Return by how many seconds the wall clock jumped; negative: back; 0: not at all."""
    passed = after.monotonic - before.monotonic
    difference = (after.wall - before.wall).total_seconds() - passed
    return difference if abs(difference) > _TOLERANCE else 0.0


def measure_oversleep(seconds: float, took: float) -> float:
    """Return by how many seconds a sleep took too long; 0: no longer than on a busy machine."""
    late = took - seconds
    return late if late > BUSY_SECONDS else 0.0


def compute_grace(lost: float, threshold: float) -> float:
    """Return for how many seconds silence does not count after `lost` seconds were lost.

    While the machine slept or the process was stopped, no agent could be heard. Each gets the lost
    time back, up to one threshold (of stuck tasks) or one lease (of runs).
    """
    return min(max(0.0, lost), threshold)
