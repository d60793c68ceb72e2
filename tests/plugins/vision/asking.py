"""Questions to a reader, and what comes of them."""

from __future__ import annotations

import pytest

from taskmem_hookspecs import Met, Question, ReaderUnavailable
from taskmem_vision.picture_judge import PictureVerdict
from taskmem_vision.reader_questions import ReaderVerdict, ask_reader

QUESTION = Question(
    instruction="You judge.",
    parts=("Does it hold?",),
    answer_schema=ReaderVerdict.model_json_schema(),
)


def verdict(met=Met.NO, confidence=0.9, **fields):
    """Return a verdict on a condition that is judged by pictures."""
    given = {
        "id": "1",
        "observation": "Seen.",
        "expect_text": None,
        "look_again_seconds": None,
        "watch_box": None,
    }
    return PictureVerdict(met=met, confidence=confidence, **{**given, **fields})


async def ask(reader):
    """Ask anything, and return the verdict."""
    found, _ = await ask_reader(reader, "You judge.", ["Does it hold?"], ReaderVerdict)
    return found


async def failure(reader):
    """Ask in vain, and return the error."""
    with pytest.raises(ReaderUnavailable) as caught:
        await ask(reader)
    return caught.value
