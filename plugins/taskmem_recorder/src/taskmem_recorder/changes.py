"""Decide when the screen shows something worth a picture. Pure: gets pixels and times.

A change is worth one once it stands still. What keeps moving, such as a video, is worth one when it
comes to rest, and else one at ever longer intervals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from PIL import Image, ImageChops

Block = tuple[int, int]
"""A square of the screen: column, row."""

BLOCK_SIDE: Final = 32
"""Side of a block. Pixels of the screen."""
_SHRINK: Final = 4
"""Ratio between the sides of the screen and of its thumbnail."""
_LEAST_DIFFERENCE: Final = 12
"""How much one colour of a small pixel must differ, of 255: noise of a pointer does not."""
_SMALL_SIDE: Final = BLOCK_SIDE // _SHRINK
_LEAST_MEAN: Final = 2 * 255 // (_SMALL_SIDE * _SMALL_SIDE)
"""Mean of a block with two small pixels that differ: letters of eight points change as many."""
_STEP: Final = [255 if level > _LEAST_DIFFERENCE else 0 for level in range(256)]

STILL_SECONDS: Final = 0.7
"""How long a change must stand still. Seconds."""
NEAR_STILL_SECONDS: Final = 2.0
"""How long a change must stand still near what moves, such as a growing bar. Seconds."""
MOST_PATIENCE: Final = 4.0
"""Maximum time that a change may move before a picture. Seconds."""
PICTURE_GAP: Final = 2.0
"""Minimum time between two pictures. Seconds."""
BEATS: Final = (60.0, 120.0, 240.0, 600.0)
"""Times after which a picture of what only moves is taken; the last one repeats. Seconds."""
_LOOK_GAP: Final = 1.0
"""Time between two looks while something moves. Seconds."""
_SOON_GAP: Final = 0.5
"""Time between two looks while a change is waited for to stand still. Seconds."""

_BUSY_CHANGES: Final = 3
_BUSY_SECONDS: Final = 8.0
"""A block is busy, such as a caret, a clock or a video, with so many changes within this time."""
_MARGIN: Final = 2
"""Distance from a busy block up to which blocks are near it. Blocks."""
_MOST_CHANGES: Final = 8
"""How many changes of a block are remembered."""
_LEAST_REST: Final = 0.5
"""How long a busy block must stand still at least to have come to rest. Seconds."""
_REST_GAPS: Final = 1.25
_SLOW_REST_GAPS: Final = 2.2
"""How long it must stand still, as a multiple of its longest gap between changes: a short one, or
one above `_SLOW_GAP`, since a tick of a clock may be too small to be detected."""
_SLOW_GAP: Final = 0.9
_LONGEST_GAP: Final = 2.0
"""Longer gaps are not part of a rhythm. Seconds."""


class ScreenThumbnail:
    """The screen reduced for comparison: a quarter of its width and height, in colour."""

    def __init__(self, pixels: Image.Image) -> None:
        """Reduce a picture with three or more channels; all pictures must have the same order."""
        self.size = pixels.size
        """Size of the picture: width, height."""
        self._small = pixels.reduce(_SHRINK)

    def find_differences(self, other: ScreenThumbnail) -> frozenset[Block]:
        """Return the blocks that differ; all blocks if the sizes differ."""
        columns, rows = -(-self.size[0] // BLOCK_SIDE), -(-self.size[1] // BLOCK_SIDE)
        if self.size != other.size:
            return frozenset((column, row) for column in range(columns) for row in range(rows))
        red, green, blue = ImageChops.difference(self._small, other._small).split()[:3]
        most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
        # Pad to whole blocks, so that a narrow block at the edge does not count more.
        whole = Image.new("L", (columns * _SMALL_SIDE, rows * _SMALL_SIDE))
        whole.paste(most.point(_STEP))  # pyright: ignore[reportUnknownMemberType]
        means = whole.reduce(_SMALL_SIDE).tobytes()
        return frozenset(
            (index % columns, index // columns)
            for index, mean in enumerate(means)
            if mean >= _LEAST_MEAN
        )

    def measure_change(self, other: ScreenThumbnail) -> float:
        """Return the part of the screen that differs, from 0 to 1."""
        blocks = -(-self.size[0] // BLOCK_SIDE) * -(-self.size[1] // BLOCK_SIDE)
        return len(self.find_differences(other)) / blocks


class PictureChoice:
    """The changes of one screen since the last picture."""

    def __init__(self) -> None:
        self._sight: ScreenThumbnail | None = None
        self._front: object = None
        self._times: dict[Block, deque[float]] = {}
        """When each block changed lately."""
        self._moving: frozenset[Block] = frozenset()
        """Busy blocks that have not come to rest, and those near them that changed."""
        self._began = 0.0
        self._ripe_at: float | None = 0.0
        """When the change has stood still; None: nothing has changed."""
        self._moves = False
        """True once anything has moved since the last picture, such as a video."""
        self._taken_at: float | None = None
        self._beats = 0

    def observe_front(self, now: float, front: object) -> None:
        """Record which window is in front, under which title; another one is a change."""
        if front != self._front:
            self._front = front
            self._note_change(now, STILL_SECONDS)

    def observe_sight(self, now: float, sight: ScreenThumbnail) -> None:
        """Record what the screen looks like now."""
        last = self._sight
        if last is None:
            self._sight = sight
            return
        if changed := sight.find_differences(last):
            self._sight = sight
            if sight.size != last.size:
                self._times.clear()
                self._moving = frozenset()
            self.observe_changes(now, changed)

    def observe_changes(self, now: float, changed: frozenset[Block]) -> None:
        """Record the blocks that differ from the look before."""
        if not changed:
            return
        self._moves = True
        for block in changed:
            self._times.setdefault(block, deque(maxlen=_MOST_CHANGES)).append(now)
        busy = frozenset(block for block in changed if self._is_busy(block, now))
        near = frozenset(block for block in changed - busy if self._is_near_busy(block, now))
        self._moving |= busy | near
        if changed - busy - near:
            self._note_change(now, STILL_SECONDS)
        elif near:
            self._note_change(now, NEAR_STILL_SECONDS)

    def is_due(self, now: float) -> bool:
        """Return whether to take a picture now."""
        for group in find_clusters(self._moving, _MARGIN):
            if all(self._rests_at(block) <= now for block in group):
                self._moving -= group
                self._note_change(now, 0.0)
        if self._taken_at is not None and now < self._taken_at + PICTURE_GAP:
            return False
        if self._ripe_at is not None and now >= min(self._ripe_at, self._began + MOST_PATIENCE):
            return True
        return self._moves and self._taken_at is not None and now >= self._taken_at + self._beat

    def record_picture(self, now: float) -> None:
        """Record that the screen was looked at for a picture, kept or not."""
        only_moves = self._ripe_at is None
        self._beats = self._beats + 1 if only_moves else 0
        self._taken_at = now
        self._ripe_at = None
        self._moves = False

    def next_look_at(self, now: float) -> float | None:
        """Return when to look again even if nothing is painted; None: not needed."""
        due = [rest for rest in map(self._rests_at, self._moving) if rest > now]
        if self._ripe_at is not None:
            due.append(min(self._ripe_at, self._began + MOST_PATIENCE))
        elif self._moves and self._taken_at is not None:
            due.append(self._taken_at + self._beat)
        if not due:
            return None
        earliest = 0.0 if self._taken_at is None else self._taken_at + PICTURE_GAP
        return max(min(due), now, earliest)

    @property
    def look_gap(self) -> float:
        """Time that the next look must be away from this one. Seconds."""
        return _LOOK_GAP if self._ripe_at is None else _SOON_GAP

    @property
    def _beat(self) -> float:
        return BEATS[min(self._beats, len(BEATS) - 1)]

    def _note_change(self, now: float, still: float) -> None:
        if self._ripe_at is None:
            self._began = now
        self._ripe_at = max(now + still, 0.0 if self._ripe_at is None else self._ripe_at)

    def _is_busy(self, block: Block, now: float) -> bool:
        times = self._times.get(block)
        if times is None or len(times) < _BUSY_CHANGES:
            return False
        return now - times[-_BUSY_CHANGES] <= _BUSY_SECONDS

    def _is_near_busy(self, block: Block, now: float) -> bool:
        return any(self._is_busy(other, now) for other in _list_around(block, _MARGIN))

    def _rests_at(self, block: Block) -> float:
        """Return when a block has come to rest if it does not change again."""
        times = self._times[block]
        gaps = (later - one for one, later in pairwise(times) if later - one <= _LONGEST_GAP)
        gap = max(gaps, default=0.0)
        multiple = _SLOW_REST_GAPS if gap > _SLOW_GAP else _REST_GAPS
        return times[-1] + max(_LEAST_REST, gap * multiple)


def find_clusters(blocks: frozenset[Block], reach: int) -> Sequence[frozenset[Block]]:
    """Return groups of blocks that are at most `reach` apart."""
    rest, groups = set(blocks), list[frozenset[Block]]()
    while rest:
        edge = [rest.pop()]
        group = set(edge)
        while edge:
            near = rest.intersection(_list_around(edge.pop(), reach))
            rest -= near
            group |= near
            edge += near
        groups.append(frozenset(group))
    return groups


def find_box_around(
    blocks: frozenset[Block], size: tuple[int, int], margin: int
) -> tuple[int, int, int, int]:
    """Return the box around blocks with a margin: left, top, right, bottom, in pixels."""
    columns = [column for column, _ in blocks]
    rows = [row for _, row in blocks]
    width, height = size
    return (
        max(0, min(columns) * BLOCK_SIDE - margin),
        max(0, min(rows) * BLOCK_SIDE - margin),
        min(width, (max(columns) + 1) * BLOCK_SIDE + margin),
        min(height, (max(rows) + 1) * BLOCK_SIDE + margin),
    )


def _list_around(block: Block, reach: int) -> Iterator[Block]:
    """Yield a block and the blocks up to `reach` away."""
    column, row = block
    for across in range(-reach, reach + 1):
        for down in range(-reach, reach + 1):
            yield column + across, row + down
