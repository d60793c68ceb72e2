"""A judge for conditions that name text: it reads the title, and what is on the screen.

Nothing leaves the machine. What it does not understand to the last word it never takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from taskmem_hookspecs import Frame, JudgeUnavailable, Met, Ruling
from taskmem_vision.looking.attention import (
    LAST_SECONDS,
    WATCHFUL,
    Attention,
    loop_time,
    taken_note_of,
)
from taskmem_vision.looking.gate import Reason
from taskmem_vision.looking.look import Look
from taskmem_vision.looking.pictures import look_of
from taskmem_vision.looking.shot import Shot, telling
from taskmem_vision.reading.ocr import Reader
from taskmem_vision.reading.phrases import Phrase, Wanted

RETRY_SECONDS: Final = 5.0
"""After which a picture that could not be read is read again."""
SURE_SECONDS: Final = 1.0
"""After which all is read once more where a text was not found any more: it may have
been misread. That helps where anything moves: a still picture is misread alike."""

_UNREAD: Final = "Nothing was read yet."


@dataclass(frozen=True, slots=True)
class _Reading:
    """A reading under way."""

    task: asyncio.Task[str]
    shots: list[Shot]
    whole: bool
    """Whether all of the target is read; else only what is new there."""


class ScreenTextJudge:
    """Judges one wait's condition by the text that its target shows."""

    def __init__(
        self,
        wanted: Wanted,
        reader: Reader | None,
        *,
        now: Callable[[], float] = loop_time,
    ) -> None:
        """Take what is to be there, and who reads pictures.

        Args:
            wanted: The condition, understood.
            reader: Reads pictures; None: only the title is read.
            now: The time, in seconds that only grow: that of the looks.
        """
        self.name = f"screen-text:{reader.name if reader else 'title'}"
        self._wanted = wanted
        self._reader = reader
        self._now = now
        self._attention = Attention(lines=True)
        self._reading: _Reading | None = None
        self._seen: set[Phrase] = set()
        """What was there once: only that can be gone."""
        self._missing = False
        """Whether the last reading found that what is to be gone is so."""
        self._trouble: str | None = None
        self._last = _UNREAD
        self._met: Ruling | None = None

    async def rule(self, frame: Frame) -> Ruling:
        """Take a look in, have it read when it is worth while, and say what is known.

        Raises:
            JudgeUnavailable: Never: what cannot be read is told, and read again.
        """
        now = self._now()
        title = frame.text
        if self._reading is not None and self._reading.task.done():
            self._take(self._reading, title, now)
        if self._met is None:
            self._judge(None, title)
        if self._met is None and frame.gone is not None:
            return await self._end(frame.gone, title)
        if self._met is not None:
            return self._met
        if frame.picture is None:
            return self._ruling(frame.note or "There is nothing to see here.", frame)
        if self._reader is not None:
            before = self._attention.look
            look = look_of(frame.picture, before.track if before else None, now)
            self._attention.see(look, now)
            self._read(self._reader, look, frame.seconds_left, now)
        return self._ruling(self._last, frame)

    # --- reading ------------------------------------------------------------

    def _read(self, reader: Reader, look: Look, left: float | None, now: float) -> None:
        if self._reading is not None:
            return
        ends = left is not None and left <= LAST_SECONDS and self._attention.fresh
        reason = Reason.LAST if ends else self._attention.due(now)
        if reason is None:
            return
        whole = self._needs_all or reason not in (Reason.NOVEL, Reason.SETTLE)
        shots = self._attention.take(now, reason, whole=whole)
        newest = [shot for shot in shots if shot.number == look.number]
        whole = whole or not all(shot.detail for shot in newest)
        earlier = [shot for shot in shots if shot not in newest] if whole else shots
        # What came and went meanwhile was there; it does not tell what has gone.
        read = (
            [] if self._needs_all else [each.detail or each.png() for each in earlier]
        )
        pieces = [*read, look.png()] if whole else read
        task = asyncio.create_task(_text_of(reader, pieces))
        task.add_done_callback(taken_note_of)
        self._reading = _Reading(task, shots, whole)

    @property
    def _needs_all(self) -> bool:
        """Whether a part of the target cannot tell."""
        return self._wanted.every or any(each.gone for each in self._wanted.phrases)

    def _take(self, reading: _Reading, title: str | None, now: float) -> None:
        """Take in what came of a reading."""
        self._reading = None
        try:
            text = reading.task.result()
        except JudgeUnavailable as trouble:
            self._trouble = str(trouble)
            self._attention.failed(reading.shots, now + RETRY_SECONDS)
            return
        except Exception:
            self._attention.failed(reading.shots, now + RETRY_SECONDS)
            raise
        self._trouble = None
        self._judge(text, title, telling(reading.shots))
        if self._met is None:
            again = SURE_SECONDS if self._missing else None
            self._attention.in_vain(reading.shots, now, again, whole=reading.whole)

    def _judge(
        self, text: str | None, title: str | None, shot: Shot | None = None
    ) -> None:
        """Judge by what was read now; None: nothing was."""
        wanted, seen = self._wanted, self._seen
        seen.update(wanted.shown(text, title))
        told = wanted.observation(text, title, seen)
        holds = wanted.met(text, title, seen)
        if holds and self._is_sure(text, title):
            self._met = Ruling(met=Met.YES, observation=told, picture=shot)
            return
        if text is not None or self._reader is None:
            self._last = told
            self._missing = holds

    def _is_sure(self, text: str | None, title: str | None) -> bool:
        """Whether what holds does so without a text that one reading did not find."""
        wanted = self._wanted
        if text is None or wanted.met(text, title, ()):
            return True
        if wanted.met(None, title, self._seen):
            return True
        return self._missing

    async def _end(self, gone: str, title: str | None) -> Ruling:
        """Say what it means that the target is gone; what is being read counts yet."""
        if self._reading is not None:
            await asyncio.wait((self._reading.task,))
            self._take(self._reading, title, self._now())
        # With its display, a window goes away though nobody closed it.
        closed = title is not None
        if self._met is None and closed and self._wanted.met_by_closing:
            self._met = Ruling(met=Met.YES, observation=gone)
        return self._met or Ruling(met=Met.NO, observation=self._last)

    # --- what is known ------------------------------------------------------

    def _ruling(self, observation: str, frame: Frame) -> Ruling:
        trouble = f" It could not be read: {self._trouble}" if self._trouble else ""
        return Ruling(
            met=Met.UNSURE,
            observation=f"{observation}{trouble}",
            look_again_seconds=self._look_again(frame, self._now()),
        )

    def _look_again(self, frame: Frame, now: float) -> float | None:
        if self._reading is not None:
            return WATCHFUL
        at = self._attention.next_at(now) if frame.picture is not None else None
        due = [] if at is None else [at]
        if frame.seconds_left is not None and frame.seconds_left > LAST_SECONDS:
            due.append(now + frame.seconds_left - LAST_SECONDS)
        return max(min(due) - now, 0.0) if due else None


async def _text_of(reader: Reader, pieces: list[bytes]) -> str:
    """Return the text of pictures, one after the other."""
    return "\n".join([await reader.read(piece) for piece in pieces])
