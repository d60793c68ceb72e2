"""Replays recorded terminals to the judge of text, and counts how often it is right.

*right*: a condition that comes to hold was resolved, and not before the text stood
there by which a careful reader would have known; one that never holds was not
resolved, and the judge was sure of it. *falsely*: resolved although it does not hold,
or too early. *unsure*: left to another judge, or refused. *missed*: held, and the
judge said that it does not.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path

from taskmem_hookspecs import ConditionUnclear, Frame, Met, Output, Target
from taskmem_terminal.judge import TextJudge
from taskmem_terminal.sensor import Terminals

CONDITIONS = Path(__file__).parent / "conditions"
PIECES = 120
_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]"
)


@dataclass(frozen=True)
class Step:
    """One look, and what had been printed by then."""

    frame: Frame
    printed: str
    """With the rest of the line that was being printed."""


@dataclass
class Score:
    """How often each verdict was reached, and on which conditions."""

    verdicts: Counter[str] = field(default_factory=Counter)
    entries: dict[str, list[str]] = field(default_factory=dict)

    def add(self, verdict: str, entry: dict, said: str) -> None:
        self.verdicts[verdict] += 1
        holds = "holds" if entry["holds"] else "never"
        line = f"{entry['output']:26} {holds} {entry['wake_when']!r} → {said}"
        self.entries.setdefault(verdict, []).append(line)

    def share(self, verdict: str) -> float:
        return self.verdicts[verdict] / max(1, self.verdicts.total())

    def __str__(self) -> str:
        return f"{self.verdicts.total()} conditions: " + ", ".join(
            f"{verdict} {self.verdicts[verdict]} ({self.share(verdict):.1%})"
            for verdict in ("right", "falsely", "unsure", "missed")
        )


def entries(name: str) -> list[dict]:
    return json.loads((CONDITIONS / f"{name}.json").read_text())


@cache
def steps(output: str, exit_status: int | None, columns: int = 120) -> list[Step]:
    """What the sensor shows of an output that comes in small pieces."""
    return asyncio.run(_steps(output, exit_status))


async def _steps(output: str, exit_status: int | None) -> list[Step]:
    folder = CONDITIONS if "/" in output else CONDITIONS / "outputs"
    data = (folder / output).read_bytes()
    dice = random.Random(output)  # noqa: S311 - the same pieces each time
    longest = max(40, 2 * len(data) // PIECES)
    target = Target(scheme="pty", name="replay")
    found = []
    with tempfile.TemporaryDirectory() as home:
        os.environ["TASKMEM_HOME"] = home
        sensor = Terminals()
        at, pieces = 0, []
        while at < len(data):
            size = dice.randint(1, longest)
            pieces.append(data[at : at + size])
            at += size
        await sensor.feed(target, Output(data=b""))
        watch = await sensor.watch(target)
        here = await watch.here()
        start = place = here if isinstance(here, str) else here.place
        whole, printed = _shown(data), b""
        for piece in pieces:
            await sensor.feed(target, Output(data=piece))
            printed += piece
            frame = await watch.look(place, start)
            place = frame.place
            # A sequence that is cut shows more than it will when it is whole.
            shown = min(len(_shown(printed)), len(whole) + 1)
            found.append(Step(frame, whole[: (whole + "\n").index("\n", shown - 1)]))
        if exit_status is not None:
            await sensor.feed(target, Output(data=b"", exit_status=exit_status))
        frame = await watch.look(place, start)
        # By now it is plain that an unfinished line stays as it is.
        later = frame.model_copy(
            update={"seen_at": frame.seen_at + timedelta(seconds=1)}
        )
        found += [Step(frame, whole), Step(later, whole)]
        await watch.close()
    return found


def _shown(data: bytes) -> str:
    return _ESCAPES.sub("", data.decode(errors="replace")).replace("\r", "\n")


async def judged(entry: dict) -> tuple[str, str]:
    """The verdict on one condition, and what the judge said."""
    try:
        judge = TextJudge(entry["wake_when"])
    except ConditionUnclear as unclear:
        return "unsure", f"refused: {unclear}"
    ruling = None
    for step in steps(entry["output"], entry["exit_status"]):
        ruling = await judge.rule(step.frame)
        if ruling.met is Met.YES:
            over = step.frame.exit_status is not None
            there = over or _came(entry, step.printed)
            right = entry["holds"] and there
            return "right" if right else "falsely", ruling.observation
    if ruling is None or ruling.met is Met.UNSURE:
        return "unsure", ruling.observation if ruling else "nothing to judge"
    return "missed" if entry["holds"] else "right", ruling.observation


def _came(entry: dict, printed: str) -> bool:
    wanted = entry["from_text"]
    if wanted is None:
        return False
    return printed.count(wanted) >= entry.get("from_occurrence", 1)


def score(name: str) -> Score:
    """Judge each condition of one set: `tuning`, `practice` …"""
    total = Score()
    rows = entries(name)
    for entry in rows:
        steps(entry["output"], entry["exit_status"])

    async def judge_all() -> None:
        for entry in rows:
            verdict, said = await judged(entry)
            total.add(verdict, entry, said)

    asyncio.run(judge_all())
    return total
