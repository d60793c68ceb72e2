"""Judge by rules: read title and picture on this machine, and measure silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from taskmem_hookspecs import Frame, JudgeUnavailable, Met, Ruling
from taskmem_hookspecs.conditions import Condition, ExitForm, Form, QuietForm, Side, TextForm
from taskmem_vision.change.pending_pictures import (
    JUDGEMENT_GAP,
    LAST_SECONDS,
    JudgementScheduler,
    consume_exception,
    loop_time,
)
from taskmem_vision.change.pictures import Look, LookHistory, Shot, pick_telling_shot, to_look
from taskmem_vision.change.question_policy import PictureQuestionReason
from taskmem_vision.reading.matching import (
    NUMBER_FORMS,
    Finder,
    ScreenFacts,
    describe_forms,
    find_side,
    is_read,
)
from taskmem_vision.reading.ocr import OcrEngine, OcrPage, join_pages

RETRY_SECONDS: Final = 5.0
"""Delay before a picture that could not be read is read again. Seconds."""
SURE_SECONDS: Final = 1.0
"""Delay before another reading after a text was not found. Seconds.

It may have been misread. Reading again helps only if something moves: an unchanged picture is
misread in the same way.
"""
_MISSING_READINGS: Final = 2
"""Consecutive readings without a text after which it is gone."""

_NOTHING_READ: Final = "Nothing was read yet."


@dataclass(frozen=True, slots=True)
class _PendingReading:
    """A reading in progress."""

    task: asyncio.Task[OcrPage]
    shots: list[Shot]
    at: float
    """When its newest picture was taken, in monotonic seconds."""
    whole: bool
    """True if the whole target is read, not only its new parts."""


class ScreenJudge:
    """Judges one wait's condition by the content of its window or screen."""

    name = "rules"

    def __init__(
        self,
        condition: Condition,
        engine: OcrEngine | None,
        *,
        now: Callable[[], float] = loop_time,
    ) -> None:
        """Set the condition and the OCR engine.

        Args:
            condition: Its forms are possible for the target.
            engine: Reads pictures; None: only the title is read.
            now: The time, in the looks' monotonic seconds.

        Raises:
            BadPattern: A regular expression of the condition is invalid.
        """
        self.sides = tuple(
            index
            for index, side in enumerate(condition.sides)
            if can_decide(side, reads=engine is not None)
        )
        """The sides that it decides; for others it only knows when they hold."""
        self._condition = condition
        self._engine = engine
        self._now = now
        self._finder = Finder(condition)
        self._forms = [form for side in condition.sides for form in side.forms]
        # A part of the target cannot show that a text is gone, or that two texts are visible.
        self._needs_all = any(len(side.forms) > 1 for side in condition.sides) or any(
            isinstance(form, TextForm) and form.gone for form in self._forms
        )
        self.reads = engine is not None and any(map(is_read, self._forms))
        self.advice: str | None = None
        """Sentence on what would allow the judge to decide more; None: nothing."""
        self._attention = JudgementScheduler(lines=True)
        self._track: LookHistory | None = None
        """The looks at the target; None: there were none."""
        self._reading: _PendingReading | None = None
        self._title: str | None = None
        self._in_title: Mapping[Form, str] = {}
        self._in_text: Mapping[Form, str] | None = None
        """Result of the last reading; None: nothing was read yet."""
        self._read_at = float("-inf")
        """When the last picture that was read was taken."""
        self._missing: dict[Form, int] = {}
        """For texts seen before: the number of consecutive readings without them."""
        self._visible_since: float | None = None
        """Since when changes have been observed; None: the target is not visible."""
        self._trouble: str | None = None
        self._met: Ruling | None = None

    async def rule(self, frame: Frame) -> Ruling:
        """Add a look, start a reading if one is due, and return the ruling so far.

        A failed reading is reported in the ruling's observation, and repeated.
        """
        now = self._now()
        self._update_title(frame.text, now)
        if self._reading is not None and self._reading.task.done():
            self._process_reading(self._reading, now)
        look = self._observe_picture(frame, now) if frame.gone is None else None
        if self._met is None:
            self._decide(self._collect_facts(now))
        if self._met is None and frame.gone is not None:
            return await self._rule_on_end(frame)
        if self._met is not None:
            return self._met
        if look is None:
            return self._build_ruling(frame.note or "There is nothing to see here.", frame)
        if self._engine is not None and self.reads:
            self._start_reading(self._engine, look, frame.seconds_left, now)
        return self._build_ruling(self._describe_forms(now), frame)

    # --- looking and reading ------------------------------------------------

    def _update_title(self, title: str | None, now: float) -> None:
        if title == self._title:
            return
        self._title = title
        self._in_title = self._finder.find(OcrPage(title or "", title or ""), "title")
        if self._visible_since is not None:
            self._visible_since = now
        self._note_visible(self._in_title)

    def _observe_picture(self, frame: Frame, now: float) -> Look | None:
        """Add the frame's picture; None: it has none."""
        if frame.picture is None:
            self._visible_since = None
            return None
        if self._visible_since is None:
            self._visible_since = now
        look = to_look(frame.picture, self._track, now)
        self._track = look.track
        if self.reads:
            self._attention.add_look(look, now)
        return look

    def _start_reading(self, engine: OcrEngine, look: Look, left: float | None, now: float) -> None:
        if self._reading is not None:
            return
        ends = left is not None and left <= LAST_SECONDS and self._attention.has_new_look
        reason = PictureQuestionReason.LAST if ends else self._attention.find_due_reason(now)
        if reason is None:
            return
        whole = self._needs_all or reason not in (
            PictureQuestionReason.NOVEL,
            PictureQuestionReason.SETTLE,
        )
        shots = self._attention.take_shots(now, reason, whole=whole)
        newest = [shot for shot in shots if shot.number == look.number]
        whole = whole or not all(shot.detail for shot in newest)
        earlier = [shot for shot in shots if shot not in newest] if whole else shots
        # Earlier pictures show texts that came and went, but not what is gone now.
        read = [] if self._needs_all else [each.detail or each.png() for each in earlier]
        pieces = [*read, look.png()] if whole else read
        numbers = any(isinstance(form, NUMBER_FORMS) for form in self._forms)
        task = asyncio.create_task(_read_pieces(engine, pieces, numbers=numbers))
        task.add_done_callback(consume_exception)
        self._reading = _PendingReading(task, shots, look.at, whole)

    def _process_reading(self, reading: _PendingReading, now: float) -> None:
        """Record the result of a reading."""
        self._reading = None
        try:
            page = reading.task.result()
        except JudgeUnavailable as trouble:
            self._trouble = str(trouble)
            self._attention.record_failure(reading.shots, now + RETRY_SECONDS)
            return
        except Exception:
            self._attention.record_failure(reading.shots, now + RETRY_SECONDS)
            raise
        self._trouble = None
        self._in_text, self._read_at = self._finder.find(page), reading.at
        for form in self._missing:
            self._missing[form] += 1
        self._note_visible(self._in_title)
        self._note_visible(self._in_text)
        # New text counts even if it is gone again by now.
        shown = {**self._in_text, **self._in_title}
        self._decide(ScreenFacts(shown, self._gone_forms), pick_telling_shot(reading.shots))
        if self._met is None:
            unsure = any(0 < times < _MISSING_READINGS for times in self._missing.values())
            again = SURE_SECONDS if unsure else None
            self._attention.record_no_result(reading.shots, now, again, whole=reading.whole)

    def _note_visible(self, shown: Collection[Form]) -> None:
        """Record that texts are visible: only those can be gone later."""
        gone = (form for form in shown if isinstance(form, TextForm) and form.gone)
        self._missing.update(dict.fromkeys(gone, 0))

    # --- what is known ------------------------------------------------------

    @property
    def _gone_forms(self) -> frozenset[Form]:
        """Texts that were visible and missing in the last readings."""
        return frozenset(
            form for form, times in self._missing.items() if times >= _MISSING_READINGS
        )

    def _collect_facts(self, now: float) -> ScreenFacts:
        """Return the current facts about the target."""
        if self._track is None or self._visible_since is None:
            return ScreenFacts(self._in_title, self._gone_forms)
        moved_at = self._track.moved_at
        text = self._in_text if moved_at <= self._read_at else None
        quiet = now - max(moved_at, self._visible_since)
        return ScreenFacts({**(text or {}), **self._in_title}, self._gone_forms, quiet)

    def _decide(self, known: ScreenFacts, shot: Shot | None = None) -> None:
        side = find_side(self._condition, known)
        if side is not None:
            self._met = Ruling(met=Met.YES, observation=side, picture=shot)

    async def _rule_on_end(self, frame: Frame) -> Ruling:
        """Rule on a target that is gone, after a reading in progress has ended."""
        now = self._now()
        if self._reading is not None:
            await asyncio.wait((self._reading.task,))
            self._process_reading(self._reading, now)
        # A window that is gone with its display was not closed.
        if self._met is None and frame.text is not None:
            shown = {**(self._in_text or {}), **self._in_title}
            self._decide(ScreenFacts(shown, self._missing, closed=frame.gone))
        return self._met or Ruling(met=self._default_met, observation=self._describe_forms(now))

    @property
    def _default_met(self) -> Met:
        """The ruling if no known side holds."""
        every = len(self.sides) == len(self._condition.sides)
        return Met.NO if every and self._trouble is None else Met.UNSURE

    def _describe_forms(self, now: float) -> str:
        known = self._collect_facts(now)
        if not self.reads:
            return describe_forms(self._condition, known, "title")
        if self._in_text is None:
            return _NOTHING_READ
        shown = {**self._in_text, **self._in_title}
        return describe_forms(self._condition, known._replace(shown=shown))

    def _build_ruling(self, observation: str, frame: Frame) -> Ruling:
        trouble = f" It could not be read: {self._trouble}" if self._trouble else ""
        return Ruling(
            met=self._default_met,
            observation=f"{observation}{trouble}",
            look_again_seconds=self._compute_look_seconds(frame, self._now()),
        )

    def _compute_look_seconds(self, frame: Frame, now: float) -> float | None:
        if self._reading is not None:
            return JUDGEMENT_GAP
        seen = frame.picture is not None
        at = self._attention.next_look_at(now) if seen and self.reads else None
        due = [] if at is None else [at]
        if (quiet := self._collect_facts(now).quiet_seconds) is not None:
            due += [
                now + form.quiet - quiet
                for form in self._forms
                if isinstance(form, QuietForm) and form.quiet > quiet
            ]
        if frame.seconds_left is not None and frame.seconds_left > LAST_SECONDS:
            due.append(now + frame.seconds_left - LAST_SECONDS)
        return max(min(due) - now, 0.0) if due else None


def can_decide(side: Side, *, reads: bool) -> bool:
    """Return whether rules can decide both that a side holds and that it does not.

    `reads`: whether an OCR engine reads pictures.
    """
    return bool(side.forms) and all(
        isinstance(form, (ExitForm, QuietForm)) or (reads and is_read(form)) for form in side.forms
    )


async def _read_pieces(engine: OcrEngine, pieces: list[bytes], *, numbers: bool) -> OcrPage:
    """Return the text of pictures, read one after the other."""
    return join_pages([await engine.read(piece, numbers=numbers) for piece in pieces])
