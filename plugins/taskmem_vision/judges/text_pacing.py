"""Decide when to ask a reader about a terminal. Pure, and without a clock.

A question costs money and takes a second or more, so it is asked when the answer may have changed:
when the output falls silent, when the command ends, and when a text appears that the reader named
as a hint. New output is asked about less and less often; unchanged output only when the reader said
when to look again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from statistics import median
from typing import Final, NamedTuple

from taskmem_hookspecs import Frame
from taskmem_vision.judges.reader_questions import pick_hints
from taskmem_vision.text_lines import fold_text

MOST_QUESTIONS: Final = 30
"""Maximum number of questions for one wait."""
RESERVED_QUESTIONS: Final = 3
"""How many of these are reserved for the end of the command."""
_QUIET_SECONDS: Final = 6.0
"""Minimum silence of the output before a question. Seconds."""
_LONGEST_QUIET: Final = 15.0
"""The same for output with regular pauses, such as a line every 7 s. Seconds."""
_BEAT_SECONDS: Final = 30.0
"""Additional delay for output that never falls silent. Seconds."""
_REST_GROWTH: Final = 8.0
"""New output is asked about again after this many times the elapsed time."""
_LONGEST_REST: Final = 640.0
"""Maximum time between two questions about new output. Seconds."""
_CONFIRM_SECONDS: Final = 1.0
"""Time after which a yes is confirmed without new output. Seconds."""

_ELAPSED_DIVISOR: Final = 4
"""Divides the elapsed time into the minimum interval between hint questions and wanted looks."""
_MOST_RHYTHM: Final = 5
_LEAST_RHYTHM: Final = 3
_ONE_BURST: Final = 0.5
_SOONEST_WISH: Final = 5.0
_LEAST_HINT_GAP: Final = 1.0


class TextQuestionReason(StrEnum):
    """Why a model is asked now."""

    FIRST = "first"
    END = "end"
    CONFIRM = "confirm"
    HINT = "hint"
    QUIET = "quiet"
    BEAT = "beat"


class _FrameDigest(NamedTuple):
    """The parts of a frame that decide an answer."""

    text: bytes
    exit_status: int | None
    gone: str | None

    @property
    def is_over(self) -> bool:
        return self.exit_status is not None or self.gone is not None


class QuestionPacer:
    """The questions of one wait: pass every frame to `observe_frame`, and record each answer."""

    def __init__(self, calls: int = MOST_QUESTIONS) -> None:
        """Set the maximum number of questions."""
        self._limit = calls
        self.calls = 0
        """Number of answers, valid or not."""
        self._seen_at: datetime | None = None
        self._sight: _FrameDigest | None = None
        self._text = ""
        # Seconds since the first frame; monotonic even if the clock is set back.
        self._now = 0.0
        self._moved = 0.0
        self._gaps: deque[float] = deque(maxlen=_MOST_RHYTHM)
        self._asked: _FrameDigest | None = None
        self._asked_at = 0.0
        self._hint_at: float | None = None
        self._wanted: float | None = None
        self._hints: tuple[str, ...] = ()
        self.doubtful = False
        """True if the last answer was an unconfirmed yes."""

    # --- what happens -------------------------------------------------------

    def observe_frame(self, frame: Frame) -> TextQuestionReason | None:
        """Record a frame, and return why to ask about it; None: do not ask."""
        before, self._seen_at = self._seen_at, frame.seen_at
        self._now += _count_seconds_since(before, frame)
        text = get_frame_text(frame) or ""
        sight = _FrameDigest(_digest_text(text), frame.exit_status, frame.gone)
        if self._sight is None:
            # If the time of the last change is unknown, it counts as silent for long enough.
            known = frame.changed_at is not None
            self._moved = (
                -_count_seconds_since(frame.changed_at, frame) if known else -_QUIET_SECONDS
            )
        elif sight != self._sight:
            self._record_change(self._now - _count_seconds_since(frame.changed_at, frame))
        if sight != self._sight:
            self._sight, self._text = (sight, fold_text(_remove_echoes(text, frame.echoes)))
        reason = self._find_reason(sight)
        allowed = (
            reason in (TextQuestionReason.END, TextQuestionReason.CONFIRM) or not self.is_reserving
        )
        return reason if allowed and not self.is_exhausted else None

    def record_answer(
        self,
        reason: TextQuestionReason,
        *,
        doubtful: bool = False,
        hints: Iterable[str] = (),
        look_again_seconds: float | None = None,
    ) -> None:
        """Record an answer about the last frame that does not decide the wait.

        Args:
            reason: Why the question was asked.
            doubtful: The answer is a yes that must be confirmed.
            hints: Texts that would show that the condition holds.
            look_again_seconds: After how long the model wants another look; None: it did not say.
        """
        self.calls += 1
        self._asked, self._asked_at = self._sight, self._now
        if reason is TextQuestionReason.HINT:
            self._hint_at = self._now
        self.doubtful = doubtful
        self._wanted = look_again_seconds
        self._hints = pick_hints(hints, self._text)

    def record_bad_answer(self, *, swayed: bool = False) -> None:
        """Record an invalid answer: it counts, and the question is repeated.

        `swayed`: it also cancels an unconfirmed yes.
        """
        self.calls += 1
        self.doubtful = self.doubtful and not swayed

    # --- what follows -------------------------------------------------------

    @property
    def is_exhausted(self) -> bool:
        """True if no question is left."""
        return self.calls >= self._limit

    @property
    def is_reserving(self) -> bool:
        """True if the questions left are reserved for the end."""
        return self.calls >= self._limit - min(RESERVED_QUESTIONS, self._limit // 2)

    def look_again_seconds(self) -> float | None:
        """Return after how long to look even if nothing changed; None: not needed."""
        if self.is_exhausted or (self._asked is not None and self._asked.gone is not None):
            return None
        if self._asked is None:
            return max(min(self._moved + _QUIET_SECONDS, _BEAT_SECONDS) - self._now, 0.1)
        due: list[float] = []
        if self.doubtful:
            due.append(self._asked_at + _CONFIRM_SECONDS)
        if not self.is_reserving:
            if self._wanted is not None:
                due.append(self._asked_at + self._compute_wish_seconds())
            if self._sight != self._asked:
                quiet = max(self._moved + self._compute_quiet_seconds(), self._compute_due_at())
                due.append(min(quiet, self._compute_due_at() + _BEAT_SECONDS))
        return max(min(due) - self._now, 0.1) if due else None

    def _find_reason(self, sight: _FrameDigest) -> TextQuestionReason | None:
        still = self._now - self._moved
        if self._asked is None:
            quiet = still >= _QUIET_SECONDS or self._now >= _BEAT_SECONDS
            return (
                TextQuestionReason.END
                if sight.is_over
                else TextQuestionReason.FIRST
                if quiet
                else None
            )
        fresh = sight != self._asked
        if self.doubtful and (fresh or self._has_elapsed(_CONFIRM_SECONDS)):
            return TextQuestionReason.CONFIRM
        if sight.is_over and (sight[1:] != self._asked[1:]):
            return TextQuestionReason.END
        if fresh and (reason := self._find_news_reason(still)) is not None:
            return reason
        wanted = self._wanted is not None and sight.gone is None
        return (
            TextQuestionReason.BEAT
            if wanted and self._has_elapsed(self._compute_wish_seconds())
            else None
        )

    def _find_news_reason(self, still: float) -> TextQuestionReason | None:
        if self._has_hint() and self._now >= self._compute_next_hint_at():
            return TextQuestionReason.HINT
        if self._now >= self._compute_due_at() and still >= self._compute_quiet_seconds():
            return TextQuestionReason.QUIET
        return (
            TextQuestionReason.BEAT if self._now >= self._compute_due_at() + _BEAT_SECONDS else None
        )

    def _compute_due_at(self) -> float:
        """Return from when on new output is worth a question: at growing intervals."""
        rest = min(_REST_GROWTH * self._asked_at, _LONGEST_REST)
        return self._asked_at + max(_QUIET_SECONDS, rest)

    def _has_elapsed(self, seconds: float) -> bool:
        """Return whether this time has passed since the last question."""
        return self._now - self._asked_at >= seconds

    def _has_hint(self) -> bool:
        return any(hint in self._text for hint in self._hints)

    def _compute_next_hint_at(self) -> float:
        """Return from when on a hint in the text is asked about."""
        last = self._hint_at
        return 0.0 if last is None else last + max(_LEAST_HINT_GAP, last / _ELAPSED_DIVISOR)

    def _compute_quiet_seconds(self) -> float:
        """Return the minimum silence: twice the usual pause, within limits."""
        if len(self._gaps) < _LEAST_RHYTHM:
            return _QUIET_SECONDS
        return min(max(_QUIET_SECONDS, 2 * median(self._gaps)), _LONGEST_QUIET)

    def _compute_wish_seconds(self) -> float:
        """Return how long after the last question the reader gets another look."""
        longest = min(max(_BEAT_SECONDS, self._asked_at), _LONGEST_REST)
        least = max(self._wanted or 0.0, _SOONEST_WISH, self._asked_at / _ELAPSED_DIVISOR)
        return min(least, longest)

    def _record_change(self, at: float) -> None:
        gap = at - self._moved
        if gap >= _ONE_BURST:
            self._gaps.append(gap)
        self._moved = at


def _count_seconds_since(instant: datetime | None, frame: Frame) -> float:
    """Return the seconds from an instant to a frame; 0 if the clock was set back."""
    if instant is None:
        return 0.0
    passed: timedelta = frame.seen_at - instant
    return max(passed.total_seconds(), 0.0)


def _remove_echoes(text: str, echoes: tuple[str, ...]) -> str:
    typed = set(echoes)
    return "\n".join(line for line in text.splitlines() if line not in typed)


def _digest_text(text: str) -> bytes:
    return blake2b(text.encode(errors="replace"), digest_size=16).digest()


def get_frame_text(frame: Frame) -> str | None:
    """Return a frame's text; None: it has none."""
    return frame.text if frame.tail is None else frame.tail
