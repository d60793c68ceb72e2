"""Look at the screen for the recorder: what moves on it, and pictures without what is hidden.

Only what `take_picture` returns may be stored: all else is compared in memory and dropped.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from PIL import Image

from taskmem_recorder.displays import DisplayLost, find_display
from taskmem_recorder.text import ScreenWord
from taskmem_recorder.windows import (
    MARK_TITLE,
    STRIP_HEIGHT,
    Box,
    Hidden,
    Privateness,
    Rules,
    ScreenWindow,
    find_hidden,
    judge_window,
    make_toolbar,
    overlaps,
)

if TYPE_CHECKING:
    from taskmem_recorder.x11 import RecordedDisplay

_DARK_BRIGHTNESS: Final = 110
"""Mean brightness, of 255, below which a toolbar is dark."""
_MOST_TRIES: Final = 3
"""How often a picture is taken again because windows changed meanwhile."""

_ReadWords = Callable[[Image.Image], Awaitable[Sequence[ScreenWord]]]
"""Reads the words of a picture, on this machine."""


class _WindowVerdict(NamedTuple):
    """Verdict on a window: is it for private browsing?"""

    privateness: Privateness
    strip: bytes | None = None
    """Digest of the toolbar that was read; another one is read again. None: it stays as it is."""


class ScreenPicture(NamedTuple):
    """A picture that may be stored, and the window in front of it."""

    pixels: Image.Image
    """From the screen: four bytes in the order BGRX."""
    front: ScreenWindow


class RecordedScreen:
    """The display that is recorded."""

    def __init__(self, display: RecordedDisplay) -> None:
        """Wait for the events of a display, which `close` closes."""
        self._display: Final = display
        self.name: Final = display.name
        self._loop = asyncio.get_running_loop()
        self._happened = asyncio.Event()
        self._happened.set()
        self._gone: DisplayLost | None = None
        self._judged: dict[tuple[int, int | None], _WindowVerdict] = {}
        """Verdicts on windows that may be for private browsing, by id and process."""
        self._processes: dict[int, tuple[Sequence[str], str]] = {}
        """Arguments and language of processes, by their ids."""
        self._loop.add_reader(display.handle, self._handle_readable)

    @classmethod
    def open(cls, environ: Mapping[str, str], terminal: str | None = None) -> RecordedScreen:
        """Connect to the display that `find_display` names.

        Raises:
            DisplayLost: There is none that can be recorded; the message says why.
        """
        name = find_display(environ, terminal)
        try:
            from taskmem_recorder import x11
        except (ImportError, OSError) as error:
            raise DisplayLost("The screen cannot be recorded without libxcb.") from error
        return cls(x11.RecordedDisplay(name))

    def close(self) -> None:
        """Close the connection, which removes the mark."""
        if self._gone is None:
            self._loop.remove_reader(self._display.handle)
        self._display.close()

    def show_mark(self) -> None:
        """Show on the screen that it is recorded, until the connection is closed.

        Raises:
            DisplayLost: It cannot be shown, so nothing should be recorded.
        """
        self._display.show_mark()

    async def wait_for_event(self) -> None:
        """Wait until something was painted, or became of a window.

        Raises:
            DisplayLost: The display is gone.
        """
        # Events that came with replies do not make the socket readable, so read them now.
        self._handle_readable()
        await self._happened.wait()
        self._happened.clear()
        if self._gone is not None:
            raise self._gone

    def look(self) -> Image.Image:
        """Return what the screen shows, for comparison only.

        Raises:
            DisplayLost: The display is gone.
        """
        self._display.rearm_paint()
        return self._display.take_screenshot()

    def _handle_readable(self) -> None:
        try:
            if self._gone is None and self._display.read_events():
                self._happened.set()
        except DisplayLost as gone:
            self._gone = gone
            self._loop.remove_reader(self._display.handle)
            self._happened.set()

    def find_front(self) -> tuple[int, str] | None:
        """Return the id and title of the window in front; None: there is none."""
        number = self._display.find_front_window()
        title = None if number is None else self._display.read_title(number)
        if number is None or title is None:
            return None
        # Its title may change without anything painted.
        self._display.watch_window(number)
        return number, title

    async def take_picture(self, rules: Rules, read_words: _ReadWords) -> ScreenPicture | None:
        """Return a picture of the screen with everything hidden blacked out.

        None: the window in front is hidden, the screen is locked, or windows keep changing.

        Raises:
            DisplayLost: The display is gone.
        """
        self._display.raise_mark()
        await self._judge_windows(self.list_windows(), read_words)
        size = self._display.read_size()
        for _ in range(_MOST_TRIES):
            before = self.list_windows()
            hidden = find_hidden(before, size, rules, self._is_private)
            front = self._choose_front(before)
            if front is None or hidden.is_locked or front.id in hidden.windows:
                return None
            pixels = self._compose_picture(self._display.take_screenshot(), before, hidden)
            # A window may have appeared, moved or changed its title during the capture.
            after = self.list_windows()
            if before == after and front == self._choose_front(after):
                return ScreenPicture(pixels, front)
        return None

    def _compose_picture(
        self, pixels: Image.Image, windows: Sequence[ScreenWindow], hidden: Hidden
    ) -> Image.Image:
        """Return a screenshot in which hidden windows are black, and what lies over them is not.

        What lies over them is taken from each window's own pixels, so that nothing shines through.
        """
        black: list[Box] = []
        for each in reversed(windows):
            if each.box is None:
                continue
            if each.id in hidden.windows:
                black.append(each.box)
                pixels = _black_out(pixels, each.box)
            elif any(overlaps(each.box, other) for other in black):
                place = self._display.read_box(each.id)
                own = self._display.read_pixels(each.id)
                if place is not None and own is not None:
                    pixels.paste(own, place[:2])
        return pixels

    def list_windows(self) -> list[ScreenWindow]:
        """Return all windows, topmost first, with what their processes say."""
        windows = self._display.list_windows()
        pids = {each.pid for each in windows if each.pid is not None}
        self._processes = {pid: self._processes.get(pid) or _read_process(pid) for pid in pids}
        unknown: tuple[Sequence[str], str] = ((), "")
        facts = [self._processes.get(each.pid or 0, unknown) for each in windows]
        return [
            each._replace(arguments=arguments, language=language)
            for each, (arguments, language) in zip(windows, facts, strict=True)
        ]

    def _choose_front(self, windows: Sequence[ScreenWindow]) -> ScreenWindow | None:
        """Return the window in front, or the topmost if nobody says which that is."""
        number = self._display.find_front_window()
        shown = [each for each in windows if each.box is not None and not each.is_dock]
        named = [each for each in shown if each.id == number]
        # Without a manager, the mark is listed among the applications' windows.
        topmost = [each for each in shown if not each.is_popup and each.title != MARK_TITLE]
        return next(iter(named or topmost), None)

    # --- private browsing -----------------------------------------------------

    def _is_private(self, window: ScreenWindow) -> bool:
        known = self._judged.get((window.id, window.pid))
        verdict = judge_window(window, None) if known is None else known.privateness
        return verdict is not Privateness.OPEN

    async def _judge_windows(self, windows: Sequence[ScreenWindow], read_words: _ReadWords) -> None:
        """Find out which windows are for private browsing.

        A private window is known for its life, and so is one whose toolbar is not dark. Any other
        is read again whenever its toolbar looks different: the word may have been missed.
        """
        there = {(each.id, each.pid) for each in windows}
        self._judged = {key: each for key, each in self._judged.items() if key in there}
        for each in windows:
            key, verdict = (each.id, each.pid), judge_window(each, None)
            if verdict is Privateness.PRIVATE:
                # A title may stop saying so; the window stays what it is.
                self._judged[key] = _WindowVerdict(verdict)
            known = self._judged.get(key, _WindowVerdict(Privateness.UNREAD, b""))
            if verdict is not Privateness.UNREAD or known.strip is None or each.box is None:
                continue
            if (strip := self._display.read_pixels(each.id, STRIP_HEIGHT)) is None:
                continue
            digest = blake2b(strip.tobytes(), digest_size=16).digest()
            if digest != known.strip:
                toolbar = make_toolbar(
                    await read_words(strip),
                    strip.width,
                    is_dark=_measure_brightness(strip) < _DARK_BRIGHTNESS,
                )
                privateness = judge_window(each, toolbar)
                is_final = privateness is Privateness.PRIVATE or (
                    privateness is Privateness.OPEN and not toolbar.is_dark
                )
                self._judged[key] = _WindowVerdict(privateness, None if is_final else digest)


def _measure_brightness(pixels: Image.Image) -> int:
    """Return the mean brightness of pixels of the screen, of 255."""
    mean = pixels.convert("RGB").convert("L").resize((1, 1), Image.Resampling.BOX)  # pyright: ignore[reportUnknownMemberType]
    return mean.tobytes()[0]


def _black_out(pixels: Image.Image, box: Box) -> Image.Image:
    """Return a picture with a box filled with black."""
    left, top, width, height = box
    pixels = pixels.copy()
    pixels.paste(0, (left, top, left + width, top + height))
    return pixels


def _read_process(pid: int) -> tuple[Sequence[str], str]:
    """Return a process's arguments and its language, such as `de`; empty: unknown."""
    arguments: Sequence[str] = ()
    language = ""
    with suppress(OSError):
        arguments = _read_strings(Path(f"/proc/{pid}/cmdline"))
        if len(arguments) == 1:
            # Chromium writes all of them as one.
            arguments = arguments[0].split(" ")
    with suppress(OSError):
        listed = (each.partition("=") for each in _read_strings(Path(f"/proc/{pid}/environ")))
        environ = {name: value for name, _, value in listed}
        names = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
        locale = next((environ[each] for each in names if environ.get(each)), "")
        language = locale[:2].casefold() if locale[:2].isalpha() and locale[:1] != "C" else ""
    return arguments, language


def _read_strings(path: Path) -> Sequence[str]:
    return os.fsdecode(path.read_bytes()).rstrip("\0").split("\0")
