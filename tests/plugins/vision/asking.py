"""One question to a Gemini, and what comes of it."""

from __future__ import annotations

import pytest

from taskmem_hookspecs import Question, ReaderUnavailable
from taskmem_vision.judges.asking import Verdict, ask_reader

QUESTION = Question(
    instruction="You judge.",
    parts=("Does it hold?",),
    answer_schema=Verdict.model_json_schema(),
)


async def ask(reader):
    """Ask anything, and return the verdict."""
    verdict, _ = await ask_reader(reader, "You judge.", ["Does it hold?"], Verdict)
    return verdict


async def failure(reader):
    """Ask in vain, and return the error."""
    with pytest.raises(ReaderUnavailable) as caught:
        await ask(reader)
    return caught.value
