"""`window:` on X11: one window's own pixels, its dialogs with it, its title as text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from PIL import Image

from taskmem_hookspecs import TargetGone
from taskmem_vision.capture.display import Box, DisplayGone, Heard, NotViewable
from taskmem_vision.capture.privacy import Privacy
from taskmem_vision.capture.watch import PictureWatch
from taskmem_vision.capture.windows import Window, dialogs, name
from taskmem_vision.looking.look import Look

if TYPE_CHECKING:
    from taskmem_vision.capture.x11 import X11Display

_PRIVATE: Final = "The window has a title that is private now; it is not looked at."


class WindowWatch(PictureWatch):
    """Plays `Watch`."""

    def __init__(
        self, display: X11Display, window: Window, note: str | None, privacy: Privacy
    ) -> None:
        """Take a display for it alone, the window, and what there is to say of it.

        Raises:
            TargetGone: The window was closed just now.
            DisplayGone: So is the display.
        """
        super().__init__(note)
        self._display = display
        self._window = window
        self._privacy = privacy
        self._family: tuple[Window, ...] = ()
        """The window's dialogs, the top-most first."""
        self._private: frozenset[int] = frozenset()
        """Which of them are not to be seen."""
        self._unmet = False
        """Whether titles or dialogs may be others by now."""
        self._known = True
        """Whether it can be told what the window is called, and whether it closed."""
        self._listening = True
        self._loop = asyncio.get_running_loop()
        display.attend(display.root)
        display.attend(window.id)
        self._meet()
        self._loop.add_reader(display.handle, self._hear)

    async def changed(self) -> None:
        """Return when something was painted or moved, at most five times a second."""
        await self._news.come()

    async def close(self) -> None:
        """Hang up."""
        self._hang_up()

    # --- looking ------------------------------------------------------------

    async def _see(self) -> str | None:
        why = None
        try:
            self._hear()
            if self._unmet and self._listening:
                self._meet()
            due = self._look is None or self._news.due()
            if self._listening and not self._secret and due:
                self._look = self._capture()
        except NotViewable as hidden:
            self._look, why = None, str(hidden)
        except TargetGone:
            self._lose("was closed")
        except DisplayGone:
            self._lose("went away with its display", known=False)
        if self._secret:
            self._look, why = None, None if self._gone else _PRIVATE
        # What happened meanwhile was read with the answers, and wakes nobody.
        self._loop.call_soon(self._hear)
        return why

    @property
    def _text(self) -> str | None:
        """The window's title, and those of its dialogs, a line each; None: private."""
        if self._secret or not self._known:
            return None
        open_ones = [each for each in self._family if each.id not in self._private]
        titles = (" ".join(each.title.split()) for each in (self._window, *open_ones))
        return "\n".join(dict.fromkeys(filter(None, titles)))

    @property
    def _secret(self) -> bool:
        return self._privacy.covers(self._window)

    def _capture(self) -> Look | None:
        at = self._news.looked()
        self._display.forget_painted()
        pixels = self._composed()
        if self._privacy:
            before = self._private
            self._meet()
            if self._private != before:
                # Nobody can tell whose pixels these are.
                self._news.stir()
                return None
        return self._track.take(at, pixels, self._text)

    def _composed(self) -> Image.Image:
        """Return the window and its dialogs as they lie on one another."""
        layers: list[tuple[Box, Image.Image | None]] = []
        with suppress(NotViewable):
            layers.append(self._layer(self._window))
        for each in reversed(self._family):
            with suppress(NotViewable, TargetGone):
                layers.append(self._layer(each))
        match layers:
            case []:
                # Nothing but the window says why.
                return self._layer(self._window)[1] or Image.new("RGBX", (1, 1))
            case [(_, pixels)] if pixels is not None:
                return pixels
            case _:
                return _laid(layers, self._display.place(self._display.root))

    def _layer(self, window: Window) -> tuple[Box, Image.Image | None]:
        """Return where a window is, and its pixels; None: they are private."""
        place = self._display.place(window.id)
        if place is None:
            raise TargetGone("The window is closed.")
        if window.id in self._private:
            return place, None
        self._display.attend_paint(window.id)
        return place, self._display.pixels(window.id)

    # --- what happens -------------------------------------------------------

    def _hear(self) -> None:
        if not self._listening:
            return
        try:
            heard = self._display.listen()
        except DisplayGone:
            self._lose("went away with its display", known=False)
            return
        if self._window.id in heard.closed:
            self._lose("was closed")
        elif heard != Heard():
            self._unmet = self._unmet or heard.changed or bool(heard.closed)
            self._news.stir()
            # There may be more, and nobody is held up by one who never stops.
            self._loop.call_soon(self._hear)

    def _meet(self) -> None:
        """Learn what the window is called now, and which dialogs it has."""
        self._unmet = False
        window = self._display.window(self._window.id)
        if window is None:
            raise TargetGone("The window is closed.")
        self._window = window
        everything = self._display.windows()
        self._family = dialogs(window, everything)
        private = self._privacy.among((window, *self._family))
        self._private = frozenset(each.id for each in private)
        for each in self._family:
            with suppress(TargetGone):
                self._display.attend(each.id)

    def _lose(self, how: str, *, known: bool = True) -> None:
        self._known = known
        called = "" if self._secret else f" {name(self._window)}"
        self._gone = f"The window{called} {how}."
        self._look = None
        self._news.stir()
        self._hang_up()

    def _hang_up(self) -> None:
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self._display.handle)
            self._display.close()


def _laid(
    layers: Sequence[tuple[Box, Image.Image | None]], screen: Box | None
) -> Image.Image:
    """Return pictures in one, each at its place, the last on top; None is black.

    What is more than a screen away from the first is left out: some programs put what
    they hide there, and the picture has no bounds else.
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
