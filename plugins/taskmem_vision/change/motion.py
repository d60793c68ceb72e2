"""Classify the changes of a picture. Pure, and shared by all waits on a target.

A picture is divided into blocks. Each change of a block is of one kind:

- *busy*: the block keeps changing, such as a caret, a clock, a spinner, a video;
- *sudden*: several adjacent blocks that were quiet for `BUSY_SECONDS` changed at once, wherever
  they are, such as a line, a label, a dialog;
- *near*: a busy block is at most `_MARGIN` blocks away: progress bars grow and typing continues
  there;
- *novel*: any other change.

A group of busy blocks has settled once all of it is still. If something covers a part of a video,
only that part stops: it has settled too, if its blocks stopped together.
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
"""`BUSY_CHANGES` changes within this time make a block busy. Seconds."""
_MARGIN: Final = 2
"""Distance from a busy block up to which blocks are near. Blocks."""
SUDDEN_BLOCKS: Final = 3
"""How many adjacent quiet blocks must change at once to be sudden."""
SETTLED_SECONDS: Final = 0.5
SETTLED_GAPS: Final = 1.25
"""A busy block has settled after `SETTLED_SECONDS`, or `SETTLED_GAPS` times its longest gap between
changes, whichever is longer."""
SLOW_GAP: Final = 0.9
SKIPPED_GAPS: Final = 2.2
"""Multiple used instead for gaps longer than `SLOW_GAP` seconds."""
LONGEST_GAP: Final = 2.0
"""Longer gaps are not part of a rhythm. Seconds."""
_MOST_CACHED: Final = 64
"""Size of the caches of block groups."""
_MOST_CHANGES: Final = 8
"""How many changes of a block are remembered."""
WARM_UP: Final = 3.2
"""Time until busy blocks are known. Seconds."""


class Motion(NamedTuple):
    """Changes between two looks, by their kind."""

    at: float
    """Monotonic seconds."""
    sudden: frozenset[Block] = frozenset()
    novel: frozenset[Block] = frozenset()
    near: frozenset[Block] = frozenset()
    busy: frozenset[Block] = frozenset()
    anew: bool = False
    """True if the picture's size changed, which moves all blocks."""

    @property
    def blocks(self) -> frozenset[Block]:
        """All blocks that changed."""
        return self.sudden | self.novel | self.near | self.busy

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        return bool(self.sudden or self.novel or self.near or self.busy)


class MotionHistory:
    """The blocks of one target and their last changes."""

    def __init__(self) -> None:
        self._times: dict[Block, deque[float]] = {}
        self._settles: dict[Block, float] = {}
        """Cached settling times of busy blocks, until their next change."""
        self._began: float | None = None

    def record_changes(self, now: float, changed: Iterable[Block], *, anew: bool = False) -> Motion:
        """Record the blocks that differ from the previous look, and classify them.

        Args:
            now: Time of the look.
            changed: The blocks.
            anew: Whether the picture's size changed; this clears the history.
        """
        if anew:
            self._times.clear()
            self._settles.clear()
        if anew or self._began is None:
            self._began = now
        changed = frozenset(changed)
        quiet = frozenset(block for block in changed if self._is_quiet(block, now))
        for block in changed:
            times = self._times.setdefault(block, deque(maxlen=_MOST_CHANGES))
            times.append(now)
            self._settles.pop(block, None)
        busy = frozenset(block for block in changed if self._is_busy(block, now))
        groups = (group for group in find_clusters(quiet, 1) if len(group) >= SUDDEN_BLOCKS)
        sudden = frozenset[Block]().union(*groups)
        calm = changed - busy - sudden
        near = frozenset(block for block in calm if self._is_near_busy(block, now))
        return Motion(now, sudden, calm - near, near, busy, anew)

    @property
    def warm_at(self) -> float:
        """When busy blocks are known."""
        return (self._began or 0.0) + WARM_UP

    def changed_at(self, block: Block) -> float:
        """Return when a block last changed; 0: never."""
        times = self._times.get(block)
        return times[-1] if times else 0.0

    def settles_at(self, block: Block) -> float:
        """Return when a busy block has settled if it does not change again."""
        # Cached, because every wait asks this for every busy block at every look.
        settles = self._settles.get(block)
        if settles is None:
            settles = self._settles[block] = self.settles_surely_at(block, SETTLED_GAPS)
        return settles

    def settles_surely_at(self, block: Block, sure: float) -> float:
        """Return when a block has settled, with `sure` as the multiple of its longest gap."""
        times = self._times.get(block)
        if times is None:
            return 0.0
        gaps = (b - a for a, b in pairwise(times) if b - a <= LONGEST_GAP)
        gap = max(gaps, default=0.0)
        # A clock's tick is rarely too small to be detected; then one tick is skipped.
        return times[-1] + max(
            SETTLED_SECONDS, gap * max(sure, SKIPPED_GAPS if gap > SLOW_GAP else 0.0)
        )

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
            for other in list_blocks_around(block, _MARGIN)
            if other != block
        )


def list_blocks_around(block: Block, reach: int) -> Iterator[Block]:
    """Yield a block and the blocks up to `reach` away."""
    column, row = block
    for dx in range(-reach, reach + 1):
        for dy in range(-reach, reach + 1):
            yield column + dx, row + dy


@lru_cache(_MOST_CACHED)
def add_neighbours(blocks: frozenset[Block]) -> frozenset[Block]:
    """Return the blocks and their neighbours."""
    return frozenset(near for block in blocks for near in list_blocks_around(block, 1))


@lru_cache(_MOST_CACHED)
def find_clusters(blocks: frozenset[Block], reach: int) -> Sequence[frozenset[Block]]:
    """Return groups of blocks that are at most `reach` apart.

    Cached, because all waits on a target ask for the same blocks.
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


_PART_BLOCKS: Final = 6
_TOGETHER_SECONDS: Final = 0.25
"""`_PART_BLOCKS` blocks that stop within this time are a part that stopped. Seconds."""
_SURE_GAPS: Final = 2.0
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
        for group in find_clusters(blocks, _MARGIN):
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
        sure = frozenset(b for b in still & self._busy if surely(b, _SURE_GAPS) <= now)
        for part in find_clusters(sure, _MARGIN):
            last = max(map(changed_at, part))
            stopped = frozenset(
                block for block in part if last - changed_at(block) <= _TOGETHER_SECONDS
            )
            if len(stopped) >= _PART_BLOCKS:
                yield stopped
