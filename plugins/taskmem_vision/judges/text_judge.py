"""A judge that has Gemini read a terminal, when no rule can tell.

A confident YES settles the wait; a hesitant one only together with a second, on a
later frame. Neither is proof: a text that a program prints may sway the model, and a
model that is swayed may be confident. What follows is that the agent is woken too
early, with the model's sentence; nothing is done on the strength of it here.
"""

from __future__ import annotations

from typing import Final

from taskmem_hookspecs import Frame, Met, Ruling
from taskmem_vision.gemini.client import Gemini
from taskmem_vision.gemini.failures import NoVerdict
from taskmem_vision.judges.pacing import CALLS, Pacing, Reason
from taskmem_vision.judges.question import INSTRUCTION, Verdict, question, shown

CONFIDENT: Final = 0.7
"""From here on one YES is enough."""
HESITANT: Final = 0.5
"""From here on a YES is worth a second look; below, it is none."""
OBSERVATION_CHARACTERS: Final = 300

_NOT_ASKED: Final = "Gemini has not been asked yet."


class GeminiTextJudge:
    """Judges one wait's condition by the text of its terminal.

    The text goes to Gemini as the core passes it: nothing is taken out of it here,
    secrets that a program printed neither.
    """

    def __init__(self, wake_when: str, gemini: Gemini, calls: int = CALLS) -> None:
        """Take the condition, whom to ask, and how often at most."""
        self.name = f"gemini:{gemini.model}"
        self._wake_when = wake_when
        self._gemini = gemini
        self._pacing = Pacing(calls)
        self._last = _NOT_ASKED
        self._text = ""
        self._asking = False

    async def rule(self, frame: Frame) -> Ruling:
        """Ask the model, when it is worth while, whether the condition holds.

        Raises:
            JudgeUnavailable: It was asked in vain, and wants to be asked again.
        """
        text = shown(frame)
        if text is None:
            return Ruling(met=Met.UNSURE, observation="There is no text to read here.")
        if self._asking:
            return self._waiting()
        if frame.gone is not None and not text:
            # What is gone may show nothing any more; it ended with what it showed.
            frame = frame.model_copy(update={"tail": self._text})
        self._text = shown(frame) or ""
        reason = self._pacing.see(frame)
        if reason is None:
            return self._waiting()
        self._asking = True
        try:
            answer = await self._gemini.ask(
                INSTRUCTION, [question(self._wake_when, frame)], Verdict
            )
        except NoVerdict:
            self._pacing.wasted()
            raise
        finally:
            self._asking = False
        return self._weigh(answer.verdict, reason)

    def _weigh(self, verdict: Verdict, reason: Reason) -> Ruling:
        """Return what a verdict is worth."""
        self._last = one_line(verdict.observation)
        yes = verdict.met is Met.YES
        likely = yes and verdict.confidence >= HESITANT
        # Whatever is asked after a doubtful answer is asked about a later frame.
        sure = likely and (verdict.confidence >= CONFIDENT or self._pacing.doubtful)
        self._pacing.answered(
            reason,
            doubtful=likely,
            hints=verdict.expect_text or (),
            look_again_seconds=verdict.look_again_seconds,
        )
        if sure:
            return Ruling(met=Met.YES, observation=self._last)
        return self._ruling(Met.UNSURE if yes else verdict.met)

    def _waiting(self) -> Ruling:
        return self._ruling(Met.UNSURE)

    def _ruling(self, met: Met) -> Ruling:
        return Ruling(
            met=met,
            observation=f"{self._last}{self._budget()}",
            look_again_seconds=self._pacing.look_again_seconds(),
        )

    def _budget(self) -> str:
        calls = self._pacing.calls
        if self._pacing.spent:
            return f" (Gemini was asked {calls} times, as often as one wait may.)"
        if self._pacing.saving:
            return (
                f" (Gemini was asked {calls} times; the rest is kept for the end of "
                "the command.)"
            )
        return ""


def one_line(text: str) -> str:
    """Return a model's sentence on one line, without what steers a terminal."""
    clean = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(clean.split())
    if len(line) > OBSERVATION_CHARACTERS:
        line = f"{line[:OBSERVATION_CHARACTERS]}…"
    return line
