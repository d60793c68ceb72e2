"""Free English judged by a reader that is right 95 % of the time, over real outputs.

The outputs and labelled conditions are those of `tests/plugins/terminal/conditions`;
only conditions that no rule can judge count. An output comes in its pieces, mostly
half a second apart, now and then with a pause of up to half a minute. The reader knows
the truth of what it is shown and errs in one question of twenty, each by itself; about
what is asked beside the condition it errs as often.

*right*: resolved once it held, or never where it never does. *falsely*: resolved when
it did not hold. *missed*: it held, and its wait ended otherwise.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

from openclaw_taskmem.domain.conditions.conditions import parse_condition
from taskmem_hookspecs import Frame, JudgeUnavailable, Met
from taskmem_hookspecs.testing import ScriptedReader
from taskmem_vision.text_judge import TerminalReaderJudge
from tests.plugins.terminal.replay import entries, steps
from tests.plugins.vision.frames import DAWN

LISTS = ("tuning", "practice", "held_out")
ERRORS = 0.05
SILENCE = 900.0
"""Seconds for which a command that goes on is watched after its last output."""
_IDS = re.compile(r"The condition with the id (\d+):\n(.*)", re.DOTALL)


@dataclass
class PlayResult:
    """What came of all waits."""

    verdicts: Counter[str] = field(default_factory=Counter)
    questions: list[int] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    """Of those that came to hold and were resolved: how long after, in seconds."""

    def share(self, verdict: str) -> float:
        return self.verdicts[verdict] / self.verdicts.total()

    @property
    def mean_questions(self) -> float:
        return sum(self.questions) / len(self.questions)

    def __str__(self) -> str:
        shares = (f"{v} {self.share(v):.1%}" for v in ("right", "falsely", "missed"))
        return (
            f"{self.verdicts.total()} waits: {', '.join(shares)}, "
            f"{self.mean_questions:.2f} questions a wait"
        )


def free_entries(name: str) -> list[dict]:
    """The conditions of a list whose every side is free English."""
    return [
        entry
        for entry in entries(name)
        if len((found := parse_condition(entry["wake_when"])).free) == len(found.sides)
    ]


def play(seeds: int = 1, errors: float = ERRORS) -> PlayResult:
    """Play every condition, each with several seeds."""
    played = PlayResult()
    rows = [entry for name in LISTS for entry in free_entries(name)]
    for entry in rows:
        steps(entry["output"], entry["exit_status"])

    async def play_all() -> None:
        for seed in range(seeds):
            for entry in rows:
                await _play(entry, random.Random(f"{seed}{entry}"), errors, played)  # noqa: S311

    asyncio.run(play_all())
    return played


async def _play(entry: dict, dice: random.Random, errors: float, played: PlayResult) -> None:
    wait = _Wait(entry, dice, errors)
    verdict = await wait.watch()
    played.verdicts[verdict] += 1
    played.questions.append(len(wait.reader.asked))
    if verdict == "right" and entry["holds"]:
        played.delays.append(wait.now - wait.held_at)


class _Wait:
    """One wait, its output as it comes, and the reader that it asks."""

    def __init__(self, entry: dict, dice: random.Random, errors: float) -> None:
        self.entry, self.dice, self.errors = entry, dice, errors
        self.reader = ScriptedReader(self._answer)
        self.judge = TerminalReaderJudge(entry["wake_when"], self.reader)
        self.holds = False
        self.now = self.changed = 0.0
        self.held_at = None

    def _answer(self, question) -> dict:
        asked = [_IDS.fullmatch(part) for part in question.parts]
        verdicts = [
            {"id": found[1], **self._verdict(found[2] == self.entry["wake_when"])}
            for found in asked
            if found
        ]
        return {"verdicts": verdicts} if verdicts else self._verdict(real=True)

    def _verdict(self, real: bool) -> dict:
        truth = real and self.holds
        said = truth != (self.dice.random() < self.errors)
        return {
            "observation": "Seen.",
            "met": "yes" if said else "no",
            "confidence": 0.9,
            "expect_text": None,
            "look_again_seconds": None,
        }

    async def watch(self) -> str:
        shown = steps(self.entry["output"], self.entry["exit_status"])
        for number, step in enumerate(shown):
            over = step.frame.gone is not None
            self.holds = self.entry["holds"] and (over or self._has_come(step.printed))
            if self.holds and self.held_at is None:
                self.held_at = self.now
            last = number == len(shown) - 1
            gap = SILENCE if last else 0.0 if over else self._gap()
            met = await self._look(step.frame, gap)
            if met is not None:
                return met
            if over and not last and shown[-1].frame.gone is None:
                break
        return "missed" if self.entry["holds"] else "right"

    async def _look(self, frame: Frame, gap: float) -> str | None:
        """Show a frame now, and again whenever the judge wants, until the next."""
        self.changed, until = self.now, self.now + gap
        while True:
            again = None
            try:
                ruling = await self.judge.rule(self._stamp_frame(frame))
                if ruling.met is Met.YES:
                    return "right" if self.holds else "falsely"
                again = ruling.look_again_seconds
            except JudgeUnavailable:
                again = 1.0
            if frame.gone is not None and again is None:
                return None
            if again is None or self.now + again >= until:
                self.now = until
                return None
            self.now += max(again, 0.05)

    def _stamp_frame(self, frame: Frame) -> Frame:
        times = {
            "seen_at": DAWN + timedelta(seconds=self.now),
            "changed_at": DAWN + timedelta(seconds=self.changed),
        }
        return frame.model_copy(update=times)

    def _gap(self) -> float:
        if self.dice.random() < 0.1:
            return math.exp(self.dice.uniform(math.log(2), math.log(30)))
        return self.dice.uniform(0.05, 1.0)

    def _has_come(self, printed: str) -> bool:
        wanted = self.entry["from_text"]
        if wanted is None:
            return False
        return printed.count(wanted) >= self.entry.get("from_occurrence", 1)
