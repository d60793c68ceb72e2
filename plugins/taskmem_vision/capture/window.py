"""Watch `window:` on X11: a window's own pixels, its dialogs, and its title as text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from PIL import Image

from taskmem_hookspecs import TargetGone
from taskmem_vision.capture.desktop import Box, DisplayEvents, DisplayGone, NotViewable
from taskmem_vision.capture.privacy import Privacy
from taskmem_vision.capture.watch_base import PictureWatch
from taskmem_vision.capture.windows import Window, describe_window, find_dialogs
from taskmem_vision.change.look import Look

if TYPE_CHECKING:
    from taskmem_vision.capture.x11 import X11Display

_PRIVATE: Final = "The window has a title that is private now; it is not looked at."


class WindowWatch(PictureWatch):
    """`Watch` on one window."""

    def __init__(
        self, display: X11Display, window: Window, note: str | None, privacy: Privacy
    ) -> None:
        """Start to watch a window, on a display connection of its own.

        Raises:
            TargetGone: The window was just closed.
            DisplayGone: The display is gone.
        """
        super().__init__(note)
        self._display = display
        self._window = window
        self._privacy = privacy
        self._family: tuple[Window, ...] = ()
        """The window's dialogs, topmost first."""
        self._private: frozenset[int] = frozenset()
        """Ids of the private ones among the window and its dialogs."""
        self._family_is_stale = False
        """Whether titles or dialogs may have changed."""
        self._known = True
        """Whether the window's title is known; False after the display has gone."""
        self._listening = True
        self._loop = asyncio.get_running_loop()
        display.watch_window(display.root)
        display.watch_window(window.id)
        self._refresh_family()
        self._loop.add_reader(display.handle, self._process_events)

    async def wait_for_change(self) -> None:
        """Wait until something was painted or moved; return at most five times a second."""
        await self._throttle.wait_for_event()

    async def close(self) -> None:
        """Close the display connection."""
        self._hang_up()

    # --- looking ------------------------------------------------------------

    async def _refresh_look(self) -> str | None:
        why = None
        try:
            self._process_events()
            if self._family_is_stale and self._listening:
                self._refresh_family()
            due = self._look is None or self._throttle.is_due()
            if self._listening and not self._is_private and due:
                self._look = self._capture()
        except NotViewable as hidden:
            self._look, why = None, str(hidden)
        except TargetGone:
            self._lose_window("was closed")
        except DisplayGone:
            self._lose_window("went away with its display", known=False)
        if self._is_private:
            self._look, why = None, None if self._gone else _PRIVATE
        # Events that arrived with the replies do not make the socket readable, so read them now.
        self._loop.call_soon(self._process_events)
        return why

    @property
    def _text(self) -> str | None:
        """Titles of the window and its dialogs, one a line; None: private, or unknown."""
        if self._is_private or not self._known:
            return None
        open_ones = [each for each in self._family if each.id not in self._private]
        titles = (" ".join(each.title.split()) for each in (self._window, *open_ones))
        return "\n".join(dict.fromkeys(filter(None, titles)))

    @property
    def _is_private(self) -> bool:
        return self._privacy.covers(self._window)

    def _capture(self) -> Look | None:
        at = self._throttle.record_look()
        self._display.rearm_paint()
        pixels = self._compose_image()
        if self._privacy:
            before = self._private
            self._refresh_family()
            if self._private != before:
                # These pixels may be a private window's.
                self._throttle.note_event()
                return None
        return self._track.add_look(at, pixels, self._text)

    def _compose_image(self) -> Image.Image:
        """Return the window with its dialogs on top of it."""
        layers: list[tuple[Box, Image.Image | None]] = []
        with suppress(NotViewable):
            layers.append(self._read_layer(self._window))
        for each in reversed(self._family):
            with suppress(NotViewable, TargetGone):
                layers.append(self._read_layer(each))
        match layers:
            case []:
                # Read the window again for the reason why it has no pixels.
                return self._read_layer(self._window)[1] or Image.new("RGBX", (1, 1))
            case [(_, pixels)] if pixels is not None:
                return pixels
            case _:
                return _compose_layers(layers, self._display.read_box(self._display.root))

    def _read_layer(self, window: Window) -> tuple[Box, Image.Image | None]:
        """Return a window's box and pixels; None: the pixels are private."""
        place = self._display.read_box(window.id)
        if place is None:
            raise TargetGone("The window is closed.")
        if window.id in self._private:
            return place, None
        self._display.watch_paint(window.id)
        return place, self._display.read_pixels(window.id)

    # --- what happens -------------------------------------------------------

    def _process_events(self) -> None:
        if not self._listening:
            return
        try:
            x_events = self._display.read_events()
        except DisplayGone:
            self._lose_window("went away with its display", known=False)
            return
        if self._window.id in x_events.closed:
            self._lose_window("was closed")
        elif x_events != DisplayEvents():
            stale = x_events.changed or bool(x_events.closed)
            self._family_is_stale = self._family_is_stale or stale
            self._throttle.note_event()
            # Read more in a later iteration, so that a flood of events does not block the loop.
            self._loop.call_soon(self._process_events)

    def _refresh_family(self) -> None:
        """Read the window's current title and its dialogs."""
        self._family_is_stale = False
        window = self._display.read_window(self._window.id)
        if window is None:
            raise TargetGone("The window is closed.")
        self._window = window
        everything = self._display.list_windows()
        self._family = find_dialogs(window, everything)
        private = self._privacy.find_private((window, *self._family))
        self._private = frozenset(each.id for each in private)
        for each in self._family:
            with suppress(TargetGone):
                self._display.watch_window(each.id)

    def _lose_window(self, how: str, *, known: bool = True) -> None:
        self._known = known
        called = "" if self._is_private else f" {describe_window(self._window)}"
        self._gone = f"The window{called} {how}."
        self._look = None
        self._throttle.note_event()
        self._hang_up()

    def _hang_up(self) -> None:
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self._display.handle)
            self._display.close()


def _compose_layers(
    layers: Sequence[tuple[Box, Image.Image | None]], screen: Box | None
) -> Image.Image:
    """Paste pictures at their boxes, the last on top; None is black.

    Parts more than a screen away from the first are cut off: some programs put hidden windows
    there, and the picture would otherwise be unbounded.
    """
    (x, y, width, height), _ = layers[0]
    far = screen[2:] if screen is not None else (0, 0)
    left = max(x - far[0], min(box[0] for box, _ in layers))
    top = max(y - far[1], min(box[1] for box, _ in layers))
    right = min(x + width + far[0], max(box[0] + box[2] for box, _ in layers))
    bottom = min(y + height + far[1], max(box[1] + box[3] for box, _ in layers))
    canvas = Image.new("RGBX", (right - left, bottom - top))
    for (x, y, width, height), pixels in layers:
        corner = (x - left, y - top)
        canvas.paste(pixels or Image.new("RGBX", (width, height)), corner)
    return canvas
