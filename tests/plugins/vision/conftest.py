from __future__ import annotations

import pytest

from taskmem_vision.gemini import Gemini
from tests.plugins.vision.fake_gemini import FakeGemini


@pytest.fixture
def server():
    """A fake Gemini, which says no unless it is told otherwise."""
    with FakeGemini() as fake:
        yield fake


@pytest.fixture
def gemini(server):
    """A client of that server, with a limit that no test reaches."""
    return Gemini({**server.environ, "TASKMEM_JUDGE_TIMEOUT_SECONDS": "60"})
