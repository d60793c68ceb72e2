"""One question to a Gemini, and what comes of it."""

from __future__ import annotations

import pytest

from taskmem_hookspecs import JudgeUnavailable
from taskmem_vision.judges.question import Verdict


async def ask(gemini):
    """Ask anything."""
    return await gemini.ask("You judge.", ["Does it hold?"], Verdict)


async def failure(gemini):
    """Ask in vain, and return the error."""
    with pytest.raises(JudgeUnavailable) as caught:
        await ask(gemini)
    return caught.value
