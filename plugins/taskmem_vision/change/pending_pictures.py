"""Collect the pictures of a target that a judge has not judged yet.

A judge takes looks while a judgement runs, so changes that come and go meanwhile are stored here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from taskmem_vision.change.motion import Block
from taskmem_vision.change.pictures import (
    TITLE,
    Look,
    LookHistory,
    Shot,
    Thumbnail,
    find_blocks_in_box,
    select_shots,
)
from taskmem_vision.change.question_policy import PictureQuestionReason, QuestionPolicy

JUDGEMENT_GAP: Final = 0.05
"""Time between two looks while a judgement runs. Seconds."""
LAST_SECONDS: Final = 3.0
"""Minimum time before a wait's timeout at which the last look is judged. Seconds."""
_SHOT_AGE: Final = 1.0
"""Age after which a shot no longer shows the current state. Seconds."""


def loop_time() -> float:
    """Return the event loop's time in seconds, which looks use."""
    return asyncio.get_running_loop().time()


def consume_exception(judging: asyncio.Task[Any]) -> None:
    """Mark a task's exception as retrieved, so that asyncio does not log it."""
    if not judging.cancelled():
        judging.exception()


class JudgementScheduler:
    """Decides what one judge is shown of one target, and when. Times are monotonic."""

    def __init__(self, *, lines: bool = False) -> None:
        """`lines`: show new parts with the whole of their lines."""
        self._lines = lines
        self.look: Look | None = None
        """The last look; None: there was none."""
        self.shown: Shot | None = None
        """The last shot that was judged without result; None: there was none."""
        self._track = LookHistory()
        self._gate = QuestionPolicy(self._track.rhythms)
        self._kept: list[Shot] = []
        self._judged: Thumbnail | None = None
        """The target as it was last judged as a whole, or is being judged."""
        self._judged_before: Thumbnail | None = None
        """The same before the current judgement."""
        self._judged_number: int | None = None
        """The last look judged as a whole without result; None: there was none."""

    def add_look(self, look: Look, now: float) -> None:
        """Add a look, with the motions since the previous one."""
        if look.track is not self._track:
            self._track, self._gate = look.track, QuestionPolicy(look.track.rhythms)
        elif self.look is not None:
            for motion in look.track.list_motions_since(self.look.number):
                self._gate.observe_motion(motion)
        self.look = look
        if focus := self._gate.take_ripe_blocks(now, self._find_unlike_blocks):
            for shot in self._kept:
                if shot.number == look.number:
                    focus |= shot.focus
            self._kept = select_shots(self._kept, Shot(look, focus, lines=self._lines))

    @property
    def has_new_look(self) -> bool:
        """True if the last look has not been judged as a whole."""
        return self.look is not None and self.look.number != self._judged_number

    def find_due_reason(self, now: float) -> PictureQuestionReason | None:
        """Return why to judge now; None: not due."""
        return self._gate.find_due_reason(now)

    def take_shots(
        self, now: float, reason: PictureQuestionReason, *, whole: bool = True
    ) -> list[Shot]:
        """Return the shots to judge now, oldest first, and mark them as being judged.

        Args:
            now: Time of the last look.
            reason: Why they are judged.
            whole: Whether the whole last shot is judged, not only what is new in it; then later
                news in the same look does not count.
        """
        shots, self._kept = self._kept, []
        look, last = self.look, shots[-1] if shots else None
        recent = reason in (PictureQuestionReason.NOVEL, PictureQuestionReason.SETTLE) and (
            last is not None and now - last.at <= _SHOT_AGE
        )
        if look is not None and not recent and (not last or last.number != look.number):
            shots = select_shots(shots, Shot(look, ()))
        self._judged_before = self._judged
        if shots and whole:
            self._judged = shots[-1].sight
        self._gate.record_question(now, reason)
        return shots

    def record_failure(self, shots: Iterable[Shot], again_at: float) -> None:
        """Put back shots that could not be judged; they are due again at `again_at`."""
        held, self._kept = [*shots, *self._kept], []
        for shot in held:
            self._kept = select_shots(self._kept, shot)
        self._judged = self._judged_before
        self._gate.record_failure(again_at)

    def record_no_result(
        self,
        shots: Sequence[Shot],
        now: float,
        again_seconds: float | None = None,
        *,
        whole: bool = True,
    ) -> None:
        """Record that the judgement did not decide the wait.

        Args:
            shots: What was judged.
            now: When the judgement ended.
            again_seconds: When to look again even if nothing changes; None: not needed.
            whole: Whether the whole last shot was judged.
        """
        if shots:
            self.shown = shots[-1]
            if whole:
                self._judged_number = shots[-1].number
        self._gate.record_no_result(now, again_seconds)

    def watch_region(self, part: tuple[float, float, float, float] | None) -> None:
        """Postpone what happens outside a part of the target.

        Args:
            part: Left, top, right, bottom, from 0 to 1; None: everything counts.
        """
        region = None
        if part is not None and self.look is not None:
            width, height = self.look.size
            left, top, right, bottom = part
            box = (left * width, top * height, right * width, bottom * height)
            region = find_blocks_in_box(box, self.look.size) or None
        self._gate.watch_region(region)

    def next_look_at(self, now: float) -> float | None:
        """Return when to look again even if nothing changes; None: not needed."""
        return self._gate.next_look_at(now) if self.look is not None else None

    def still_seconds(self, now: float) -> float:
        """Return for how long nothing has moved."""
        return now - self._track.moved_at

    def _find_unlike_blocks(self) -> frozenset[Block] | None:
        """Return where the last look differs from the last one judged whole; None: none was."""
        if self._judged is None or self.look is None:
            return None
        return self.look.sight.find_differences(self._judged) | {TITLE}
