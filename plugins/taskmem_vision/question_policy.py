"""Decide which changes on a screen deserve a question. Pure: gets motions and times.

A picture is divided into blocks. Each change of a block is of one kind:

- *busy*: the block keeps changing, such as a caret, a clock, a spinner, a video;
- *sudden*: several adjacent blocks that were quiet for `BUSY_SECONDS` changed at once, wherever
  they are, such as a line, a label, a dialog;
- *near*: a busy block is at most `_MARGIN` blocks away: progress bars grow and typing continues
  there;
- *novel*: any other change.

A group of busy blocks has settled once all of it is still. If something covers a part of a video,
only that part stops: it has settled too, if its blocks stopped together.

A *novel* change is asked about once it stands still; so is a busy patch that has *settled*. After
each answer that decides nothing the patch rests, longer each time; what stands still there
meanwhile is stored and shown later. Everything else waits for a *beat*, which becomes rarer, and
for the last moment before the timeout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
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

        `anew`: the picture's size changed, which clears the history.
        """
        if anew:
            self._times.clear()
            self._settles.clear()
        if anew or self._began is None:
            self._began = now
        changed = frozenset(changed)
        quiet = frozenset(
            block
            for block in changed
            if block not in self._times or now - self._times[block][-1] > BUSY_SECONDS
        )
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

    def _is_busy(self, block: Block, now: float) -> bool:
        times = self._times.get(block)
        if times is None or len(times) < BUSY_CHANGES:
            return False
        return now - times[-BUSY_CHANGES] <= BUSY_SECONDS

    def _is_near_busy(self, block: Block, now: float) -> bool:
        return any(
            self._is_busy(other, now)
            for other in _list_blocks_around(block, _MARGIN)
            if other != block
        )


def _list_blocks_around(block: Block, reach: int) -> Iterator[Block]:
    """Yield a block and the blocks up to `reach` away."""
    column, row = block
    for dx in range(-reach, reach + 1):
        for dy in range(-reach, reach + 1):
            yield column + dx, row + dy


@lru_cache(_MOST_CACHED)
def _add_neighbours(blocks: frozenset[Block]) -> frozenset[Block]:
    """Return the blocks and their neighbours."""
    return frozenset(near for block in blocks for near in _list_blocks_around(block, 1))


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
            near = left.intersection(_list_blocks_around(edge.pop(), reach))
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


class _SettlingDetector:
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


# --- questions ----------------------------------------------------------------


STILL_SECONDS: Final = 0.25
"""How long a novel change must stand still before a question. Seconds."""
_MOST_PATIENCE: Final = 1.0
"""Maximum time that it may move before the question. Seconds."""
NEAR_STILL_SECONDS: Final = 2.0
"""How long a change near a busy block must stand still before a question. Seconds.

While it moves, it counts as part of the busy block: the front of a bar, text being typed.
"""
RECHECKS: Final = (5.3, 15.3, 60.3)
"""Times without change after which a patch is asked about again: it may have stalled. Seconds."""
BEATS: Final = (60.0, 120.0, 180.0)
"""Times after which any difference is asked about; the last one repeats. Seconds."""
RESTS: Final = (1.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""How long a patch rests after each answer that decides nothing. Seconds."""
_ASIDE_SECONDS: Final = 20.0
"""How long changes outside the watched region wait after a question. Seconds."""


class PictureQuestionReason(StrEnum):
    """Why a model is asked now."""

    FIRST = "first"
    NOVEL = "novel"
    SETTLE = "settle"
    RECHECK = "recheck"
    BEAT = "beat"
    RETRY = "retry"
    CONFIRM = "confirm"
    HINT = "hint"
    LAST = "last"


@dataclass(slots=True, eq=False)
class _Patch:
    """Adjacent blocks in which something happened."""

    blocks: set[Block]
    fresh: set[Block] = field(default_factory=set[Block])
    """Blocks with changes that are not stored yet."""
    began: float = 0.0
    """When these changes began."""
    moved: float = 0.0
    """When anything there last changed."""
    still: float = STILL_SECONDS
    settled: bool = False
    """True if it was busy and has come to rest."""
    ripe: bool = False
    """True if a change was stored and not asked about yet."""
    asked: int = 0
    """How many questions about it decided nothing."""
    rests_until: float = 0.0
    spared: bool = False
    """True if it got only a short rest after the last answer."""
    rechecks: list[float] = field(default_factory=list[float])

    def join(self, other: _Patch) -> None:
        """Merge another patch into this one."""
        if other.fresh:
            self.began = min(self.began, other.began) if self.fresh else other.began
            self.moved = max(self.moved, other.moved) if self.fresh else other.moved
            self.still = min(self.still, other.still) if self.fresh else other.still
            self.settled = other.settled and (self.settled or not self.fresh)
        self.blocks |= other.blocks
        self.fresh |= other.fresh
        self.ripe |= other.ripe
        self.asked = max(self.asked, other.asked)
        self.rests_until = max(self.rests_until, other.rests_until)

    def schedule_rechecks(self, now: float) -> None:
        """Schedule questions after it has stood still for longer."""
        since = (self.moved + seconds for seconds in RECHECKS)
        self.rechecks = [at for at in since if at > now]

    def compute_ripe_at(self, warm_at: float) -> float:
        """Return when its changes are worth storing."""
        if self.settled:
            return max(self.moved, warm_at)
        ripe = self.moved + self.still
        if self.still == STILL_SECONDS:
            ripe = min(ripe, self.began + _MOST_PATIENCE)
        return max(ripe, warm_at)


class QuestionPolicy:
    """The questions of one wait on one target."""

    def __init__(self, rhythms: MotionHistory) -> None:
        """Set the target's motion history, which another object updates."""
        self._rhythms = rhythms
        self._region: frozenset[Block] | None = None
        self._settling = _SettlingDetector(rhythms)
        self._patches: list[_Patch] = []
        self._differs = False
        """True if anything has changed since the last question."""
        self._asked_at: float | None = None
        self._beats = 0
        self._again_at: float | None = None
        """When the model wants another look; None: it did not say."""
        self._retry_at: float | None = None
        """When to repeat a question that failed; None: none failed."""
        self._about: list[_Patch] = []
        """The patches of the current question."""

    # --- what happens -------------------------------------------------------

    def observe_motion(self, motion: Motion) -> None:
        """Record what changed."""
        if not motion:
            return
        self._differs = True
        now = motion.at
        if motion.anew:
            # All positions have changed with the picture's size.
            self._settling = _SettlingDetector(self._rhythms)
            self._patches, self._about, self._region = [], [], None
        self._settling.observe_motion(motion)
        if motion.busy:
            self._discard_busy(motion.busy)
        for cluster in find_clusters(motion.sudden, 1):
            self._record_novelty(self._find_own_patch(cluster), cluster, now, STILL_SECONDS)
        for blocks, still in ((motion.novel, STILL_SECONDS), (motion.near, NEAR_STILL_SECONDS)):
            for cluster in find_clusters(blocks, 1):
                self._record_novelty(self._merge_patches(cluster), cluster, now, still)

    def take_ripe_blocks(
        self, now: float, unlike: Callable[[], frozenset[Block] | None]
    ) -> frozenset[Block]:
        """Return the changed blocks that stand still, each once; empty: none.

        `unlike` returns the blocks that differ between the last look, at `now`, and the last one
        asked about; None: nothing was asked yet. A block that went back to its old state is not
        new; if it has settled, it may have stalled and is rechecked.
        """
        self._collect_settled(now)
        warm_at = self._rhythms.warm_at
        ripe = [
            patch
            for patch in self._patches
            if patch.fresh and now >= patch.compute_ripe_at(warm_at)
        ]
        if not ripe:
            return frozenset()
        different = unlike()
        found: set[Block] = set()
        for patch in ripe:
            new = patch.fresh if different is None else patch.fresh & different
            if new:
                found |= new
                patch.ripe = True
            elif patch.settled:
                patch.schedule_rechecks(self._asked_at or now)
            patch.fresh = set()
        return frozenset(found)

    def find_due_reason(self, now: float) -> PictureQuestionReason | None:
        """Return why to ask now about what is stored; None: do not ask."""
        if self._asked_at is None:
            return PictureQuestionReason.FIRST
        if self._retry_at is not None:
            return PictureQuestionReason.RETRY if now >= self._retry_at else None
        for patch in self._patches:
            if patch.ripe and now >= self._compute_ask_at(patch):
                return (
                    PictureQuestionReason.SETTLE if patch.settled else PictureQuestionReason.NOVEL
                )
        if any(at <= now for at in self._list_recheck_times()):
            return PictureQuestionReason.RECHECK
        if self._differs and now >= self._asked_at + self._get_beat_seconds():
            return PictureQuestionReason.BEAT
        return None

    def record_question(self, now: float, reason: PictureQuestionReason) -> None:
        """Record that a model is asked, with everything stored and the last look."""
        self._asked_at = now
        self._retry_at = None
        self._differs = False
        self._beats += reason is PictureQuestionReason.BEAT
        if self._again_at is not None and self._again_at <= now:
            self._again_at = None
        self._about += [
            patch
            for patch in self._patches
            # It may have become ripe again after a failed question.
            if patch.ripe and patch not in self._about
        ]
        for patch in self._patches:
            patch.ripe = False
            patch.rechecks = [at for at in patch.rechecks if at > now]

    def record_no_result(self, now: float, again_seconds: float | None = None) -> None:
        """Record that the answer decided nothing: the patches asked about rest.

        `again_seconds`: when the model wants another look even if nothing changes; None: it did not
        say.
        """
        for patch in self._about:
            # A patch that changed during the question gets a short rest, but not twice in a row.
            patch.spared = patch.ripe and not patch.spared
            step = 0 if patch.spared else min(patch.asked, len(RESTS) - 1)
            patch.rests_until = now + RESTS[step]
            patch.asked += 1
            if patch.settled:
                # A recheck that fell due during the question is due at once.
                patch.schedule_rechecks(self._asked_at or now)
        self._about = []
        if again_seconds is not None:
            self._again_at = now + again_seconds

    def record_failure(self, again_at: float) -> None:
        """Record that there was no answer: the question is repeated at `again_at`."""
        self._retry_at = again_at

    def watch_region(self, region: frozenset[Block] | None) -> None:
        """Postpone what happens outside these blocks; None: all blocks count."""
        self._region = region

    # --- what follows -------------------------------------------------------

    def next_look_at(self, now: float) -> float | None:
        """Return when to look again even if nothing changes; None: not needed."""
        return max(min(due), now) if (due := [*self._list_due_times(now)]) else None

    def _list_due_times(self, now: float) -> Iterator[float]:
        if self._retry_at is not None:
            yield self._retry_at
            return
        for patch in self._patches:
            if patch.fresh:
                yield patch.compute_ripe_at(self._rhythms.warm_at)
            if patch.ripe:
                yield self._compute_ask_at(patch)
        yield from self._settling.list_due_times(now)
        yield from self._list_recheck_times()
        if self._differs and self._asked_at is not None:
            yield self._asked_at + self._get_beat_seconds()

    # --- how it is known ----------------------------------------------------

    def _list_recheck_times(self) -> Iterator[float]:
        if self._again_at is not None:
            yield self._again_at
        for patch in self._patches:
            yield from patch.rechecks

    def _compute_ask_at(self, patch: _Patch) -> float:
        """Return when a patch may be asked about."""
        aside = self._region is not None and not self._region & patch.blocks
        waits = (self._asked_at or 0.0) + _ASIDE_SECONDS if aside else 0.0
        return max(patch.rests_until, waits)

    def _record_novelty(
        self, patch: _Patch, cluster: frozenset[Block], now: float, still: float
    ) -> None:
        if not patch.fresh:
            patch.began, patch.still = now, still
        patch.fresh |= cluster
        patch.still = min(patch.still, still)
        patch.moved = now
        patch.settled = False
        patch.rechecks = []

    def _collect_settled(self, now: float) -> None:
        """Mark busy patches that have come to rest."""
        for rested in self._settling.take_settled_groups(now):
            patch = self._merge_patches(rested)
            patch.fresh |= rested
            patch.moved = max(map(self._rhythms.changed_at, patch.blocks))
            patch.settled = True

    def _discard_busy(self, busy: frozenset[Block]) -> None:
        """Drop changes in blocks that turn out to be busy."""
        calm = _add_neighbours(busy)
        for patch in self._patches:
            if not calm.isdisjoint(patch.blocks):
                patch.fresh -= calm
                patch.rechecks = []

    def _find_own_patch(self, cluster: frozenset[Block]) -> _Patch:
        """Return the patch that contains most of the blocks, or a new one."""
        for patch in self._patches:
            if len(cluster & patch.blocks) * 2 > len(cluster):
                patch.blocks |= cluster
                return patch
        self._patches.append(_Patch(set(cluster)))
        return self._patches[-1]

    def _merge_patches(self, cluster: frozenset[Block]) -> _Patch:
        """Return the patch next to the blocks; merge patches that they connect."""
        around = _add_neighbours(cluster)
        near = [patch for patch in self._patches if not around.isdisjoint(patch.blocks)]
        if not near:
            self._patches.append(_Patch(set(cluster)))
            return self._patches[-1]
        patch = near[0]
        patch.blocks |= cluster
        waiting = [each.rests_until for each in near if each.fresh or each.ripe]
        for other in near[1:]:
            patch.join(other)
            self._patches.remove(other)
            if other in self._about and patch not in self._about:
                self._about.append(patch)
        if waiting:
            # Changes in one patch do not wait for the rest of another.
            patch.rests_until = min(waiting)
        return patch

    def _get_beat_seconds(self) -> float:
        return BEATS[min(self._beats, len(BEATS) - 1)]
