"""Recordings of scenes as a gate sees them, and how to play them to one.

A recording holds when which blocks changed, and when the scene's condition became true.
Nothing else matters to a gate: it can be tried without a screen, and often.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from taskmem_vision.question_policy import (
    Block,
    MotionHistory,
    PictureQuestionReason,
    QuestionPolicy,
)

FOLDER = Path(__file__).with_name("recordings")
_ROW = 1000
_SHIFT = 64
_AT_ONCE = 0.02
_STAMP = 0.15
"""A truth is told after it was painted, up to so much later."""


@dataclass
class Recording:
    """What happened on a target; instants are seconds since the first look."""

    scene: str
    seed: int
    paints: bool = True
    """Whether its truth can be seen; else it is known only by the time."""
    first: list[tuple[int, int]] = field(default_factory=list)
    """How the blocks looked at first that changed later: their marks."""
    looks: list[tuple[float, list[tuple[int, int]]]] = field(default_factory=list)
    """When something changed: which blocks, as numbers, and the mark of how they look
    now."""
    truth: float | None = None
    """When the condition became true; None: it never did."""
    until: float | None = None
    """When what made it true was gone; None: it stayed."""
    ended: float = 0.0

    @classmethod
    def load(cls, path: Path) -> Recording:
        return cls(**json.loads(gzip.decompress(path.read_bytes())))

    def save(self, folder: Path = FOLDER) -> None:
        path = folder / f"{self.scene}-{self.seed}.json.gz"
        data = json.dumps(asdict(self), separators=(",", ":")).encode()
        path.write_bytes(gzip.compress(data, mtime=0))

    def shows(self, at: float) -> bool:
        """Whether a look at an instant shows that the condition holds."""
        gone = self.until is not None and at >= self.until
        truth = None if self.truth is None else self.truth - _STAMP
        return truth is not None and at >= truth and not gone


@dataclass
class PlayResult:
    """What came of playing a recording to a gate."""

    questions: list[tuple[float, PictureQuestionReason]] = field(default_factory=list)
    """When it asked, and why."""
    delay: float | None = None
    """From the truth until it was known, without what the model took; None: missed."""


class Player:
    """Plays a recording to a gate as the judge does; a model answers by the truth."""

    def __init__(self, recording: Recording, latency: float = 1.2) -> None:
        self.recording = recording
        self.latency = latency
        self.played = PlayResult()
        self.rhythms = MotionHistory()
        self.gate = QuestionPolicy(self.rhythms)
        self._looks = [(0.0, []), *recording.looks]
        self._shown = 0.0
        self._marks = {block_of(number): mark for number, mark in recording.first}
        self._asked: dict[Block, int] | None = None
        """How all blocks looked that had changed when a model was asked last."""
        self._kept: list[float] = []
        self._answer: tuple[float, bool] | None = None
        """When the question under way is answered, and whether with a yes."""

    def play(self) -> PlayResult:
        now = 0.0
        while now <= self.recording.ended:
            self._look(now)
            self._hear(now)
            if self.played.delay is not None:
                break
            self._ask(now)
            now = self._next(now)
        return self.played

    def _look(self, now: float) -> None:
        while self._looks and self._looks[0][0] <= now:
            self._shown, changed = self._looks.pop(0)
            marks = {block_of(number): mark for number, mark in changed}
            self._marks |= marks
            self.gate.observe_motion(self.rhythms.record_changes(self._shown, marks))
        if self.gate.take_ripe_blocks(now, self._unlike):
            self._kept.append(self._shown)

    def _unlike(self) -> frozenset[Block] | None:
        if self._asked is None:
            return None
        asked = self._asked
        return frozenset(b for b, mark in self._marks.items() if asked.get(b) != mark)

    def _hear(self, now: float) -> None:
        if self._answer is None or now < self._answer[0]:
            return
        if self._answer[1]:
            self.played.delay = now - self.recording.truth - self._thinking_seconds(now)
        else:
            self.gate.record_no_result(now)
        self._answer = None

    def _ask(self, now: float) -> None:
        if self._answer is not None or (reason := self.gate.find_due_reason(now)) is None:
            return
        seen = [*self._kept, self._shown] if self.recording.paints else [now]
        met = any(map(self.recording.shows, seen))
        self._kept = []
        self._asked = dict(self._marks)
        self.gate.record_question(now, reason)
        self.played.questions.append((now, reason))
        self._answer = (now + self.latency, met)

    def _thinking_seconds(self, now: float) -> float:
        """Return for how long a model was asked since the truth."""
        spans = ((at, min(at + self.latency, now)) for at, _ in self.played.questions)
        return sum(max(0.0, end - max(at, self.recording.truth)) for at, end in spans)

    def _next(self, now: float) -> float:
        due = [look[0] for look in self._looks[:1]]
        if self._answer is not None:
            due.append(self._answer[0])
        if (again := self.gate.next_look_at(now)) is not None:
            due.append(max(again, now + _AT_ONCE))
        return min(due, default=self.recording.ended + 1)


def block_of(number: int) -> Block:
    """Return the block that a number stands for."""
    row, column = divmod(number, _ROW)
    return column - _SHIFT, row - _SHIFT


def number_of(block: Block) -> int:
    """Return a block as one number."""
    column, row = block
    return (row + _SHIFT) * _ROW + column + _SHIFT
