"""Look at the screen for the recorder: what moves on it, and pictures without what is hidden.

Only what `take_picture` returns may be stored: all else is compared in memory and dropped.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from PIL import Image

from taskmem_hookspecs import TargetGone
from taskmem_hookspecs.errors import NoProvider
from taskmem_recall.private_browsing import STRIP, Privateness, judge_window, make_toolbar
from taskmem_recall.screen_windows import Box, ScreenWindow, overlaps
from taskmem_recall.window_exclusions import MARK_TITLE, Hidden, Rules, find_hidden
from taskmem_vision.capture.desktop import (
    DisplayEvents,
    DisplayGone,
    NotViewable,
    find_window_display,
)
from taskmem_vision.capture.privacy import black_out
from taskmem_vision.capture.screen import take_screenshot
from taskmem_vision.capture.sensor import list_sockets
from taskmem_vision.reading.page import Word

if TYPE_CHECKING:
    from taskmem_recall.recording_mark import RecordingMark
    from taskmem_vision.capture.window_details import WindowDetails
    from taskmem_vision.capture.x11 import X11Display

DARK: Final = 110
"""Mean brightness, of 255, below which a toolbar is dark."""
TRIES: Final = 3
"""How often a picture is taken again because windows changed meanwhile."""

ReadWords = Callable[[Image.Image], Awaitable[Sequence[Word]]]
"""Reads the words of a picture, on this machine."""


class WindowVerdict(NamedTuple):
    """What is known of a window for private browsing."""

    privateness: Privateness
    strip: bytes | None = None
    """Digest of the toolbar that was read; another one is read again. None: it stays as it is."""


class ScreenPicture(NamedTuple):
    """A picture that may be stored, and the window in front of it."""

    pixels: Image.Image
    """From the screen: four bytes in the order BGRX."""
    front: ScreenWindow


def find_display(environ: Mapping[str, str], display: str | None = None) -> str:
    """Return the display that the operator names, or else that of the user's terminal.

    Where that one is gone, or of another machine, it is the display of the environment, if that
    names one.

    Args:
        environ: The daemon's environment.
        display: As in DISPLAY, of the terminal in which the recording was switched on; None: it had
            none.

    Raises:
        DisplayGone: There is none that can be recorded; the message says why.
    """
    named = environ.get("DISPLAY")
    if display is not None and display != named and (not named or _is_here(display)):
        environ = {**environ, "DISPLAY": display}
    try:
        found = find_window_display(environ, sys.platform, list_sockets())
    except NoProvider as missing:
        raise DisplayGone(str(missing)) from missing
    if found.note and environ.get("WAYLAND_DISPLAY"):
        raise DisplayGone(found.note)
    return found.name or ""


class RecordedScreen:
    """A connection to the display that is recorded."""

    def __init__(self, display: X11Display) -> None:
        """Subscribe to what is painted and what becomes of windows.

        Raises:
            DisplayGone: The display is gone.
        """
        self.display: Final = display
        self.name: Final = display.name
        self._loop = asyncio.get_running_loop()
        self._happened = asyncio.Event()
        self._happened.set()
        self._gone: DisplayGone | None = None
        self._mark: RecordingMark | None = None
        self._judged: dict[tuple[int, int | None], WindowVerdict] = {}
        """What is known of windows for private browsing, by id and process."""
        self._processes: dict[int, tuple[Sequence[str], str]] = {}
        display.watch_window(display.root)
        display.watch_paint(display.root)
        self._loop.add_reader(display.handle, self._handle_readable)

    @classmethod
    def open(cls, environ: Mapping[str, str], display: str | None = None) -> RecordedScreen:
        """Connect to the display that `find_display` names.

        Raises:
            DisplayGone: There is none that can be recorded; the message says why.
        """
        name = find_display(environ, display)
        try:
            from taskmem_vision.capture.x11 import X11Display
        except (ImportError, OSError) as error:
            raise DisplayGone("The screen cannot be recorded without libxcb.") from error
        connection = X11Display(name)
        try:
            return cls(connection)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Remove the mark, and close the connection."""
        if self._mark is not None:
            self._mark.close()
        if self._gone is None:
            self._loop.remove_reader(self.display.handle)
        self.display.close()

    def show_mark(self) -> None:
        """Show on the screen that it is recorded, until the connection is closed.

        Raises:
            DisplayGone: It cannot be shown, so nothing should be recorded.
        """
        from taskmem_recall.recording_mark import RecordingMark

        self._mark = RecordingMark(self.name)

    async def wait_for_event(self) -> None:
        """Wait until something was painted, or became of a window.

        Raises:
            DisplayGone: The display is gone.
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
            DisplayGone: The display is gone.
        """
        self.display.rearm_paint()
        return take_screenshot(self.name)

    def _handle_readable(self) -> None:
        try:
            if self._gone is None and self.display.read_events() != DisplayEvents():
                self._happened.set()
        except DisplayGone as gone:
            self._gone = gone
            self._loop.remove_reader(self.display.handle)
            self._happened.set()

    def find_front(self) -> tuple[int, str] | None:
        """Return the id and title of the window in front; None: there is none."""
        number = self.display.find_front_window()
        window = None if number is None else self.display.read_window(number)
        if window is None:
            return None
        # Its title may change without anything painted.
        with suppress(TargetGone):
            self.display.watch_window(window.id)
        return window.id, window.title

    async def take_picture(self, rules: Rules, read_words: ReadWords) -> ScreenPicture | None:
        """Return a picture of the screen with everything hidden blacked out.

        None: the window in front is hidden, the screen is locked, or windows keep changing.

        Raises:
            DisplayGone: The display is gone.
        """
        if self._mark is not None:
            self._mark.raise_window()
        await self._judge_windows(self.list_windows(), read_words)
        size = self._read_size()
        for _ in range(TRIES):
            before = self.list_windows()
            hidden = find_hidden(before, size, rules, self._is_private)
            front = self._choose_front(before)
            if front is None or hidden.is_locked or front.id in hidden.windows:
                return None
            pixels = self._compose_picture(take_screenshot(self.name), before, hidden)
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
                pixels = black_out(pixels, [each.box])
            elif any(overlaps(each.box, other) for other in black):
                with suppress(NotViewable, TargetGone):
                    self.display.watch_paint(each.id)
                    place = self.display.read_box(each.id)
                    if place is not None:
                        pixels.paste(self.display.read_pixels(each.id), place[:2])
        return pixels

    def list_windows(self) -> list[ScreenWindow]:
        """Return all windows, topmost first, with what their processes say."""
        found = [self._make_window(each) for each in self.display.list_details()]
        pids = {each.pid for each in found}
        self._processes = {pid: each for pid, each in self._processes.items() if pid in pids}
        return found

    def _choose_front(self, windows: Sequence[ScreenWindow]) -> ScreenWindow | None:
        """Return the window in front, or the topmost if nobody says which that is."""
        number = self.display.find_front_window()
        shown = [each for each in windows if each.box is not None and not each.is_dock]
        named = [each for each in shown if each.id == number]
        # Without a manager, the mark is listed among the applications' windows.
        topmost = [each for each in shown if not each.is_popup and each.title != MARK_TITLE]
        return next(iter(named or topmost), None)

    def _read_size(self) -> tuple[int, int]:
        box = self.display.read_box(self.display.root)
        return (0, 0) if box is None else box[2:]

    # --- private browsing -----------------------------------------------------

    def _is_private(self, window: ScreenWindow) -> bool:
        known = self._judged.get((window.id, window.pid))
        found = judge_window(window, None) if known is None else known.privateness
        return found is not Privateness.OPEN

    async def _judge_windows(self, windows: Sequence[ScreenWindow], read_words: ReadWords) -> None:
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
                self._judged[key] = WindowVerdict(verdict)
            known = self._judged.get(key, WindowVerdict(Privateness.UNREAD, b""))
            if verdict is not Privateness.UNREAD or known.strip is None or each.box is None:
                continue
            if (strip := self._read_strip(each)) is None:
                continue
            digest = blake2b(strip.tobytes(), digest_size=16).digest()
            if digest != known.strip:
                toolbar = make_toolbar(
                    await read_words(strip), strip.width, is_dark=measure_brightness(strip) < DARK
                )
                found = judge_window(each, toolbar)
                is_final = found is Privateness.PRIVATE or (
                    found is Privateness.OPEN and not toolbar.is_dark
                )
                self._judged[key] = WindowVerdict(found, None if is_final else digest)

    def _read_strip(self, window: ScreenWindow) -> Image.Image | None:
        """Return a window's uppermost part, even if it is covered; None: it has no pixels."""
        try:
            self.display.watch_paint(window.id)
            pixels = self.display.read_pixels(window.id)
        except (NotViewable, TargetGone):
            return None
        return pixels.crop((0, 0, pixels.width, min(STRIP, pixels.height)))

    def _make_window(self, details: WindowDetails) -> ScreenWindow:
        arguments: Sequence[str] = ()
        language = ""
        if details.pid is not None:
            if details.pid not in self._processes:
                self._processes[details.pid] = read_process(details.pid)
            arguments, language = self._processes[details.pid]
        return ScreenWindow(
            **details._asdict(),
            arguments=arguments,
            language=language,
        )


def measure_brightness(pixels: Image.Image) -> int:
    """Return the mean brightness of pixels of the screen, of 255."""
    mean = pixels.convert("RGB").convert("L").resize((1, 1), Image.Resampling.BOX)  # pyright: ignore[reportUnknownMemberType]
    return mean.tobytes()[0]


def _is_here(display: str) -> bool:
    """Whether a display, as in DISPLAY, is one of this machine's that runs."""
    number = display.removeprefix(":").partition(".")[0]
    return display.startswith(":") and f"X{number}" in list_sockets()


def read_process(pid: int) -> tuple[Sequence[str], str]:
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
        said = next((environ[each] for each in names if environ.get(each)), "")
        language = said[:2].casefold() if said[:2].isalpha() and said[:1] != "C" else ""
    return arguments, language


def _read_strings(path: Path) -> Sequence[str]:
    return os.fsdecode(path.read_bytes()).rstrip("\0").split("\0")
