"""Where a picture keeps changing. Pure, and shared by all who wait on one target.

A picture is cut into blocks. A block that keeps changing is *busy*: a caret, a clock,
a spinner, a video. What changes where nothing did is *novel*; what changes right beside
a busy block is *near*, for that is where a bar grows and where typing goes on. But
several quiet blocks at once are *sudden*, wherever they are: a line, a label, a dialog.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

Block = tuple[int, int]
"""A square of the picture: column, row."""

BUSY_CHANGES: Final = 3
BUSY_SECONDS: Final = 8.0
"""So many changes within that time make a block busy."""
MARGIN: Final = 2
"""Blocks around a busy one that are near it."""
SUDDEN: Final = 3
"""So many quiet blocks beside one another, changed at once, are sudden."""
SETTLED: Final = 0.5
SURE: Final = 1.25
"""A busy block has settled after so much time, or so many of its own longest gaps."""
SLOW: Final = 0.9
SKIPPED: Final = 2.2
"""So many gaps it takes when they are longer than so many seconds."""
LONGEST_GAP: Final = 2.0
"""Seconds; what is still for longer does not belong to a rhythm."""
REMEMBERED: Final = 64
"""Sets of blocks whose groups are remembered."""
KEPT: Final = 8
"""Changes of a block that are remembered."""
WARM_UP: Final = 3.2
"""How long it takes to see what is busy."""


class Motion(NamedTuple):
    """What changed between two looks."""

    at: float
    """Seconds that only grow."""
    sudden: frozenset[Block] = frozenset()
    novel: frozenset[Block] = frozenset()
    near: frozenset[Block] = frozenset()
    busy: frozenset[Block] = frozenset()
    anew: bool = False
    """Whether the picture has another size than before, and its blocks other places."""

    @property
    def blocks(self) -> frozenset[Block]:
        """All that changed."""
        return self.sudden | self.novel | self.near | self.busy

    def __bool__(self) -> bool:
        """Whether anything changed at all."""
        return bool(self.sudden or self.novel or self.near or self.busy)


class MotionHistory:
    """The blocks of one target, and when each changed last."""

    def __init__(self) -> None:
        self._times: dict[Block, deque[float]] = {}
        self._settles: dict[Block, float] = {}
        """When busy blocks have settled, as far as anybody asked since they changed."""
        self._began: float | None = None

    def record_changes(self, now: float, changed: Iterable[Block], *, anew: bool = False) -> Motion:
        """Take in which blocks differ from the look before, and tell them apart.

        Args:
            now: When it was looked.
            changed: The blocks.
            anew: Whether the picture has another size now; then all begins anew.
        """
        if anew:
            self._times.clear()
            self._settles.clear()
        if anew or self._began is None:
            self._began = now
        changed = frozenset(changed)
        quiet = frozenset(block for block in changed if self._is_quiet(block, now))
        for block in changed:
            times = self._times.setdefault(block, deque(maxlen=KEPT))
            times.append(now)
            self._settles.pop(block, None)
        busy = frozenset(block for block in changed if self._is_busy(block, now))
        groups = (group for group in find_clusters(quiet, 1) if len(group) >= SUDDEN)
        sudden = frozenset[Block]().union(*groups)
        calm = changed - busy - sudden
        near = frozenset(block for block in calm if self._is_near_busy(block, now))
        return Motion(now, sudden, calm - near, near, busy, anew)

    @property
    def warm_at(self) -> float:
        """When it is known what is busy."""
        return (self._began or 0.0) + WARM_UP

    def changed_at(self, block: Block) -> float:
        """Return when a block changed last; 0: never."""
        times = self._times.get(block)
        return times[-1] if times else 0.0

    def settles_at(self, block: Block) -> float:
        """Return when a busy block has settled, if it does not change any more."""
        # All who wait on the target ask this of every busy block at every look.
        settles = self._settles.get(block)
        if settles is None:
            settles = self._settles[block] = self.settles_surely_at(block, SURE)
        return settles

    def settles_surely_at(self, block: Block, sure: float) -> float:
        """Return the same where it takes so many of its longest gaps to be sure."""
        times = self._times.get(block)
        if times is None:
            return 0.0
        gaps = (b - a for a, b in pairwise(times) if b - a <= LONGEST_GAP)
        gap = max(gaps, default=0.0)
        # A tick of a clock is seldom too small to be seen, and then one is skipped.
        return times[-1] + max(SETTLED, gap * max(sure, SKIPPED if gap > SLOW else 0.0))

    def _is_quiet(self, block: Block, now: float) -> bool:
        times = self._times.get(block)
        return not times or now - times[-1] > BUSY_SECONDS

    def _is_busy(self, block: Block, now: float) -> bool:
        times = self._times.get(block)
        if times is None or len(times) < BUSY_CHANGES:
            return False
        return now - times[-BUSY_CHANGES] <= BUSY_SECONDS

    def _is_near_busy(self, block: Block, now: float) -> bool:
        return any(
            self._is_busy(other, now)
            for other in list_blocks_around(block, MARGIN)
            if other != block
        )


def list_blocks_around(block: Block, reach: int) -> Iterator[Block]:
    """Yield a block and those around it, so many blocks far."""
    column, row = block
    for dx in range(-reach, reach + 1):
        for dy in range(-reach, reach + 1):
            yield column + dx, row + dy


@lru_cache(REMEMBERED)
def add_neighbours(blocks: frozenset[Block]) -> frozenset[Block]:
    """Return blocks with those that touch them."""
    return frozenset(near for block in blocks for near in list_blocks_around(block, 1))


@lru_cache(REMEMBERED)
def find_clusters(blocks: frozenset[Block], reach: int) -> Sequence[frozenset[Block]]:
    """Return the groups of blocks that hang together, with gaps shorter than `reach`.

    All who wait on a target ask of the same blocks.
    """
    left, groups = set(blocks), list[frozenset[Block]]()
    while left:
        edge = [left.pop()]
        found = set(edge)
        while edge:
            near = left.intersection(list_blocks_around(edge.pop(), reach))
            left -= near
            found |= near
            edge += near
        groups.append(frozenset(found))
    return groups
