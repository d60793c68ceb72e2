"""A judge that has a reader read a terminal, for what no rule can tell.

A yes wakes nobody before a second question has confirmed it: about the newest lines as
soon as something came, else a second later; about a target that is gone at once, for
nothing will come. The second question also asks about what never holds. None of it is
proof: a text that a program prints may sway a model. What follows is that the agent is
woken too early, with the reader's sentence; nothing is done on the strength of it here.
"""

from __future__ import annotations

from taskmem_hookspecs import Frame, JudgeUnavailable, Met, NoAnswer, Reader, Ruling
from taskmem_vision.judges.asking import (
    DECOYS,
    Swayed,
    Verdict,
    ask_reader,
    describe_condition,
)
from taskmem_vision.judges.pacing import CALLS, Pacing, Reason
from taskmem_vision.judges.question import (
    INSTRUCTION,
    Confirmation,
    ask_again,
    question,
    shown,
)


class TextJudge:
    """Judges the sides of one wait's condition that only reading can tell."""

    def __init__(
        self,
        words: str,
        reader: Reader,
        calls: int = CALLS,
        sides: tuple[int, ...] = (0,),
    ) -> None:
        """Take what is asked, whom to ask, how often at most, and which sides it is."""
        self.name = reader.name
        self.sides = sides
        self._words = words
        self._reader = reader
        self._pacing = Pacing(calls)
        self._last = f"{self.name} has not been asked yet."
        self._trouble: str | None = None
        """Why it could not be asked last; None: it answered, or was not asked."""
        self._text = ""
        self._asking = False
        self._confirmations = 0

    async def rule(self, frame: Frame) -> Ruling:
        """Ask the reader, when it is worth while, whether the condition holds.

        Raises:
            JudgeUnavailable: It was asked in vain, and wants to be asked again.
        """
        text = shown(frame)
        if text is None:
            return Ruling(met=Met.UNSURE, observation="There is no text to read here.")
        if self._asking:
            return self._ruling(Met.UNSURE)
        if frame.gone is not None and not text:
            # What is gone may show nothing any more; it ended with what it showed.
            frame = frame.model_copy(update={"tail": self._text})
        self._text = shown(frame) or ""
        reason = self._pacing.see(frame)
        if reason is None:
            ruling = self._ruling(Met.UNSURE)
            again, left = ruling.look_again_seconds, frame.seconds_left
            late = again is not None and left is not None and again > left
            if self._pacing.calls or not late:
                return ruling
            # Time is up before it is asked for the first time.
            return ruling.model_copy(update={"trouble": self._last})
        self._asking = True
        try:
            return await self._ask(frame, reason)
        except NoAnswer as error:
            self._pacing.wasted(swayed=isinstance(error, Swayed))
            self._trouble = str(error)
            raise
        except JudgeUnavailable as error:
            self._trouble = str(error)
            raise
        finally:
            self._asking = False

    async def _ask(self, frame: Frame, reason: Reason) -> Ruling:
        if reason is Reason.CONFIRM:
            return await self._confirm(frame)
        verdict, answered = await ask_reader(
            self._reader, INSTRUCTION, [question(self._words, frame)], Verdict
        )
        likely = verdict.is_likely
        self._last, self._trouble = answered.describe(verdict), None
        self._pacing.answered(
            reason,
            doubtful=likely,
            hints=verdict.expect_text or (),
            look_again_seconds=verdict.look_again_seconds,
        )
        if likely and frame.gone is not None and not self._pacing.spent:
            return await self._confirm(frame)
        return self._ruling(Met.UNSURE if verdict.met is Met.YES else verdict.met)

    async def _confirm(self, frame: Frame) -> Ruling:
        """Ask about a yes once more, beside a condition that never holds.

        Raises:
            Swayed: The reader said yes to that, too.
        """
        self._confirmations += 1
        decoy = DECOYS[self._confirmations % len(DECOYS)]
        asked = [self._words, decoy]
        if self._confirmations % 2:
            asked.reverse()
        ids = {words: str(number) for number, words in enumerate(asked, 1)}
        parts = [describe_condition(number, words) for words, number in ids.items()]
        parts.append(ask_again(frame))
        found, answered = await ask_reader(
            self._reader, INSTRUCTION, parts, Confirmation, confirms=True
        )
        verdicts = answered.verdicts_by_id(found.verdicts, ids[decoy])
        verdict = verdicts.get(ids[self._words])
        if verdict is None:
            raise NoAnswer(f"{answered.reader} left the condition out.")
        self._last, self._trouble = answered.describe(verdict), None
        self._pacing.answered(
            Reason.CONFIRM,
            hints=verdict.expect_text or (),
            look_again_seconds=verdict.look_again_seconds,
        )
        if verdict.is_likely:
            return Ruling(met=Met.YES, observation=self._last)
        return self._ruling(Met.UNSURE)

    def _ruling(self, met: Met) -> Ruling:
        said = f"{self._last}{self._budget()}"
        if self._trouble is not None:
            said = f"{said} {self.name} is in trouble: {self._trouble}"
        return Ruling(
            met=met,
            observation=said,
            trouble=self._trouble,
            look_again_seconds=self._pacing.look_again_seconds(),
        )

    def _budget(self) -> str:
        calls = self._pacing.calls
        if self._pacing.spent:
            return f" ({self.name} was asked {calls} times, as often as one wait may.)"
        if self._pacing.saving:
            return (
                f" ({self.name} was asked {calls} times; the rest is kept for the end "
                "of the command.)"
            )
        return ""
