"""What of a target a judge has not judged yet: looks go in, shots come out.

Judges look at once and think beside, so what comes and goes meanwhile is kept here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from taskmem_vision.change.look import TITLE, Look, LookHistory
from taskmem_vision.change.motion import Block
from taskmem_vision.change.question_policy import PictureQuestionReason, QuestionPolicy
from taskmem_vision.change.stored_picture import Shot, select_shots
from taskmem_vision.change.thumbnail import Thumbnail, find_blocks_in_box

WATCHFUL: Final = 0.05
"""Seconds between two looks while a judgement is under way."""
LAST_SECONDS: Final = 3.0
"""How long before its timeout a wait is looked at last, at least."""
OLD: Final = 1.0
"""Seconds after which a shot no longer shows how things are now."""


def loop_time() -> float:
    """Return the time of the event loop that runs, in seconds: that of the looks."""
    return asyncio.get_running_loop().time()


def consume_exception(judging: asyncio.Task[Any]) -> None:
    """Keep asyncio from complaining of a failure that nobody was left to hear."""
    if not judging.cancelled():
        judging.exception()


class JudgementScheduler:
    """What one judge is to be shown of one target. Instants only grow."""

    def __init__(self, *, lines: bool = False) -> None:
        """Begin; `lines`: show what is new with the whole of its lines."""
        self._lines = lines
        self.look: Look | None = None
        """The last one; None: there was none."""
        self.shown: Shot | None = None
        """The last that was judged, and settled nothing; None: there was none."""
        self._track = LookHistory()
        self._gate = QuestionPolicy(self._track.rhythms)
        self._kept: list[Shot] = []
        self._judged: Thumbnail | None = None
        """How the target looked when all of it was judged last, or is being judged."""
        self._judged_before: Thumbnail | None = None
        """The same before what is being judged now."""
        self._judged_number: int | None = None
        """The last look of which all was judged, in vain; None: there was none."""

    def add_look(self, look: Look, now: float) -> None:
        """Take a look in, with what moved since the one before."""
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
        """Whether the last look is another than the last of which all was judged."""
        return self.look is not None and self.look.number != self._judged_number

    def find_due_reason(self, now: float) -> PictureQuestionReason | None:
        """Return why to judge now; None: there is no need."""
        return self._gate.find_due_reason(now)

    def take_shots(
        self, now: float, reason: PictureQuestionReason, *, whole: bool = True
    ) -> list[Shot]:
        """Return what is to be judged now, oldest first: it is being judged.

        Args:
            now: When it was looked last.
            reason: Why it is judged.
            whole: Whether all of the last shot is judged, and not only what is new in
                it: what comes later, on the same look, is then no news.
        """
        shots, self._kept = self._kept, []
        look, last = self.look, shots[-1] if shots else None
        recent = reason in (PictureQuestionReason.NOVEL, PictureQuestionReason.SETTLE) and (
            last is not None and now - last.at <= OLD
        )
        if look is not None and not recent and (not last or last.number != look.number):
            shots = select_shots(shots, Shot(look, ()))
        self._judged_before = self._judged
        if shots and whole:
            self._judged = shots[-1].sight
        self._gate.record_question(now, reason)
        return shots

    def record_failure(self, shots: Iterable[Shot], again_at: float) -> None:
        """Take back what could not be judged; it is due again at an instant."""
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
        """Note that the judgement settled nothing.

        Args:
            shots: What was judged.
            now: When that was known.
            again_seconds: When another look is worth while although nothing changes;
                None: no need.
            whole: Whether all of the last shot was judged.
        """
        if shots:
            self.shown = shots[-1]
            if whole:
                self._judged_number = shots[-1].number
        self._gate.record_no_result(now, again_seconds)

    def watch_region(self, part: tuple[float, float, float, float] | None) -> None:
        """Let what happens elsewhere wait.

        Args:
            part: Left, top, right, bottom, from 0 to 1; None: all of it counts.
        """
        region = None
        if part is not None and self.look is not None:
            width, height = self.look.size
            left, top, right, bottom = part
            box = (left * width, top * height, right * width, bottom * height)
            region = find_blocks_in_box(box, self.look.size) or None
        self._gate.watch_region(region)

    def next_look_at(self, now: float) -> float | None:
        """Return when to look again although nothing changes; None: no need."""
        return self._gate.next_look_at(now) if self.look is not None else None

    def still_seconds(self, now: float) -> float:
        """Return for how long nothing has moved."""
        return now - self._track.moved_at

    def _find_unlike_blocks(self) -> frozenset[Block] | None:
        """Return where the last look differs from what was judged last, all of it."""
        if self._judged is None or self.look is None:
            return None
        return self.look.sight.find_differences(self._judged) | {TITLE}
