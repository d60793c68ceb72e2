"""Batch questions about pictures: conditions about the same scene share one request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from taskmem_hookspecs import NoAnswer, Reader
from taskmem_vision.change.pending_pictures import consume_exception
from taskmem_vision.judges.picture_question import (
    INSTRUCTION,
    PictureVerdict,
    PictureVerdicts,
    Scene,
    build_picture_question,
)
from taskmem_vision.judges.reader_questions import DECOYS, ReaderReply, ask_reader

GATHER: Final = 0.01
"""How long a question waits for others about the same scene. Seconds."""
TOGETHER: Final = 16
"""Maximum number of conditions in one request."""


@dataclass(slots=True)
class _Batch:
    """A request that is being collected."""

    conditions: dict[str, str] = field(default_factory=dict[str, str])
    asking: asyncio.Task[tuple[dict[str, PictureVerdict], ReaderReply]] | None = None


class QuestionBatcher:
    """Asks one reader on behalf of all waits on pictures."""

    def __init__(self, reader: Reader) -> None:
        """Set the reader."""
        self.reader: Final = reader
        self._rounds: dict[object, _Batch] = {}
        self._asked = 0

    async def ask(
        self, words: str, scene: Scene, *, alone: bool = False
    ) -> tuple[PictureVerdict, ReaderReply]:
        """Return the reader's verdict on a condition, and its reply.

        Args:
            words: The condition.
            scene: What is shown.
            alone: Whether to ask about this condition only: another condition may be the reason
                for a refused or invalid answer.

        Raises:
            PromptInjectionSuspected: The reader also said yes to the decoy.
            NoAnswer: The reply is not an answer to the question.
            JudgeUnavailable: There was no reply; the message says why.
        """
        joined = self._join_batch(object() if alone else scene.key)
        number = str(len(joined.conditions) + 1)
        joined.conditions[number] = words
        if joined.asking is None:
            joined.asking = asyncio.create_task(self._ask_batch(joined, scene))
            joined.asking.add_done_callback(consume_exception)
        # Shielded: a cancelled caller does not cancel the others' request.
        verdicts, answered = await asyncio.shield(joined.asking)
        if number not in verdicts:
            raise NoAnswer(f"{answered.reader} left a condition out.")
        return verdicts[number], answered

    def _join_batch(self, key: object) -> _Batch:
        known = self._rounds.get(key)
        if known is None or len(known.conditions) >= TOGETHER:
            known = self._rounds[key] = _Batch()
        return known

    async def _ask_batch(
        self, joined: _Batch, scene: Scene
    ) -> tuple[dict[str, PictureVerdict], ReaderReply]:
        await asyncio.sleep(GATHER)
        for key in [key for key, each in self._rounds.items() if each is joined]:
            del self._rounds[key]
        decoy = str(len(joined.conditions) + 1)
        self._asked += 1
        asked = {**joined.conditions, decoy: DECOYS[self._asked % len(DECOYS)]}
        found, answered = await ask_reader(
            self.reader, INSTRUCTION, build_picture_question(asked, scene), PictureVerdicts
        )
        return answered.index_verdicts(found.verdicts, decoy), answered
