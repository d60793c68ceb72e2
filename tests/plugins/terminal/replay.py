"""Replays recorded terminals to the judge of text, and counts how often it is right.

*right*: a condition that comes to hold was resolved, and not before the text stood
there by which a careful reader would have known; one that never holds was not
resolved. *falsely*: resolved although it does not hold, or too early. *refused*: a side
is in free English, which nobody judges here. *missed*: it held, and was not resolved.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path

from openclaw_taskmem.domain.conditions.conditions import parse_condition
from taskmem_hookspecs import Condition, ConditionUnclear, Frame, Met, Output, Target
from taskmem_hookspecs.conditions import Answer, AsksForm
from taskmem_terminal.judge import TerminalRuleJudge
from taskmem_terminal.sensor import TerminalSensor
from tests.plugins.terminal.judged import ShownJudge

CONDITIONS = Path(__file__).parent / "conditions"
PIECES = 60
Truth = Callable[[int | None], bool]
"""Whether a condition holds by a look, by number; None: whether it ever does."""
_ESCAPES = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]")


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

    def share(self, *verdicts: str) -> float:
        found = sum(self.verdicts[verdict] for verdict in verdicts)
        return found / max(1, self.verdicts.total())

    def list(self, *verdicts: str) -> str:
        """The figures, and the conditions with these verdicts."""
        lines = [line for one in verdicts for line in self.entries.get(one, [])]
        return "\n".join([str(self), *lines])

    def __str__(self) -> str:
        return f"{self.verdicts.total()} conditions: " + ", ".join(
            f"{verdict} {self.verdicts[verdict]} ({self.share(verdict):.1%})"
            for verdict in ("right", "falsely", "refused", "missed")
        )


def entries(name: str) -> list[dict]:
    return json.loads((CONDITIONS / f"{name}.json").read_text())


def situations() -> list[dict]:
    """What runs and what is wanted, with the sentences that were written for it."""
    worded = json.loads((CONDITIONS / "worded.json").read_text())
    return [one | {"wake_when": worded[one["id"]]} for one in entries("situations")]


@cache
def steps(output: str, exit_status: int | None) -> list[Step]:
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
        sensor = TerminalSensor()
        at, pieces = 0, []
        while at < len(data):
            size = dice.randint(1, longest)
            pieces.append(data[at : at + size])
            at += size
        await sensor.feed(target, Output(data=b""))
        watch = await sensor.watch(target)
        start = place = (await watch.here()).place
        whole, printed = shown_text(data), b""
        for piece in pieces:
            await sensor.feed(target, Output(data=piece))
            printed += piece
            frame = await watch.look(place, start)
            place = frame.place
            # A sequence that is cut shows more than it will when it is whole.
            length = min(len(shown_text(printed)), len(whole) + 1)
            found.append(Step(frame, whole[: (whole + "\n").index("\n", length - 1)]))
        if exit_status is not None:
            await sensor.feed(target, Output(data=b"", exit_status=exit_status))
        for seconds in (0, 2, 40):
            # By now it is plain that an unfinished line stays as it is.
            frame = await watch.look(place, start)
            later = {"seen_at": frame.seen_at + timedelta(seconds=seconds)}
            found.append(Step(frame.model_copy(update=later), whole))
        await watch.close()
    return found


def shown_text(data: bytes) -> str:
    """What bytes show, without any escape sequences."""
    return _ESCAPES.sub("", data.decode(errors="replace")).replace("\r", "\n")


def judge_steps(condition: Condition, steps: list[Step]) -> tuple[int | None, str]:
    """Return at which step a condition was found to hold, and what the judge said.

    None: it was never found to hold.
    """
    judge = TerminalRuleJudge(condition, "replay")
    said = ""
    for number, step in enumerate(steps):
        ruling = run_at_once(judge.rule(step.frame))
        said = ruling.observation
        if ruling.met is Met.YES:
            return number, said
    return None, said


def run_at_once(coroutine):
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError


def judge(wake_when: str, output: str, exit_status: int | None, truth: Truth) -> tuple[str, str]:
    """The verdict on a condition, and what the judge said."""
    try:
        condition = parse_condition(wake_when)
    except ConditionUnclear as unclear:
        return "refused", str(unclear)
    if condition.free:
        return "refused", "not understood"
    at, said = judge_steps(condition, steps(output, exit_status))
    if at is None:
        return "missed" if truth(None) else "right", said
    return "right" if truth(at) else "falsely", said


def judge_entry(entry: dict) -> tuple[str, str]:
    """The verdict on one condition of a list, and what the judge said."""
    given = entry["output"], entry["exit_status"]

    def truth(at: int | None) -> bool:
        if at is None or not entry["holds"]:
            return entry["holds"]
        step = steps(*given)[at]
        return step.frame.exit_status is not None or _has_come(entry, step.printed)

    return judge(entry["wake_when"], *given, truth)


def _has_come(entry: dict, printed: str) -> bool:
    wanted = entry["from_text"]
    if wanted is None:
        return False
    return printed.count(wanted) >= entry.get("from_occurrence", 1)


def score(rows: list[dict]) -> Score:
    """Judge each condition of a list."""
    total = Score()
    for entry in rows:
        verdict, said = judge_entry(entry)
        total.add(verdict, entry, said)
    return total


def score_questions(rows: list[dict]) -> Score:
    """Judge what stood there when a program asked, or asked nothing, by each form of a question."""
    total = Score()
    for entry in rows:
        known = {name: entry.get(name) for name in ("reads_input", "hides_input", "takes_keys")}
        for asks in (one for one in Answer if one.value not in entry.get("either", ())):
            sentence, holds = str(AsksForm(asks=asks)), asks.value in entry["asks"]
            shown = ShownJudge(sentence, "tmux:work")
            found = shown.paints(entry["screen"], printed=f"\n{entry['cursor']}", **known)
            met = found.met is Met.YES
            verdict = "right" if met is holds else "missed" if holds else "falsely"
            named = {"output": entry["id"], "holds": holds, "wake_when": sentence}
            total.add(verdict, named, found.observation)
    return total
