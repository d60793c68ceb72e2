"""Busy patches that come to rest. Pure.

A group of busy blocks has settled once all of it is still. When something lies down on
a video, only a part of it stops: that has settled, too, if it stopped together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from taskmem_vision.change.motion import MARGIN, Block, Motion, MotionHistory, find_clusters

PART: Final = 6
TOGETHER: Final = 0.25
"""So many blocks that stop within so many seconds are a part that stopped."""
SURER: Final = 2.0
"""How many of its longest gaps it takes to be sure of a part."""


class SettlingDetector:
    """The busy blocks of a target that one wait has not been told of yet."""

    def __init__(self, rhythms: MotionHistory) -> None:
        """Take the rhythms of the target, which somebody else keeps up to date."""
        self._rhythms = rhythms
        self._busy: set[Block] = set()
        self._near: set[Block] = set()
        """Blocks beside those: while they change, the group is not still."""

    def observe_motion(self, motion: Motion) -> None:
        """Take in what changed."""
        self._busy |= motion.busy
        self._near |= motion.near

    def take_settled_groups(self, now: float) -> Iterator[frozenset[Block]]:
        """Yield the groups that have come to rest, once each."""
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
        """Yield when something may have come to rest."""
        for block in self._busy | self._near:
            due = self._rhythms.settles_at(block)
            if due > now:
                yield due

    def _find_stopped_parts(
        self, still: frozenset[Block], now: float
    ) -> Iterator[frozenset[Block]]:
        """Yield what stopped together of a group that goes on."""
        surely, changed_at = self._rhythms.settles_surely_at, self._rhythms.changed_at
        sure = frozenset(b for b in still & self._busy if surely(b, SURER) <= now)
        for part in find_clusters(sure, MARGIN):
            last = max(map(changed_at, part))
            stopped = frozenset(block for block in part if last - changed_at(block) <= TOGETHER)
            if len(stopped) >= PART:
                yield stopped
