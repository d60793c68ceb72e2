"""Reads a terminal's text by rules, without any model."""

from __future__ import annotations

import re

from taskmem_hookspecs import ConditionUnclear, Frame, Met, Ruling
from taskmem_terminal.judging import endings
from taskmem_terminal.judging.reading import read
from taskmem_terminal.judging.rules import Case
from taskmem_terminal.judging.seen import Seen, clip

_STILL_SECONDS = 0.3
_READ_CHARACTERS = 4096
_VAGUE = re.compile(
    r"(?:everything|all|it) (?:is|looks|seems|goes)(?: all)? "
    r"(?:ok|okay|fine|well|good|right|alright|normal)\W*",
    re.IGNORECASE,
)
_SHOWN = r"(?= (?:appears?|shows? up|is (?:shown|printed|logged|displayed|written))\b)"
_LITERAL = re.compile(
    r"\b(?:the )?(?:word|text|string|phrase|token) ([\w.:/-]{1,60})"
    + _SHOWN
    + r"|(?<![\"'`\w./-])([A-Za-z][\w.-]{0,60}[_\d][\w.-]{0,60})"
    + _SHOWN
)
"""What can only be meant as it is written, though it stands in no quotes."""
_HELP = (
    "Whether this holds cannot be read from text by rules: quote the text to wait for,"
    ' such as "Build finished", or wait for the command to end.'
)


class TextJudge:
    """Decides on one wait from what a terminal shows.

    Raises:
        ConditionUnclear: No text could ever settle any part of the condition.
    """

    name = "text rules"

    __slots__ = ("_case", "_last", "_unended")

    def __init__(self, wake_when: str) -> None:
        condition = read(_with_quotes(wake_when[:_READ_CHARACTERS]))
        if condition.hopeless or _VAGUE.fullmatch(wake_when.strip()):
            raise ConditionUnclear(_HELP)
        self._case = Case(condition, wake_when[:_READ_CHARACTERS])
        self._last = ""
        self._unended = False

    async def rule(self, frame: Frame) -> Ruling:
        """Return whether the condition holds on what has been shown."""
        if frame.text is None and frame.exit_status is None and frame.gone is None:
            return Ruling(met=Met.UNSURE, observation="There is no text to read.")
        seen = Seen(frame, self._last, unended=self._unended)
        finding = self._case.rule(seen)
        self._unended = seen.unended
        self._last = clip(seen.cursor)
        again = finding.again
        if seen.open and finding.met is not Met.YES:
            again = min(again or _STILL_SECONDS, _STILL_SECONDS)
        return Ruling(
            met=finding.met,
            observation=_sentence(finding.met, finding.because, seen),
            look_again_seconds=None if finding.met is Met.YES else again,
        )


def _with_quotes(wake_when: str) -> str:
    return _LITERAL.sub(lambda found: f'"{found[1] or found[2]}"', wake_when)


def _sentence(met: Met, because: str, seen: Seen) -> str:
    if met is not Met.NO:
        return because if because.endswith((".", '"')) else f"{because}."
    last = f'Last line: "{clip(seen.last)}"' if seen.last else "Nothing was shown yet."
    if not seen.over:
        return last
    return f"{endings.how(seen)}, so it can no longer hold. {last}"
