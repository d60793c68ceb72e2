"""Watch on a Wayland screen, or on one window of a session of sway."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Final

from PIL import Image

from taskmem_hookspecs import TargetGone
from taskmem_hookspecs.errors import NoProvider
from taskmem_vision.desktop import (
    HIDDEN_WINDOW,
    DisplayGone,
    NotViewable,
    Privacy,
    Window,
    find_dialogs,
)
from taskmem_vision.picture_watch import PRIVATE_TITLE, PictureWatch, describe_loss, list_titles
from taskmem_vision.portal import PortalDisplay
from taskmem_vision.sway import WindowTree, subscribe_events
from taskmem_vision.wayland import WaylandDisplay

_SETTLE_SECONDS: Final = 0.3
"""Time after which sway has painted its windows where it says that they are. Seconds."""
_MOST_LOOKS: Final = 5
"""How often a look is tried while windows move."""
_PIECE: Final = 1 << 16


class WaylandWatch(PictureWatch):
    """`Watch` on a Wayland screen, or on one window of sway's."""

    def __init__(
        self,
        display: WaylandDisplay | PortalDisplay,
        note: str | None,
        privacy: Privacy,
        window: Window | None = None,
    ) -> None:
        """Set what is watched; `window` None: the whole screen."""
        super().__init__(note)
        self._display = display
        self._privacy = privacy
        self._window = window
        self._dialogs: tuple[Window, ...] = ()
        """Those of the window that are not private, topmost first."""
        self._known = True
        """True if the window's title is known; False after its session has ended."""
        self._spots: object = None
        """Where the windows and which of them were private at the last look."""
        self._why: str | None = None
        """Why nothing could be seen at the last look; None: it was seen."""
        self._turn = asyncio.Lock()
        """Held during a look, which takes so long that another wait may ask meanwhile."""
        self._events: socket.socket | None = None

    async def wait_for_change(self) -> None:
        """Wait until a window changed, or the next look is due."""
        either = [
            asyncio.ensure_future(self._throttle.wait_for_event()),
            asyncio.ensure_future(self._throttle.wait_for_poll()),
        ]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in either:
                each.cancel()

    async def open(self) -> None:
        """Look for the first time.

        Raises:
            DisplayGone: It cannot be reached.
            NoProvider: It cannot be read.
            TargetGone: The window was just closed.
        """
        try:
            await self._listen()
            await self._capture()
        except NotViewable as hidden:
            self._why = str(hidden)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection to the display."""
        await super().close()
        self._display.close()

    # --- looking ------------------------------------------------------------

    async def _refresh_look(self) -> str | None:
        async with self._turn:
            if self._gone is None and self._throttle.is_due():
                self._why = None
                try:
                    await self._listen()
                    await self._capture()
                except NotViewable as hidden:
                    self._look, self._why = None, str(hidden)
                except TargetGone:
                    self._lose_window("was closed")
                except (DisplayGone, NoProvider) as gone:
                    self._look, self._why = None, f"The screen cannot be seen just now: {gone}"
                    self._disconnect()
                    if self._window is not None and await self._display.find_sway() is None:
                        self._known = False
                        self._lose_window("went away with its display")
        return self._why

    async def _capture(self) -> None:
        self._throttle.record_look()
        if self._window is None and not self._privacy:
            pixels = await self._display.read_pixels()
        else:
            pixels = await self._read_public_pixels()
        look = self._track.add_look(self._loop.time(), pixels, self._text)
        if look is not self._look:
            self._throttle.record_motion()
        self._look = look

    async def _read_public_pixels(self) -> Image.Image:
        """Return the screen or the window, without private windows.

        Where sway says that windows are, they are only once it has painted them there, so a look
        counts only if nothing has moved since the one before it.
        """
        for _ in range(_MOST_LOOKS):
            tree = await self._display.read_tree()
            spots = self._note_windows(tree)
            if spots != self._spots:
                self._spots = spots
                await asyncio.sleep(_SETTLE_SECONDS)
                continue
            pixels = await self._display.read_pixels()
            tree = await self._display.read_tree()
            if self._note_windows(tree) != spots:
                continue
            if self._window is not None:
                return tree.crop_window(pixels, self._window, self._dialogs)
            return tree.black_out(pixels, self._privacy.find_private(tree.windows))
        self._throttle.note_event()
        raise NotViewable("The windows are moving; it is looked at again.")

    def _note_windows(self, tree: WindowTree) -> object:
        """Note the window and its dialogs; return what must stay while a picture is taken.

        Raises:
            TargetGone: The window is closed.
            NotViewable: It is not shown, or private.
        """
        private = self._privacy.find_private(tree.windows)
        if self._window is not None:
            window = tree.find_window(self._window.id)
            if window is None:
                raise TargetGone("The window is closed.")
            self._window = window
            dialogs = find_dialogs(self._window, tree.windows)
            self._dialogs = tuple(each for each in dialogs if each not in private)
            if self._window in private:
                raise NotViewable(PRIVATE_TITLE)
            if not self._window.shown:
                raise NotViewable(HIDDEN_WINDOW)
        return tree.places, frozenset(each.id for each in private)

    @property
    def _text(self) -> str | None:
        """Titles of the window and its dialogs, one a line; None: private, or unknown."""
        if self._window is None or not self._known or self._privacy.covers(self._window):
            return None
        return list_titles([self._window, *self._dialogs])

    # --- what happens -------------------------------------------------------

    async def _listen(self) -> None:
        """Subscribe to changes of windows, if sway tells of them."""
        path = None if self._events is not None else await self._display.find_sway()
        if path is not None:
            self._events = await asyncio.to_thread(subscribe_events, path)
            self._loop.add_reader(self._events, self._handle_events)

    def _handle_events(self) -> None:
        if self._events is not None:
            with suppress(BlockingIOError):
                try:
                    told = self._events.recv(_PIECE)
                except ConnectionError:
                    told = b""
                if not told:
                    self._disconnect()
                self._throttle.note_event()

    def _lose_window(self, how: str) -> None:
        if self._window is not None:
            self._gone = describe_loss(self._window, self._privacy, how)
        self._look = self._why = None
        self._disconnect()

    def _disconnect(self) -> None:
        if self._events is not None:
            self._loop.remove_reader(self._events)
            self._events.close()
            self._events = None
