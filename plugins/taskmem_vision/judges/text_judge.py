"""Judge a terminal's text by a reader, where rules cannot.

A yes must be confirmed by a second question: as soon as new lines come, else a second later; at
once for a target that is gone, because nothing will come. The second question includes a condition
that never holds. None of this is proof: a program's output may influence a model. The worst result
is that the agent is woken too early, with the reader's sentence; nothing else is done here.
"""

from __future__ import annotations

from taskmem_hookspecs import Frame, JudgeUnavailable, Met, NoAnswer, Reader, Ruling
from taskmem_vision.judges.reader_questions import (
    DECOYS,
    PromptInjectionSuspected,
    ReaderVerdict,
    ask_reader,
    describe_condition,
)
from taskmem_vision.judges.text_pacing import CALLS, QuestionPacer, TextQuestionReason
from taskmem_vision.judges.text_question import (
    INSTRUCTION,
    Confirmation,
    build_confirmation,
    build_text_question,
    get_frame_text,
)


class TerminalReaderJudge:
    """Judges the sides of one wait's condition that only a reader can decide."""

    def __init__(
        self, words: str, reader: Reader, calls: int = CALLS, sides: tuple[int, ...] = (0,)
    ) -> None:
        """Set the condition, the reader, the maximum number of calls, and the judged sides."""
        self.name = reader.name
        self.sides = sides
        self._words = words
        self._reader = reader
        self._pacing = QuestionPacer(calls)
        self._last = f"{self.name} has not been asked yet."
        self._trouble: str | None = None
        """Why the last question failed; None: it was answered, or none was asked."""
        self._text = ""
        self._asking = False
        self._confirmations = 0

    async def rule(self, frame: Frame) -> Ruling:
        """Ask the reader whether the condition holds, if a question is due.

        Raises:
            JudgeUnavailable: The question failed and must be repeated.
        """
        text = get_frame_text(frame)
        if text is None:
            return Ruling(met=Met.UNSURE, observation="There is no text to read here.")
        if self._asking:
            return self._build_ruling(Met.UNSURE)
        if frame.gone is not None and not text:
            # A target that is gone may show nothing: judge by its last text.
            frame = frame.model_copy(update={"tail": self._text})
        self._text = get_frame_text(frame) or ""
        reason = self._pacing.observe_frame(frame)
        if reason is None:
            ruling = self._build_ruling(Met.UNSURE)
            again, left = ruling.look_again_seconds, frame.seconds_left
            late = again is not None and left is not None and again > left
            if self._pacing.calls or not late:
                return ruling
            # The wait will time out before the first question.
            return ruling.model_copy(update={"trouble": self._last})
        self._asking = True
        try:
            return await self._ask_reader(frame, reason)
        except NoAnswer as error:
            self._pacing.record_bad_answer(swayed=isinstance(error, PromptInjectionSuspected))
            self._trouble = str(error)
            raise
        except JudgeUnavailable as error:
            self._trouble = str(error)
            raise
        finally:
            self._asking = False

    async def _ask_reader(self, frame: Frame, reason: TextQuestionReason) -> Ruling:
        if reason is TextQuestionReason.CONFIRM:
            return await self._confirm_yes(frame)
        verdict, answered = await ask_reader(
            self._reader, INSTRUCTION, [build_text_question(self._words, frame)], ReaderVerdict
        )
        likely = verdict.is_likely
        self._last, self._trouble = answered.describe(verdict), None
        self._pacing.record_answer(
            reason,
            doubtful=likely,
            hints=verdict.expect_text or (),
            look_again_seconds=verdict.look_again_seconds,
        )
        if likely and frame.gone is not None and not self._pacing.is_exhausted:
            return await self._confirm_yes(frame)
        return self._build_ruling(Met.UNSURE if verdict.met is Met.YES else verdict.met)

    async def _confirm_yes(self, frame: Frame) -> Ruling:
        """Ask again about a yes, together with a decoy.

        Raises:
            PromptInjectionSuspected: The reader said yes to the decoy too.
        """
        self._confirmations += 1
        decoy = DECOYS[self._confirmations % len(DECOYS)]
        asked = [self._words, decoy]
        if self._confirmations % 2:
            asked.reverse()
        ids = {words: str(number) for number, words in enumerate(asked, 1)}
        parts = [describe_condition(number, words) for words, number in ids.items()]
        parts.append(build_confirmation(frame))
        found, answered = await ask_reader(
            self._reader, INSTRUCTION, parts, Confirmation, confirms=True
        )
        verdicts = answered.index_verdicts(found.verdicts, ids[decoy])
        verdict = verdicts.get(ids[self._words])
        if verdict is None:
            raise NoAnswer(f"{answered.reader} left the condition out.")
        self._last, self._trouble = answered.describe(verdict), None
        self._pacing.record_answer(
            TextQuestionReason.CONFIRM,
            hints=verdict.expect_text or (),
            look_again_seconds=verdict.look_again_seconds,
        )
        if verdict.is_likely:
            return Ruling(met=Met.YES, observation=self._last)
        return self._build_ruling(Met.UNSURE)

    def _build_ruling(self, met: Met) -> Ruling:
        said = f"{self._last}{self._describe_budget()}"
        if self._trouble is not None:
            said = f"{said} {self.name} is in trouble: {self._trouble}"
        return Ruling(
            met=met,
            observation=said,
            trouble=self._trouble,
            look_again_seconds=self._pacing.look_again_seconds(),
        )

    def _describe_budget(self) -> str:
        calls = self._pacing.calls
        if self._pacing.is_exhausted:
            return f" ({self.name} was asked {calls} times, as often as one wait may.)"
        if self._pacing.is_reserving:
            return (
                f" ({self.name} was asked {calls} times; the rest is kept for the end "
                "of the command.)"
            )
        return ""
