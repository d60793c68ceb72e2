"""Questions about pictures: those about one scene are put together."""

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
"""How long a question waits for others about the same scene."""
TOGETHER: Final = 16
"""Conditions in one question."""


@dataclass(slots=True)
class _Batch:
    """One request that is being put together."""

    conditions: dict[str, str] = field(default_factory=dict[str, str])
    asking: asyncio.Task[tuple[dict[str, PictureVerdict], ReaderReply]] | None = None


class QuestionBatcher:
    """Asks one reader for all who wait on pictures."""

    def __init__(self, reader: Reader) -> None:
        """Take whom to ask."""
        self.reader: Final = reader
        self._rounds: dict[object, _Batch] = {}
        self._asked = 0

    async def ask(
        self, words: str, scene: Scene, *, alone: bool = False
    ) -> tuple[PictureVerdict, ReaderReply]:
        """Return the reader's verdict on a condition, and who gave it.

        Args:
            words: The condition.
            scene: What is shown.
            alone: Whether to ask about nothing else: a question that is refused, or
                answered with nonsense, may be so because of another condition.

        Raises:
            Swayed: It also said yes to what never holds.
            NoAnswer: It answered, and not what it was asked for.
            JudgeUnavailable: It did not answer; the sentence says why.
        """
        joined = self._join_batch(object() if alone else scene.key)
        number = str(len(joined.conditions) + 1)
        joined.conditions[number] = words
        if joined.asking is None:
            joined.asking = asyncio.create_task(self._ask_batch(joined, scene))
            joined.asking.add_done_callback(consume_exception)
        # Who gives up does so alone.
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
