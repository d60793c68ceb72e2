"""Connection to an X display: windows and their properties, pixels, and events.

The server keeps each window's own pixels, even if it is covered (XComposite), and reports painting
(DAMAGE). Pixels are read through shared memory (MIT-SHM), which takes a hundredth of the time. All
calls block, for milliseconds.

Of properties, all requests are sent before any reply is read: a request takes the server
microseconds, and the round trip a hundred times as long. This way, twenty windows cost one round
trip.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

from PIL import Image

from taskmem_hookspecs import TargetGone
from taskmem_vision.desktop import (
    HIDDEN_WINDOW,
    Box,
    DisplayEvents,
    DisplayGone,
    NotViewable,
    Window,
)
from taskmem_vision.text_lines import to_one_line

# xcffib has no types.
xcffib: Any = import_module("xcffib")
x: Any = import_module("xcffib.xproto")
composite: Any = import_module("xcffib.composite")
damage: Any = import_module("xcffib.damage")
shm: Any = import_module("xcffib.shm")
# Of no use here, but to another plug-in in this process: an extension that is loaded later would
# disturb a thread that connects meanwhile.
import_module("xcffib.shape")

_NEW_SEGMENT: Final = 0
_MODE: Final = 0o1600
"""Create the segment, for its owner only."""
_REMOVE: Final = 0
_NO_ADDRESS: Final = ctypes.c_void_p(-1).value

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p


class SharedSegment:
    """One segment, replaced by a larger one when needed."""

    def __init__(self, attach: Callable[[int], int], detach: Callable[[int], None]) -> None:
        """Set how to attach the server to a segment, by its id, and how to detach it."""
        self._attach = attach
        self._detach = detach
        self._size = 0
        self._segment = 0
        self._address = 0

    def read(self, size: int, put: Callable[[int], None]) -> bytes:
        """Call `put` with the segment, and return what the server wrote.

        Raises:
            OSError: No memory can be shared.
        """
        self._ensure_size(size)
        put(self._segment)
        return ctypes.string_at(self._address, size)

    def close(self) -> None:
        """Free the segment; a second call does nothing."""
        if not self._size:
            return
        address, self._size = self._address, 0
        try:
            self._detach(self._segment)
        finally:
            _libc.shmdt(ctypes.c_void_p(address))

    def _ensure_size(self, size: int) -> None:
        if size <= self._size:
            return
        self.close()
        handle = _libc.shmget(_NEW_SEGMENT, ctypes.c_size_t(size), _MODE)
        if handle < 0:
            raise OSError(ctypes.get_errno(), "there is no memory to share")
        address = _libc.shmat(handle, None, 0)
        if address == _NO_ADDRESS:
            error = ctypes.get_errno()
            _libc.shmctl(handle, _REMOVE, None)
            raise OSError(error, "there is no memory to share")
        try:
            self._segment = self._attach(handle)
            self._address, self._size = address, size
        finally:
            # The segment is freed once both sides have detached, even if one is killed.
            _libc.shmctl(handle, _REMOVE, None)
            if not self._size:
                _libc.shmdt(ctypes.c_void_p(address))


_CLIENT_LIST: Final = "_NET_CLIENT_LIST_STACKING"
"""Property with the window manager's list of application windows, topmost last."""
_GONE_ERRORS: Final = (x.WindowError, x.DrawableError, x.MatchError)
"""X errors about a window that does not exist."""

_ATOMS: Final = (_CLIENT_LIST, "WM_STATE", "_NET_WM_NAME", "_NET_WM_PID", "WM_CLIENT_LEADER")
_DEEPEST_FRAME: Final = 3
"""How many levels inside a frame are searched for an application's window."""
_LONGEST_PROPERTY: Final = 1024
"""Maximum size read of a property, in 32-bit words."""


def _decode_title(new: Any, old: Any) -> str:  # noqa: ANN401
    """Return a title on one line, of the new property or else of the old one."""
    found, fallback = _read_bytes(new), _read_bytes(old)
    try:
        return to_one_line((found or fallback).decode())
    except UnicodeDecodeError:
        # The old property is Latin-1; the new one may be cut inside a character.
        if found:
            return to_one_line(found.decode("utf-8", "replace"))
        return to_one_line(fallback.decode("latin-1"))


def _read_numbers(asked: Any) -> Sequence[int]:  # noqa: ANN401
    """Return the numbers of a property; empty: it is not there, or the window is gone."""
    raw = _read_bytes(asked)
    return [each for (each,) in struct.iter_unpack("=I", raw[: len(raw) // 4 * 4])]


def _read_bytes(asked: Any) -> bytes:  # noqa: ANN401
    """Return a property as it is; empty: it is not there, or the window is gone."""
    with suppress(*_GONE_ERRORS):
        return bytes(asked.reply().value.buf())
    return b""


_WINDOW_EVENTS: Final = x.EventMask.StructureNotify | x.EventMask.PropertyChange
_MOST_EVENTS: Final = 1000
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
            asked = [self._core.InternAtom(False, len(each), each) for each in _ATOMS]  # noqa: FBT003
            self._atoms = {
                name: int(each.reply().atom) for name, each in zip(_ATOMS, asked, strict=True)
            }
            self._shared: SharedSegment | None = None
            if self._has_extension("MIT-SHM"):
                self._shm: Any = self._connection(shm.key)
                self._shm.QueryVersion().reply()
                self._shared = SharedSegment(self._attach_segment, self._shm.Detach)

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
            return self._read_windows(self._list_window_ids())

    def read_window(self, number: int) -> Window | None:
        """Return a window's properties; None: it does not exist."""
        with self._guard_connection():
            return next(iter(self._read_windows([number])), None)

    def read_box(self, number: int) -> Box | None:
        """Return a window's box on the screen; None: it does not exist."""
        with self._guard_connection(), suppress(*_GONE_ERRORS):
            shape = self._core.GetGeometry(number)
            origin = self._core.TranslateCoordinates(number, self.root, 0, 0)
            size, corner = shape.reply(), origin.reply()
            return corner.dst_x, corner.dst_y, size.width, size.height
        return None

    def read_frame_box(self, number: int) -> Box | None:
        """Return the box of the window with its frame; None: it does not exist."""
        outer = number
        with self._guard_connection(), suppress(*_GONE_ERRORS):
            while (parent := self._core.QueryTree(outer).reply().parent) not in (self.root, 0):
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
                raise NotViewable(HIDDEN_WINDOW) from None
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
            mask = _WINDOW_EVENTS
            if number == self.root and not self._read_client_list():
                mask |= x.EventMask.SubstructureNotify
            try:
                self._core.ChangeWindowAttributesChecked(number, x.CW.EventMask, [mask]).check()
            except _GONE_ERRORS:
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
                    # If another client has redirected it, that is enough.
                    with suppress(x.AccessError):
                        mode = composite.Redirect.Automatic
                        self._composite.RedirectWindowChecked(number, mode).check()
                self._damage.CreateChecked(handle, number, damage.ReportLevel.NonEmpty).check()
            except x.MatchError:
                raise NotViewable(HIDDEN_WINDOW) from None
            except x.AllocError:
                raise NotViewable(_TOO_LARGE) from None
            except _GONE_ERRORS:
                raise TargetGone("The window is closed.") from None
        self._damages[number] = handle

    def read_events(self) -> DisplayEvents:
        """Return what happened since the last call."""
        painted = changed = False
        closed: set[int] = set()
        with self._guard_connection():
            for _ in range(_MOST_EVENTS):
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

    @contextmanager
    def _guard_connection(self) -> Generator[None]:
        """Turn the end of the connection into `DisplayGone`."""
        try:
            yield
        except xcffib.ConnectionException as error:
            raise DisplayGone(f"The display {self.name} is gone.") from error

    def _list_window_ids(self) -> Sequence[int]:
        """Return the ids of application windows, topmost first."""
        ids = self._read_client_list()
        if not ids:
            # The window manager keeps no list: search the root window's children and their frames.
            there = self._core.QueryTree(self.root).reply().children
            return self._find_app_windows([*there][::-1])
        return ids[::-1]

    def _read_client_list(self) -> Sequence[int]:
        """Return the windows that the window manager lists, topmost last."""
        return _read_numbers(self._ask_property(self.root, self._atoms[_CLIENT_LIST]))

    def _find_app_windows(self, numbers: Iterable[int]) -> Sequence[int]:
        """Return the application windows among `numbers` or inside them.

        An application's window has a title, WM_STATE or an owner, as frames do not. A window with
        no application's window inside it is returned itself.
        """
        found: dict[int, list[int]] = {number: [] for number in numbers}
        level = [(number, number) for number in found]
        for _ in range(_DEEPEST_FRAME + 1):
            asked = [
                (
                    outer,
                    each,
                    self._core.QueryTree(each),
                    self._ask_titles(each),
                    self._ask_property(each, self._atoms["WM_STATE"]),
                    self._ask_property(each, x.Atom.WM_TRANSIENT_FOR),
                )
                for outer, each in level
            ]
            level = list[tuple[int, int]]()
            for outer, each, tree, titles, state, owner in asked:
                children: Sequence[int] = []
                with suppress(*_GONE_ERRORS):
                    children = [*tree.reply().children]
                if any([_decode_title(*titles), _read_bytes(state), _read_bytes(owner)]):
                    found[outer].append(each)
                else:
                    level += [(outer, child) for child in reversed(children)]
        return [each for outer, inner in found.items() for each in inner or [outer]]

    def _read_windows(self, numbers: Sequence[int]) -> tuple[Window, ...]:
        """Return the properties of the windows that exist, in the given order."""
        asked = [
            (
                number,
                self._core.GetWindowAttributes(number),
                self._ask_titles(number),
                self._ask_property(number, self._atoms["_NET_WM_PID"]),
                self._ask_property(number, self._atoms["WM_CLIENT_LEADER"]),
                self._ask_property(number, x.Atom.WM_TRANSIENT_FOR),
            )
            for number in numbers
        ]
        windows: list[Window] = []
        for number, attributes, titles, *links in asked:
            shown = None
            with suppress(x.WindowError):
                shown = attributes.reply().map_state
            title = _decode_title(*titles)
            pid, group, owner = (next(iter(_read_numbers(each)), None) for each in links)
            if shown is not None:
                is_shown = shown == x.MapState.Viewable
                windows.append(Window(number, title, pid, group, owner, is_shown))
        return tuple(windows)

    def _ask_titles(self, number: int) -> tuple[Any, Any]:
        """Request both title properties: the new one, and the old one as a fallback."""
        new = self._ask_property(number, self._atoms["_NET_WM_NAME"])
        return new, self._ask_property(number, x.Atom.WM_NAME)

    def _ask_property(self, number: int, atom: int) -> Any:  # noqa: ANN401
        return self._core.GetProperty(
            delete=False,
            window=number,
            property=atom,
            type=x.GetPropertyType.Any,
            long_offset=0,
            long_length=_LONGEST_PROPERTY,
        )

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
            x.ImageFormat.ZPixmap, drawable, 0, 0, *size, 0xFFFFFFFF
        ).reply()
        return bytes(reply.data.buf())

    def _put_image(self, segment: int, drawable: int, size: tuple[int, int]) -> None:
        """Make the server write pixels into shared memory, four bytes each."""
        self._shm.GetImage(
            drawable, 0, 0, *size, 0xFFFFFFFF, x.ImageFormat.ZPixmap, segment, 0
        ).reply()

    def _attach_segment(self, handle: int) -> int:
        segment = int(self._connection.generate_id())
        self._shm.AttachChecked(segment, handle, False).check()  # noqa: FBT003
        return segment

    def _has_extension(self, extension: str) -> bool:
        return bool(self._core.QueryExtension(len(extension), extension).reply().present)
