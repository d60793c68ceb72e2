"""Decide when the screen shows something worth a picture. Pure: gets motions and times.

A change is worth one once it stands still. What keeps moving, such as a video, is worth one when it
comes to rest, and else one at ever longer intervals.
"""

from __future__ import annotations

from typing import Final

from taskmem_vision.change.idle_patches import SettlingDetector
from taskmem_vision.change.motion import Block, Motion, MotionHistory

STILL: Final = 0.7
"""How long a change must stand still. Seconds."""
NEAR_STILL: Final = 2.0
"""The same near something that moves, where text is typed or a bar grows. Seconds."""
PATIENCE: Final = 4.0
"""Maximum time that a change may move before a picture. Seconds."""
GAP: Final = 2.0
"""Minimum time between two pictures. Seconds."""
BEATS: Final = (60.0, 120.0, 240.0, 600.0)
"""Times after which a picture of what only moves is taken; the last one repeats. Seconds."""
LOOK_GAP: Final = 1.0
"""Time between two looks while something moves. Seconds."""
SOON_GAP: Final = 0.5
"""Time between two looks while a change is waited for to stand still. Seconds."""


class PictureChoice:
    """What has changed on one screen since the last picture."""

    def __init__(self, rhythms: MotionHistory) -> None:
        """Set the screen's motion history, which another object updates."""
        self._rhythms = rhythms
        self._settling = SettlingDetector(rhythms)
        self._front: object = None
        self._fresh: set[Block] = set()
        """Blocks with a change that no picture shows yet."""
        self._began = 0.0
        self._ripe_at: float | None = 0.0
        """When the change has stood still; None: nothing has changed."""
        self._moves = False
        """Whether anything has moved since the last picture, such as a video."""
        self._taken_at: float | None = None
        self._beats = 0

    def observe_front(self, now: float, front: object) -> None:
        """Record which window is in front, under which title; another one is a change."""
        if front != self._front:
            self._front = front
            self._record_change(now, STILL)

    def observe_motion(self, motion: Motion) -> None:
        """Record what changed between two looks."""
        if not motion:
            return
        if motion.anew:
            self._settling = SettlingDetector(self._rhythms)
            self._fresh.clear()
        self._settling.observe_motion(motion)
        self._moves = True
        self._fresh -= motion.busy
        if new := motion.sudden | motion.novel:
            self._fresh |= new
            self._record_change(motion.at, STILL)
        elif motion.near:
            self._fresh |= motion.near
            self._record_change(motion.at, NEAR_STILL)

    def is_due(self, now: float) -> bool:
        """Return whether to take a picture now."""
        for group in self._settling.take_settled_groups(now):
            self._fresh |= group
            self._record_change(now, 0.0)
        if self._taken_at is not None and now < self._taken_at + GAP:
            return False
        if self._ripe_at is not None and now >= min(self._ripe_at, self._began + PATIENCE):
            return True
        return self._moves and self._taken_at is not None and now >= self._taken_at + self._beat()

    def record_picture(self, now: float) -> None:
        """Record that the screen was looked at for a picture, kept or not."""
        only_moves = self._ripe_at is None
        self._beats = self._beats + 1 if only_moves else 0
        self._taken_at = now
        self._ripe_at = None
        self._moves = False
        self._fresh.clear()

    def next_look_at(self, now: float) -> float | None:
        """Return when to look again even if nothing is painted; None: not needed."""
        due = [*self._settling.list_due_times(now)]
        if self._ripe_at is not None:
            due.append(min(self._ripe_at, self._began + PATIENCE))
        elif self._moves and self._taken_at is not None:
            due.append(self._taken_at + self._beat())
        if not due:
            return None
        earliest = 0.0 if self._taken_at is None else self._taken_at + GAP
        return max(min(due), now, earliest)

    @property
    def look_gap(self) -> float:
        """Time that the next look must be away from this one. Seconds."""
        return LOOK_GAP if self._ripe_at is None else SOON_GAP

    def _record_change(self, now: float, still: float) -> None:
        if self._ripe_at is None:
            self._began = now
        self._ripe_at = max(now + still, 0.0 if self._ripe_at is None else self._ripe_at)

    def _beat(self) -> float:
        return BEATS[min(self._beats, len(BEATS) - 1)]
