"""Sensor for `screen` and `window:` targets: watch them, and decide when to look at them again.

`screen` is everything the monitors show, by mss, on every system; on X11 the server reports
painting, elsewhere the screen is polled, more often for a while after a change; on Wayland grim
reads it. `window:` is a window's own pixels on X11, on sway its part of the screen, with its
dialogs; its title is text.
"""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import mss
from mss.exception import ScreenShotError
from PIL import Image

from taskmem_hookspecs import InvalidArguments, Target, TargetGone, TargetNotFound, Watch
from taskmem_hookspecs.errors import NoProvider
from taskmem_vision import desktop
from taskmem_vision.desktop import (
    PRIVATE_VARIABLE,
    Box,
    Desktop,
    DisplayEvents,
    DisplayGone,
    NotViewable,
    Privacy,
    Window,
    WindowChoice,
    find_dialogs,
)
from taskmem_vision.picture_watch import PRIVATE_TITLE, PictureWatch, describe_loss, list_titles

if TYPE_CHECKING:
    from taskmem_vision.pictures import Look
    from taskmem_vision.portal import PortalDisplay, SharingRequest
    from taskmem_vision.wayland import WaylandDisplay
    from taskmem_vision.x11 import X11Display


class _ScreenWatch(PictureWatch):
    """`Watch` on a screen."""

    def __init__(
        self, desktop: Desktop, privacy: Privacy, connect: Callable[[str], X11Display] | None
    ) -> None:
        """Start to watch.

        `connect` connects to a display that reports painting; None: there is none.

        Raises:
            DisplayGone: It cannot be reached.
        """
        super().__init__(desktop.note)
        self._desktop = desktop
        self._privacy = privacy
        self._connect = connect
        self._display: X11Display | None = None
        try:
            self._listen()
            self._capture()
        except BaseException:
            self._disconnect()
            raise

    async def wait_for_change(self) -> None:
        """Wait until something was painted, at least 0.2 s after the last look.

        Without paint events, wait until the next poll is due.
        """
        if self._display is not None:
            await self._throttle.wait_for_event()
        else:
            await self._throttle.wait_for_poll()

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
            self._disconnect()
            self._throttle.record_look()
        # Events that arrived with the replies do not make the socket readable, so read them now.
        self._loop.call_soon(self._handle_readable)
        return why

    def _capture(self) -> None:
        at = self._throttle.record_look()
        if self._display is not None:
            self._display.rearm_paint()
        hidden = self._find_private_boxes()
        pixels = _take_screenshot(self._desktop.name)
        # A window may have appeared or moved during the capture.
        pixels = _black_out(pixels, {*hidden, *self._find_private_boxes()})
        look = self._track.add_look(at, pixels)
        if look is not self._look:
            self._throttle.record_motion()
        self._look = look

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
            self._disconnect()

    def _process_events(self) -> None:
        if self._display is not None and self._display.read_events() != DisplayEvents():
            self._throttle.note_event()
            # Read more in a later iteration, so that a flood of events does not block the loop.
            self._loop.call_soon(self._handle_readable)

    def _disconnect(self) -> None:
        if self._display is not None:
            self._loop.remove_reader(self._display.handle)
            self._display.close()
            self._display = None
            self._look = None
            self._throttle.note_event()


def _take_screenshot(display: str | None) -> Image.Image:
    """Return what the monitors of a display show, as BGRX data labelled RGBX.

    Raises:
        DisplayGone: The screen cannot be captured.
    """
    try:
        # Created for each capture, because it reads the monitors only at creation.
        with closing(mss.MSS(display=display) if display else mss.MSS()) as camera:
            taken = camera.grab(camera.monitors[0])
    except ScreenShotError as error:
        raise DisplayGone(f"The screen cannot be seen ({error}).") from error
    except (AssertionError, ValueError) as error:
        # mss takes an answer for granted, or reads through a null pointer.
        raise DisplayGone("The display is gone.") from error
    return Image.frombuffer("RGBX", taken.size, taken.raw, "raw", "RGBX", 0, 1)


class _WindowWatch(PictureWatch):
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
        """True if titles or dialogs may have changed."""
        self._known = True
        """True if the window's title is known; False after the display has gone."""
        self._listening = True
        display.watch_window(display.root)
        display.watch_window(window.id)
        self._refresh_family()
        self._loop.add_reader(display.handle, self._process_events)

    async def wait_for_change(self) -> None:
        """Wait until something was painted or moved; return at most five times a second."""
        await self._throttle.wait_for_event()

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
            self._lose_closed_window()
        except DisplayGone:
            self._lose_window("went away with its display", known=False)
        if self._is_private:
            self._look, why = None, None if self._gone else PRIVATE_TITLE
        # Events that arrived with the replies do not make the socket readable, so read them now.
        self._loop.call_soon(self._process_events)
        return why

    @property
    def _text(self) -> str | None:
        """Titles of the window and its dialogs, one a line; None: private, or unknown."""
        if self._is_private or not self._known:
            return None
        open_ones = [each for each in self._family if each.id not in self._private]
        return list_titles([self._window, *open_ones])

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
            self._lose_closed_window()
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

    def _lose_closed_window(self) -> None:
        """Note that the window was closed, or that its display, which ends it first, has gone."""
        try:
            self._display.read_box(self._display.root)
        except DisplayGone:
            self._lose_window("went away with its display", known=False)
        else:
            self._lose_window("was closed")

    def _lose_window(self, how: str, *, known: bool = True) -> None:
        self._known = known
        self._gone = describe_loss(self._window, self._privacy, how)
        self._look = None
        self._throttle.note_event()
        self._disconnect()

    def _disconnect(self) -> None:
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


def _black_out(pixels: Image.Image, boxes: Collection[Box]) -> Image.Image:
    """Return a picture with boxes (left, top, width, height) filled with black."""
    black = pixels
    for left, top, width, height in boxes:
        black = pixels.copy() if black is pixels else black
        black.paste(0, (left, top, left + width, top + height))
    return black


# --- the sensor ---------------------------------------------------------------


_ENVIRONMENT_CURE: Final = (
    "See that DISPLAY and XAUTHORITY (on Wayland: WAYLAND_DISPLAY and XDG_RUNTIME_DIR), or "
    "TASKMEM_DISPLAY, are those of your desktop where the daemon was started, and restart it."
)
_INSTALL: Final = "install libxcb (apt install libxcb1) and restart the daemon"
_NO_LIBRARY: Final = (
    f"A single window cannot be watched without libxcb; {_INSTALL}. {desktop.SCREEN_INSTEAD}"
)
_PRIVACY_LOST: Final = (
    f"{PRIVATE_VARIABLE} cannot be kept to, for nothing here says where windows are (on "
    f"Wayland only sway does): on X11, {_INSTALL}; or unset it."
)
_IS_PRIVATE: Final = f"The window is private, by {PRIVATE_VARIABLE}, and not looked at."


class ScreenSensor:
    """`Sensor` for screens and desktop."""

    def __init__(self, environ: Mapping[str, str], platform: str = sys.platform) -> None:
        """Set the environment, and the system as in `sys.platform`."""
        self._environ = environ
        self._platform = platform
        self._privacy = Privacy(environ)
        self._sharing: SharingRequest | None = None
        """The portal's answer that is awaited, or was no; None: it need not be asked yet."""

    async def watch(self, target: Target) -> Watch:
        """Start to watch a screen or a window.

        Raises:
            TargetNotFound: The window does not exist; the message names those that do.
            InvalidArguments: A name is missing, or given where none is allowed.
            NoProvider: It cannot be watched here; the message says what is missing.
        """
        try:
            if target.scheme == "window":
                if (watch := await self._watch_sway_window(target.name)) is not None:
                    return watch
                return self._watch_window(target.name)
            if target.name:
                raise InvalidArguments("screen takes no name: it is all that the monitors show.")
            return await self._watch_screen()
        except DisplayGone as gone:
            raise NoProvider(f"{gone} {_ENVIRONMENT_CURE}") from gone

    async def _watch_screen(self) -> Watch:
        sockets = list_sockets(self._environ)
        found = desktop.find_screen_display(self._environ, self._platform, sockets)
        if found.is_wayland:
            return await self._watch_wayland(found)
        events = found.name is not None and _has_x11()
        if self._privacy and not events:
            raise NoProvider(_PRIVACY_LOST)
        return _ScreenWatch(found, self._privacy, _connect_x11 if events else None)

    async def _watch_wayland(self, found: Desktop) -> Watch:
        from taskmem_vision.wayland import NoSight

        display = _open_wayland(found, self._environ)
        if self._privacy and await display.find_sway() is None:
            raise NoProvider(_PRIVACY_LOST)
        try:
            return await _watch_wayland_target(display, found.note, self._privacy)
        except NoSight:
            return await self._watch_shared_screen(found.note)

    async def _watch_shared_screen(self, note: str | None) -> Watch:
        """Start to watch the screen as the desktop's portal shares it, which may ask the user."""
        from taskmem_vision.portal import PortalDisplay, SharingRequest

        if self._sharing is None or self._sharing.has_failed:
            self._sharing = SharingRequest(self._environ)
        cast = await self._sharing.take()
        self._sharing = None
        display = PortalDisplay(cast, self._environ)
        return await _watch_wayland_target(display, note, self._privacy)

    async def _watch_sway_window(self, name: str) -> Watch | None:
        """Start to watch a window in a session of sway; return None in any other."""
        sockets = list_sockets(self._environ)
        try:
            found = desktop.find_screen_display(self._environ, self._platform, sockets)
        except NoProvider:
            return None
        display = _open_wayland(found, self._environ) if found.is_wayland else None
        if display is None or await display.find_sway() is None:
            return None
        tree = await display.read_tree()
        choice = self._choose_window(name, tree.windows)
        notes = " ".join(filter(None, (found.note, desktop.describe_choice(choice)))) or None
        if tree.is_of_x11(choice.window) and (own := self._watch_own_pixels(choice.window, notes)):
            return own
        return await _watch_wayland_target(display, notes, self._privacy, choice.window)

    def _watch_own_pixels(self, window: Window, note: str | None) -> Watch | None:
        """Start to watch an X11 program's window on its display; None: that is not at hand."""
        name = self._environ.get("DISPLAY")
        if not name or not _has_x11():
            return None
        try:
            display = _connect_x11(name)
        except DisplayGone:
            return None
        try:
            there = display.read_window(window.id)
            if there is not None and there.title == window.title:
                return _WindowWatch(display, there, note, self._privacy)
        except BaseException:
            display.close()
            raise
        display.close()
        return None

    def _watch_window(self, name: str) -> Watch:
        sockets = list_sockets(self._environ)
        found = desktop.find_window_display(self._environ, self._platform, sockets)
        if not _has_x11():
            raise NoProvider(_NO_LIBRARY)
        display = _connect_x11(found.name or "")
        try:
            choice = self._choose_window(name, display.list_windows())
            notes = " ".join(filter(None, (found.note, desktop.describe_choice(choice))))
            return _WindowWatch(display, choice.window, notes or None, self._privacy)
        except BaseException:
            display.close()
            raise

    def _choose_window(self, name: str, there: Sequence[Window]) -> WindowChoice:
        """Return the window that the name means; no message names a private one."""
        private = self._privacy.find_private(there)
        open_ones = [window for window in there if window not in private]
        try:
            return desktop.choose_window(name, open_ones)
        except TargetNotFound as missing:
            try:
                desktop.choose_window(name, [*private])
            except TargetNotFound:
                raise missing from None
            raise TargetNotFound(_IS_PRIVATE) from None


def list_sockets(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the sockets of displays that have a listening server.

    It connects to each, so it is called only when needed.
    """
    from taskmem_vision.wayland import find_runtime_folder

    for folder, names in (
        (Path(desktop.SOCKETS), "X*"),
        (find_runtime_folder(environ), "wayland-*"),
    ):
        with suppress(OSError):
            for path in folder.glob(names):
                with socket.socket(socket.AF_UNIX) as knocking:
                    # A killed server leaves its socket file behind.
                    knocking.settimeout(0)
                    if knocking.connect_ex(str(path)) in (0, errno.EAGAIN):
                        yield path.name


@cache
def _has_x11() -> bool:
    """Return whether X11 can be used, which requires the system's libxcb."""
    try:
        import_module("xcffib")
    except (ImportError, OSError):
        return False
    return True


def _open_wayland(found: Desktop, environ: Mapping[str, str]) -> WaylandDisplay:
    from taskmem_vision.wayland import WaylandDisplay

    return WaylandDisplay(found.name or "", environ)


async def _watch_wayland_target(
    display: WaylandDisplay | PortalDisplay,
    note: str | None,
    privacy: Privacy,
    window: Window | None = None,
) -> Watch:
    from taskmem_vision.wayland_watch import WaylandWatch

    watch = WaylandWatch(display, note, privacy, window)
    await watch.open()
    return watch


def _connect_x11(name: str) -> X11Display:
    from taskmem_vision.x11 import X11Display

    return X11Display(name)
