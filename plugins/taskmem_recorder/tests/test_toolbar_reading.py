"""When a browser's toolbar is read again, by a reader of the test's own."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from PIL import Image

from taskmem_recorder.screen import RecordedScreen
from taskmem_recorder.text import ScreenWord
from taskmem_recorder.windows import ScreenWindow

CHROMIUM = ScreenWindow(
    1, "Plain page - Chromium", "Chromium", "chromium", "browser", box=(0, 0, 900, 560)
)
TABS = ScreenWord("Plain page", 77, 150, 13, 27)
ADDRESS = ScreenWord("example.org", 155, 300, 56, 71)
PRIVATE = ScreenWord("Incognito", 774, 860, 56, 71)


class Display:
    """A display with one window, in the colour that the test gives."""

    name = ":7"

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.colour = "#202020"

    def read_pixels(self, _: int, height: int) -> Image.Image:
        return Image.new("RGBX", (900, height), self.colour)


class ToolbarRoom:
    """A screen with a window of Chromium, and what is read of its toolbar."""

    def __init__(self, handle: int) -> None:
        self.display = Display(handle)
        self.screen = RecordedScreen(self.display)
        self.readings = 0

    async def is_recorded(self, *words: ScreenWord) -> bool:
        """Whether the window is recorded; `words`: what its toolbar would be read as."""

        async def find_words(_: Image.Image) -> tuple[ScreenWord, ...]:
            self.readings += 1
            return words

        await self.screen._judge_windows([CHROMIUM], find_words)
        return not self.screen._is_private(CHROMIUM)


@pytest.fixture
async def room() -> Iterator[ToolbarRoom]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        room = ToolbarRoom(ours.fileno())
        yield room
        room.screen._loop.remove_reader(ours.fileno())


async def test_a_window_is_left_out_until_its_toolbar_was_read(room) -> None:
    assert not await room.is_recorded()
    room.display.colour = "#212121"
    assert not await room.is_recorded(TABS)
    room.display.colour = "#222222"
    assert await room.is_recorded(TABS, ADDRESS)


async def test_a_dark_toolbar_that_has_changed_is_read_again(room) -> None:
    assert await room.is_recorded(TABS, ADDRESS)
    assert await room.is_recorded(TABS, ADDRESS, PRIVATE)
    assert room.readings == 1, "the same toolbar is not read twice"
    room.display.colour = "#222222"
    assert not await room.is_recorded(TABS, ADDRESS, PRIVATE)
    room.display.colour = "#232323"
    assert not await room.is_recorded(TABS, ADDRESS)
    assert room.readings == 2, "a private window stays private"


async def test_a_light_toolbar_is_read_once(room) -> None:
    room.display.colour = "#f0f0f0"
    assert await room.is_recorded(TABS, ADDRESS)
    room.display.colour = "#f1f1f1"
    assert await room.is_recorded()
    assert room.readings == 1
