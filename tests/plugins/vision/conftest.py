from __future__ import annotations

import pytest

from taskmem_vision.gemini import Gemini
from tests.plugins.vision.fake_gemini import FakeGemini
from tests.support.screens import Screen, require_screen


@pytest.fixture
def server():
    """A fake Gemini, which says no unless it is told otherwise."""
    with FakeGemini() as fake:
        yield fake


@pytest.fixture
def gemini(server):
    """A client of that server."""
    return Gemini(server.environ)


@pytest.fixture(scope="module")
def screen():
    """A screen with a window manager."""
    require_screen()
    with Screen((1280, 800)) as found:
        yield found


@pytest.fixture(scope="module")
def bare():
    """A screen without a window manager."""
    require_screen()
    with Screen((640, 480), manager=False) as found:
        yield found


@pytest.fixture
def papers(screen):
    """Bare windows on that screen."""
    from tests.plugins.vision.papers import papers_on

    with papers_on(screen) as found:
        yield found
