"""Watch `screen`: everything the monitors show, by mss, on every system.

On X11 the server reports painting; elsewhere the screen is polled, more often for a while after a
change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import mss
from mss.exception import ScreenShotError
from PIL import Image

from taskmem_vision.capture.desktop import Box, Desktop, DisplayEvents, DisplayGone
from taskmem_vision.capture.privacy import Privacy, black_out
from taskmem_vision.capture.watch_base import PictureWatch

if TYPE_CHECKING:
    from taskmem_vision.capture.x11 import X11Display


class ScreenWatch(PictureWatch):
    """`Watch` on a screen."""

    def __init__(
        self, desktop: Desktop, privacy: Privacy, connect: Callable[[str], X11Display] | None
    ) -> None:
        """Start to watch.

        Args:
            desktop: The display of the screen.
            privacy: Decides which windows are private.
            connect: Connects to a display that reports painting; None: there is none.

        Raises:
            DisplayGone: It cannot be reached.
        """
        super().__init__(desktop.note)
        self._desktop = desktop
        self._privacy = privacy
        self._connect = connect
        self._display: X11Display | None = None
        self._loop = asyncio.get_running_loop()
        try:
            self._listen()
            self._capture()
        except BaseException:
            self._hang_up()
            raise

    async def wait_for_change(self) -> None:
        """Wait until something was painted, at least 0.2 s after the last look.

        Without paint events, wait until the next poll is due.
        """
        if self._display is not None:
            await self._throttle.wait_for_event()
        else:
            await self._throttle.wait_for_poll()

    async def close(self) -> None:
        """Close the connection to the display."""
        self._hang_up()

    # --- looking ------------------------------------------------------------

    async def _refresh_look(self) -> str | None:
        why = None
        try:
            self._listen()
            self._process_events()
            if self._look is None or self._throttle.is_due():
                self._capture()
        except DisplayGone as gone:
            why = f"The screen cannot be seen just now: {gone}"
            self._look = None
            self._hang_up()
            self._throttle.record_look()
        # Events that arrived with the replies do not make the socket readable, so read them now.
        self._loop.call_soon(self._handle_readable)
        return why

    def _capture(self) -> None:
        at = self._throttle.record_look()
        if self._display is not None:
            self._display.rearm_paint()
        hidden = self._find_private_boxes()
        pixels = take_screenshot(self._desktop.name)
        # A window may have appeared or moved during the capture.
        self._keep_look(
            self._track.add_look(at, black_out(pixels, {*hidden, *self._find_private_boxes()}))
        )

    def _find_private_boxes(self) -> list[Box]:
        """Return the boxes of private windows with their frames, which show titles."""
        if not self._privacy or self._display is None:
            return []
        private = self._privacy.find_private(self._display.list_windows())
        boxes = (self._display.read_frame_box(each.id) for each in private if each.shown)
        return [box for box in boxes if box is not None]

    # --- what happens -------------------------------------------------------

    def _listen(self) -> None:
        """Subscribe to paint events, if the display has them."""
        name = self._desktop.name
        if self._connect is None or name is None or self._display is not None:
            return
        display = self._connect(name)
        try:
            display.watch_window(display.root)
            display.watch_paint(display.root)
        except BaseException:
            display.close()
            raise
        self._display = display
        self._loop.add_reader(display.handle, self._handle_readable)
        self._throttle.note_event()

    def _handle_readable(self) -> None:
        try:
            self._process_events()
        except DisplayGone:
            self._hang_up()

    def _process_events(self) -> None:
        if self._display is not None and self._display.read_events() != DisplayEvents():
            self._throttle.note_event()
            # Read more in a later iteration, so that a flood of events does not block the loop.
            self._loop.call_soon(self._handle_readable)

    def _hang_up(self) -> None:
        if self._display is not None:
            self._loop.remove_reader(self._display.handle)
            self._display.close()
            self._display = None
            self._look = None
            self._throttle.note_event()


def take_screenshot(display: str | None) -> Image.Image:
    """Return what the monitors of a display show, as BGRX data labelled RGBX.

    Raises:
        DisplayGone: The screen cannot be captured.
    """
    try:
        # Created for each capture, because it reads the monitors only at creation.
        with closing(_open_camera(display)) as camera:
            taken = camera.grab(camera.monitors[0])
            return Image.frombuffer("RGBX", taken.size, taken.raw, "raw", "RGBX", 0, 1)
    except ScreenShotError as error:
        raise DisplayGone(f"The screen cannot be seen ({error}).") from error


def _open_camera(display: str | None) -> mss.MSS:
    return mss.MSS(display=display) if display else mss.MSS()
