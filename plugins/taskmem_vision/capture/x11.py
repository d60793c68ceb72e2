"""Connection to an X display: windows, their pixels, and events.

The server keeps each window's own pixels, even if it is covered (XComposite), and reports painting
(DAMAGE). Pixels are read through shared memory, which takes a hundredth of the time. All calls
block, for milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from PIL import Image

from taskmem_hookspecs import TargetGone
from taskmem_vision.capture.desktop import (
    HIDDEN,
    Box,
    DisplayEvents,
    DisplayGone,
    NotViewable,
)
from taskmem_vision.capture.properties import GONE, Properties
from taskmem_vision.capture.shared_memory import SharedSegment
from taskmem_vision.capture.window_details import DetailReader, WindowDetails
from taskmem_vision.capture.windows import Window

# xcffib has no types.
xcffib: Any = import_module("xcffib")
x: Any = import_module("xcffib.xproto")
composite: Any = import_module("xcffib.composite")
damage: Any = import_module("xcffib.damage")
shm: Any = import_module("xcffib.shm")
# All extensions of xcffib that the process uses: one that is loaded later would disturb another
# thread that connects meanwhile.
shape: Any = import_module("xcffib.shape")

_HEARD: Final = x.EventMask.StructureNotify | x.EventMask.PropertyChange
_AT_ONCE: Final = 1000
"""Maximum events read in one call, so that a flood does not block."""
_DEPTHS: Final = (24, 32)
"""Bits per pixel, without or with alpha, in four bytes."""
_TOO_LARGE: Final = "The window is too large to be seen; make it smaller."
_COLOURS: Final = "The window has fewer or more than 16 million colours, and no picture."


class X11Display:
    """A connection to an X server; every request may raise `DisplayGone`."""

    def __init__(self, name: str) -> None:
        """Connect; `name` is as in DISPLAY.

        Raises:
            DisplayGone: The server does not exist, refuses the connection, or cannot report
                painting.
        """
        self.name: Final = name
        self._damages: dict[int, int] = {}
        try:
            self._connection = xcffib.connect(display=name)
        except (xcffib.XcffibException, UnicodeError, ValueError) as error:
            raise DisplayGone(f"The display {name} cannot be reached.") from error
        try:
            self._open_extensions()
        except BaseException:
            self._connection.disconnect()
            raise

    def _open_extensions(self) -> None:
        with self._guard_connection():
            self._core: Any = self._connection.core
            for extension in ("Composite", "DAMAGE"):
                if not self._has_extension(extension):
                    raise DisplayGone(
                        f"The display {self.name} has no {extension} extension, and "
                        "cannot tell what is painted."
                    )
            self._composite: Any = self._connection(composite.key)
            self._damage: Any = self._connection(damage.key)
            self._composite.QueryVersion(0, 4).reply()
            self._damage.QueryVersion(1, 1).reply()
            self.root: int = self._connection.get_setup().roots[self._connection.pref_screen].root
            self.handle: int = self._connection.get_file_descriptor()
            self._properties = Properties(self._core)
            self._details = DetailReader(self._core, self.root)
            self._shared: SharedSegment | None = None
            if self._has_extension("MIT-SHM"):
                self._shm: Any = self._connection(shm.key)
                self._shm.QueryVersion().reply()
                self._shared = SharedSegment(self._attach_segment, self._detach_segment)

    def close(self) -> None:
        """Disconnect; a second call does nothing."""
        try:
            if self._shared is not None:
                self._shared.close()
        except xcffib.XcffibException:
            pass  # The server is gone, and so is its attachment.
        finally:
            self._connection.disconnect()

    # --- windows ------------------------------------------------------------

    def list_windows(self) -> tuple[Window, ...]:
        """Return the application windows, topmost first."""
        with self._guard_connection():
            return self._properties.read_windows(self._list_window_ids())

    def list_titled_windows(self) -> tuple[Window, ...]:
        """Return the same windows with only id and title."""
        with self._guard_connection():
            return self._properties.read_titled_windows(self._list_window_ids())

    def list_details(self) -> tuple[WindowDetails, ...]:
        """Return all windows with whose they are: menus first, then applications', topmost first.

        A panel is listed where the window manager lists it.
        """
        with self._guard_connection():
            return self._details.read_details(self._list_window_ids())

    def find_front_window(self) -> int | None:
        """Return the window that has the keyboard; None: no manager says which."""
        with self._guard_connection():
            return self._details.find_front_window()

    def read_window(self, number: int) -> Window | None:
        """Return a window's properties; None: it does not exist."""
        with self._guard_connection():
            return next(iter(self._properties.read_windows([number])), None)

    def read_box(self, number: int) -> Box | None:
        """Return a window's box on the screen; None: it does not exist."""
        with self._guard_connection(), suppress(*GONE):
            shape = self._core.GetGeometry(number)
            origin = self._core.TranslateCoordinates(number, self.root, 0, 0)
            size, corner = shape.reply(), origin.reply()
            return corner.dst_x, corner.dst_y, size.width, size.height
        return None

    def read_frame_box(self, number: int) -> Box | None:
        """Return the box of the window with its frame; None: it does not exist."""
        outer = number
        with self._guard_connection(), suppress(*GONE):
            while (parent := self._core.QueryTree(outer).reply().parent) not in (*(self.root, 0),):
                outer = parent
        return self.read_box(outer)

    # --- pixels -------------------------------------------------------------

    def read_pixels(self, number: int) -> Image.Image:
        """Return a window's pixels, even if it is covered, as BGRX data labelled RGBX.

        Raises:
            TargetGone: The window is closed.
            NotViewable: It has no pixels.
        """
        with self._guard_connection():
            pixmap = self._connection.generate_id()
            try:
                self._composite.NameWindowPixmapChecked(number, pixmap).check()
            except x.WindowError:
                raise TargetGone("The window is closed.") from None
            except x.MatchError:
                raise NotViewable(HIDDEN) from None
            except x.AllocError:
                raise NotViewable(_TOO_LARGE) from None
            try:
                shape = self._core.GetGeometry(pixmap).reply()
                if shape.depth not in _DEPTHS:
                    raise NotViewable(_COLOURS)
                size = (shape.width, shape.height)
                data = self._read_drawable(pixmap, size)
            except x.AllocError:
                raise NotViewable(_TOO_LARGE) from None
            finally:
                self._core.FreePixmap(pixmap)
            return Image.frombuffer("RGBX", size, data, "raw", "RGBX", 0, 1)

    # --- what happens -------------------------------------------------------

    def watch_window(self, number: int) -> None:
        """Subscribe to changes of a window: title, position, end.

        Raises:
            TargetGone: The window is closed.
        """
        with self._guard_connection():
            mask = _HEARD
            if number == self.root and not self._properties.list_windows(number):
                mask |= x.EventMask.SubstructureNotify
            try:
                self._core.ChangeWindowAttributesChecked(number, x.CW.EventMask, [mask]).check()
            except GONE:
                raise TargetGone("The window is closed.") from None

    def watch_paint(self, number: int) -> None:
        """Subscribe to painting in a window, covered or not.

        Raises:
            TargetGone: The window is closed.
            NotViewable: It is never painted.
        """
        if number in self._damages:
            return
        with self._guard_connection():
            handle = int(self._connection.generate_id())
            try:
                if number != self.root:
                    self._redirect_window(number)
                self._damage.CreateChecked(handle, number, damage.ReportLevel.NonEmpty).check()
            except x.MatchError:
                raise NotViewable(HIDDEN) from None
            except x.AllocError:
                raise NotViewable(_TOO_LARGE) from None
            except GONE:
                raise TargetGone("The window is closed.") from None
        self._damages[number] = handle

    def read_events(self) -> DisplayEvents:
        """Return what happened since the last call."""
        painted = changed = False
        closed: set[int] = set()
        with self._guard_connection():
            for _ in range(_AT_ONCE):
                try:
                    event = self._connection.poll_for_event()
                except xcffib.Error:
                    # The error of a request without a reply: the window was closed meanwhile.
                    continue
                if event is None:
                    break
                if isinstance(event, damage.NotifyEvent):
                    painted = True
                elif isinstance(event, x.DestroyNotifyEvent):
                    closed.add(event.window)
                else:
                    changed = True
        for number in closed:
            self._damages.pop(number, None)
        return DisplayEvents(painted, changed, frozenset(closed))

    def rearm_paint(self) -> None:
        """Enable the next paint event; the server sends one and then stops."""
        with self._guard_connection():
            for each in self._damages.values():
                self._damage.Subtract(each, 0, 0)
            self._connection.flush()

    # --- the wire -----------------------------------------------------------

    def _redirect_window(self, number: int) -> None:
        # If another client has redirected it, that is enough.
        with suppress(x.AccessError):
            self._composite.RedirectWindowChecked(number, composite.Redirect.Automatic).check()

    def _guard_connection(self) -> _ConnectionGuard:
        return _ConnectionGuard(self.name)

    def _list_window_ids(self) -> Sequence[int]:
        """Return the ids of application windows, topmost first."""
        ids = self._properties.list_windows(self.root)
        if not ids:
            # The window manager keeps no list: search the root window's children and their frames.
            there = self._core.QueryTree(self.root).reply().children
            return self._properties.find_app_windows([*there][::-1])
        return ids[::-1]

    def _read_drawable(self, drawable: int, size: tuple[int, int]) -> bytes:
        """Return pixels, four bytes each."""
        if self._shared is not None:
            try:
                return self._shared.read(
                    4 * size[0] * size[1], lambda segment: self._put_image(segment, drawable, size)
                )
            except (x.AccessError, shm.BadSegError, OSError):
                # The server runs on another machine or in a container.
                shared, self._shared = self._shared, None
                with suppress(xcffib.XcffibException):
                    shared.close()
        reply = self._core.GetImage(
            *(x.ImageFormat.ZPixmap, drawable, 0, 0, *size, 0xFFFFFFFF)
        ).reply()
        return bytes(reply.data.buf())

    def _put_image(self, segment: int, drawable: int, size: tuple[int, int]) -> None:
        """Make the server write pixels into shared memory, four bytes each."""
        self._shm.GetImage(
            *(drawable, 0, 0, *size, 0xFFFFFFFF, x.ImageFormat.ZPixmap, segment, 0)
        ).reply()

    def _attach_segment(self, handle: int) -> int:
        segment = int(self._connection.generate_id())
        self._shm.AttachChecked(segment, handle, False).check()  # noqa: FBT003
        return segment

    def _detach_segment(self, segment: int) -> None:
        self._shm.Detach(segment)

    def _has_extension(self, extension: str) -> bool:
        return bool(self._core.QueryExtension(len(extension), extension).reply().present)


class _ConnectionGuard:
    """Turns the end of a connection into `DisplayGone`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, xcffib.ConnectionException):
            raise DisplayGone(f"The display {self._name} is gone.") from error
