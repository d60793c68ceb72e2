"""Detect busy patches that come to rest. Pure.

A group of busy blocks has settled once all of it is still. If something covers a part of a video,
only that part stops: it has settled too, if its blocks stopped together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from taskmem_vision.change.motion import MARGIN, Block, Motion, MotionHistory, find_clusters

PART: Final = 6
TOGETHER: Final = 0.25
"""`PART` blocks that stop within this time are a part that stopped. Seconds."""
SURER: Final = 2.0
"""Multiple of its longest gap after which a block of a part counts as still."""


class SettlingDetector:
    """The busy blocks of a target that one wait has not been shown yet."""

    def __init__(self, rhythms: MotionHistory) -> None:
        """Set the target's motion history, which another object updates."""
        self._rhythms = rhythms
        self._busy: set[Block] = set()
        self._near: set[Block] = set()
        """Blocks near the busy ones: while they change, the group is not still."""

    def observe_motion(self, motion: Motion) -> None:
        """Add the blocks that changed."""
        self._busy |= motion.busy
        self._near |= motion.near

    def take_settled_groups(self, now: float) -> Iterator[frozenset[Block]]:
        """Yield the groups that have come to rest, each once."""
        blocks = frozenset(self._busy | self._near)
        still = frozenset(b for b in blocks if self._rhythms.settles_at(b) <= now)
        if still.isdisjoint(self._busy):
            return
        for group in find_clusters(blocks, MARGIN):
            if not group & self._busy:
                continue
            parts = [group] if group <= still else self._find_stopped_parts(group & still, now)
            for part in parts:
                self._busy -= part
                self._near -= part
                yield part

    def list_due_times(self, now: float) -> Iterator[float]:
        """Yield the times at which a block may have come to rest."""
        for block in self._busy | self._near:
            due = self._rhythms.settles_at(block)
            if due > now:
                yield due

    def _find_stopped_parts(
        self, still: frozenset[Block], now: float
    ) -> Iterator[frozenset[Block]]:
        """Yield the parts of a moving group that stopped together."""
        surely, changed_at = self._rhythms.settles_surely_at, self._rhythms.changed_at
        sure = frozenset(b for b in still & self._busy if surely(b, SURER) <= now)
        for part in find_clusters(sure, MARGIN):
            last = max(map(changed_at, part))
            stopped = frozenset(block for block in part if last - changed_at(block) <= TOGETHER)
            if len(stopped) >= PART:
                yield stopped
