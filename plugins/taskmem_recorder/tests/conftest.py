from __future__ import annotations

import pytest

from plugins.taskmem_recorder.tests.recording_room import run_recorder
from tests.conftest import _isolate_home, text_snapshot
from tests.pages.conftest import chromium
from tests.support.screens import Screen, require_screen

__all__ = ["_isolate_home", "chromium", "text_snapshot"]


@pytest.fixture(scope="module")
def screen():
    """A screen with a window manager."""
    require_screen("tesseract")
    with Screen((1280, 800)) as found:
        yield found


@pytest.fixture
def room(screen, tmp_path):
    """A home whose recorder runs, and is off."""
    with run_recorder(tmp_path, screen) as found:
        yield found


@pytest.fixture
def witness(screen, tmp_path):
    """Another home, which records the same screen: what it has seen, the first could have."""
    with run_recorder(tmp_path / "witness", screen) as found:
        found.switch_on()
        yield found
