"""A connection to the X display that is recorded: windows, pixels, events, and a mark on it.

The requests of a step are all sent before any reply is read: a request takes the server
microseconds, and the round trip a hundred times as long. All calls block, for milliseconds.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from typing import Any, Final, NamedTuple

import mss
from mss.exception import ScreenShotError
from PIL import Image

from taskmem_recorder.displays import DisplayLost
from taskmem_recorder.windows import MARK_TITLE, Box, ScreenWindow

# xcffib has no types.
xcffib: Any = import_module("xcffib")
x: Any = import_module("xcffib.xproto")
composite: Any = import_module("xcffib.composite")
damage: Any = import_module("xcffib.damage")
shape: Any = import_module("xcffib.shape")
# Of no use here, but to another plug-in in this process: an extension that is loaded later would
# disturb a thread that connects meanwhile.
import_module("xcffib.shm")

_GONE_ERRORS: Final = (x.WindowError, x.DrawableError, x.MatchError)
"""X errors about a window that does not exist."""
_CLIENT_LIST: Final = "_NET_CLIENT_LIST_STACKING"
"""Property with the window manager's list of application windows, topmost last."""
_TYPE: Final = "_NET_WM_WINDOW_TYPE"
_ATOMS: Final = (
    _CLIENT_LIST,
    "_NET_ACTIVE_WINDOW",
    _TYPE,
    f"{_TYPE}_DIALOG",
    f"{_TYPE}_DOCK",
    "_NET_WM_NAME",
    "_NET_WM_PID",
    "WM_CLIENT_LEADER",
    "WM_STATE",
    "WM_WINDOW_ROLE",
)
_DEEPEST_FRAME: Final = 4
"""How many levels of frames are between the root window and an application's window, at most."""
_LONGEST_PROPERTY: Final = 1024
"""Maximum size read of a property, in 32-bit words."""
_DEPTHS: Final = (24, 32)
"""Bits of a pixel's colours, without or with alpha, in four bytes."""
_MOST_EVENTS: Final = 1000
"""Maximum events read in one call, so that a flood does not block."""
_ALL_PLANES: Final = 0xFFFFFFFF
_MARK_SIDE: Final = 14
_MARK_MARGIN: Final = 10
_MARK_COLOUR: Final = 0xD81E1E


class RecordedDisplay:
    """A connection to an X server; every call may raise `DisplayLost`."""

    def __init__(self, name: str) -> None:
        """Connect, and subscribe to what is painted and what becomes of windows.

        `name` is as in DISPLAY.

        Raises:
            DisplayLost: The server does not exist, refuses the connection, or cannot report
                painting.
        """
        self.name: Final = name
        self._mark: int | None = None
        try:
            self._connection = xcffib.connect(display=name)
        except (xcffib.XcffibException, UnicodeError, ValueError) as error:
            raise DisplayLost(f"The display {name} cannot be reached.") from error
        try:
            self._subscribe()
        except BaseException:
            self._connection.disconnect()
            raise

    def _subscribe(self) -> None:
        with self._guard_connection():
            self._core: Any = self._connection.core
            for extension in ("Composite", "DAMAGE"):
                if not self._core.QueryExtension(len(extension), extension).reply().present:
                    raise DisplayLost(
                        f"The display {self.name} has no {extension} extension, and cannot tell "
                        "what is painted."
                    )
            self._composite: Any = self._connection(composite.key)
            self._damage: Any = self._connection(damage.key)
            self._composite.QueryVersion(0, 4).reply()
            self._damage.QueryVersion(1, 1).reply()
            self._screen = self._connection.get_setup().roots[self._connection.pref_screen]
            self._root: int = self._screen.root
            self.handle: int = self._connection.get_file_descriptor()
            replies = [(name, self._core.InternAtom(False, len(name), name)) for name in _ATOMS]  # noqa: FBT003
            self._atoms = {name: int(reply.reply().atom) for name, reply in replies}
            self.watch_window(self._root)
            self._painted = int(self._connection.generate_id())
            level = damage.ReportLevel.NonEmpty
            self._damage.CreateChecked(self._painted, self._root, level).check()

    def close(self) -> None:
        """Disconnect, which removes the mark."""
        self._connection.disconnect()

    # --- windows ------------------------------------------------------------

    def list_windows(self) -> list[ScreenWindow]:
        """Return all windows: menus first, then those of applications, topmost first.

        A panel is listed where the window manager lists it. What processes say is not read.
        """
        with self._guard_connection():
            children = [*self._core.QueryTree(self._root).reply().children][::-1]
            applications = self._list_applications(children)
            frames = self._find_frames(applications)
            inner = frozenset(frames.values())
            popups = [each for each in self._list_popups(children) if each not in inner]
            frames |= {each: each for each in popups}
            numbers = (*popups, *(each for each in applications if each in frames))
            menus = frozenset(popups)
            replies = [self._ask_window(number, frames[number]) for number in numbers]
            windows = (self._read_window(each, is_popup=each.number in menus) for each in replies)
            return [each for each in windows if each is not None]

    def find_front_window(self) -> int | None:
        """Return the window that has the keyboard; None: no manager says which."""
        with self._guard_connection():
            return _read_number(self._ask_property(self._root, self._atoms["_NET_ACTIVE_WINDOW"]))

    def read_title(self, number: int) -> str | None:
        """Return the title of a window; None: it does not exist."""
        with self._guard_connection():
            attributes = self._core.GetWindowAttributes(number)
            titles = self._ask_titles(number)
            with suppress(*_GONE_ERRORS):
                attributes.reply()
                return _decode_title(*titles)
        return None

    def read_box(self, number: int) -> Box | None:
        """Return the place of a window without its frame; None: it does not exist."""
        with self._guard_connection(), suppress(*_GONE_ERRORS):
            geometry = self._core.GetGeometry(number)
            origin = self._core.TranslateCoordinates(number, self._root, 0, 0)
            size, corner = geometry.reply(), origin.reply()
            return corner.dst_x, corner.dst_y, size.width, size.height
        return None

    def read_size(self) -> tuple[int, int]:
        """Return width and height of the screen."""
        box = self.read_box(self._root)
        return (0, 0) if box is None else box[2:]

    def _list_applications(self, children: Sequence[int]) -> Sequence[int]:
        """Return the windows of applications, topmost first.

        Where no window manager lists them, they are searched for in the root window's children.
        """
        if clients := self._list_clients():
            return clients[::-1]
        inner: dict[int, list[int]] = {number: [] for number in children}
        level = [(number, number) for number in inner]
        for _ in range(_DEEPEST_FRAME):
            replies = [
                (
                    outer,
                    number,
                    self._core.QueryTree(number),
                    self._ask_titles(number),
                    self._ask_property(number, self._atoms["WM_STATE"]),
                    self._ask_property(number, x.Atom.WM_TRANSIENT_FOR),
                )
                for outer, number in level
            ]
            level = list[tuple[int, int]]()
            for outer, number, tree, titles, state, owner in replies:
                below: Sequence[int] = ()
                with suppress(*_GONE_ERRORS):
                    below = [*tree.reply().children]
                # An application's window has one of these, and its frame has none.
                marks = (_decode_title(*titles), _read_bytes(state), _read_bytes(owner))
                if any(marks):
                    inner[outer].append(number)
                else:
                    level += [(outer, each) for each in reversed(below)]
        return [each for outer, numbers in inner.items() for each in numbers or [outer]]

    def _list_clients(self) -> Sequence[int]:
        """Return the windows that the manager lists, topmost last; empty: none does."""
        return _read_numbers(self._ask_property(self._root, self._atoms[_CLIENT_LIST]))

    def _find_frames(self, numbers: Iterable[int]) -> dict[int, int]:
        """Return the outermost window around each of these; those that are gone are left out."""
        outer = {number: number for number in numbers}
        unfinished = set(outer)
        for _ in range(_DEEPEST_FRAME):
            replies = [(number, self._core.QueryTree(outer[number])) for number in unfinished]
            for number, tree in replies:
                try:
                    parent = tree.reply().parent
                except _GONE_ERRORS:
                    del outer[number]
                    unfinished.discard(number)
                    continue
                if parent in (self._root, 0):
                    unfinished.discard(number)
                else:
                    outer[number] = parent
        return outer

    def _list_popups(self, children: Iterable[int]) -> list[int]:
        replies = [(each, self._core.GetWindowAttributes(each)) for each in children]
        popups: list[int] = []
        for number, attributes in replies:
            with suppress(*_GONE_ERRORS):
                reply = attributes.reply()
                if reply.override_redirect and reply.map_state == x.MapState.Viewable:
                    popups.append(number)
        return popups

    def _ask_window(self, number: int, frame: int) -> _PendingWindow:
        return _PendingWindow(
            number,
            self._core.GetWindowAttributes(number),
            self._core.GetGeometry(frame),
            self._ask_titles(number),
            self._ask_property(number, x.Atom.WM_CLASS),
            self._ask_property(number, self._atoms["WM_WINDOW_ROLE"]),
            self._ask_property(number, self._atoms["_NET_WM_PID"]),
            self._ask_property(number, x.Atom.WM_TRANSIENT_FOR),
            self._ask_property(number, self._atoms["WM_CLIENT_LEADER"]),
            self._ask_property(number, self._atoms[_TYPE]),
        )

    def _read_window(self, replies: _PendingWindow, *, is_popup: bool) -> ScreenWindow | None:
        """Read all replies about a window; None: it is gone."""
        geometry = map_state = None
        with suppress(*_GONE_ERRORS):
            map_state = replies.attributes.reply().map_state
        with suppress(*_GONE_ERRORS):
            geometry = replies.geometry.reply()
        names = _read_bytes(replies.names).decode("utf-8", "replace")
        instance, _, application = names.partition("\0")
        types = _read_numbers(replies.types)
        is_shown = geometry is not None and map_state == x.MapState.Viewable
        window = ScreenWindow(
            replies.number,
            _decode_title(*replies.titles),
            application.strip("\0"),
            instance,
            _read_bytes(replies.role).decode("utf-8", "replace"),
            pid=_read_number(replies.pid),
            owner=_read_number(replies.owner),
            group=_read_number(replies.leader),
            box=_get_box(geometry) if is_shown else None,
            is_dialog=self._atoms[f"{_TYPE}_DIALOG"] in types,
            is_dock=self._atoms[f"{_TYPE}_DOCK"] in types,
            is_popup=is_popup,
        )
        return None if map_state is None else window

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

    # --- pixels -------------------------------------------------------------

    def take_screenshot(self) -> Image.Image:
        """Return what the monitors show, as BGRX data labelled RGBX."""
        try:
            # Created for each capture, because it reads the monitors only at creation.
            with closing(mss.MSS(display=self.name)) as camera:
                taken = camera.grab(camera.monitors[0])
        except ScreenShotError as error:
            raise DisplayLost(f"The screen cannot be seen ({error}).") from error
        except (AssertionError, ValueError) as error:
            # mss takes an answer for granted, or reads through a null pointer.
            raise DisplayLost(f"The display {self.name} is gone.") from error
        return Image.frombuffer("RGBX", taken.size, taken.raw, "raw", "RGBX", 0, 1)

    def read_pixels(self, number: int, height: int | None = None) -> Image.Image | None:
        """Return a window's pixels, even if it is covered, as BGRX data labelled RGBX.

        None: it is closed, or has no pixels. `height`: how much of its upper part is read; None:
        all of it.
        """
        with self._guard_connection():
            try:
                pixmap = self._name_pixmap(number)
                try:
                    size = self._core.GetGeometry(pixmap).reply()
                    if size.depth not in _DEPTHS:
                        return None
                    box = (0, 0, size.width, min(size.height, height or size.height))
                    reply = self._core.GetImage(
                        x.ImageFormat.ZPixmap, pixmap, *box, _ALL_PLANES
                    ).reply()
                finally:
                    self._core.FreePixmap(pixmap)
            except (*_GONE_ERRORS, x.AllocError):
                return None
            data = bytes(reply.data.buf())
            return Image.frombuffer("RGBX", box[2:], data, "raw", "RGBX", 0, 1)

    def _name_pixmap(self, number: int) -> int:
        """Return the pixmap with a window's own pixels, and let the server keep one from now on."""
        pixmap = int(self._connection.generate_id())
        try:
            self._composite.NameWindowPixmapChecked(number, pixmap).check()
        except x.MatchError:
            with suppress(x.AccessError):  # another program keeps it already
                self._composite.RedirectWindowChecked(number, composite.Redirect.Automatic).check()
            self._composite.NameWindowPixmapChecked(number, pixmap).check()
        return pixmap

    # --- what happens -------------------------------------------------------

    def watch_window(self, number: int) -> None:
        """Subscribe to changes of a window: title, position, end; one that is closed has none."""
        with self._guard_connection(), suppress(*_GONE_ERRORS):
            mask = x.EventMask.StructureNotify | x.EventMask.PropertyChange
            if number == self._root and not self._list_clients():
                # Where no manager lists windows, this tells of them.
                mask |= x.EventMask.SubstructureNotify
            self._core.ChangeWindowAttributesChecked(number, x.CW.EventMask, [mask]).check()

    def read_events(self) -> bool:
        """Return whether anything happened since the last call."""
        has_happened = False
        with self._guard_connection():
            for _ in range(_MOST_EVENTS):
                try:
                    if self._connection.poll_for_event() is None:
                        break
                except xcffib.Error:
                    # The error of a request without a reply: the window was closed meanwhile.
                    continue
                has_happened = True
        return has_happened

    def rearm_paint(self) -> None:
        """Enable the next paint event; the server sends one and then stops."""
        with self._guard_connection():
            self._damage.Subtract(self._painted, 0, 0)
            self._connection.flush()

    # --- the mark -----------------------------------------------------------

    def show_mark(self) -> None:
        """Show a red dot in the corner of the screen until the end; clicks go through it.

        Raises:
            DisplayLost: It cannot be shown, so nothing should be recorded.
        """
        try:
            self._mark = self._create_mark()
            self._shape_mark(self._mark)
            self._core.MapWindow(self._mark)
            self.raise_mark()
        except xcffib.XcffibException as error:
            raise DisplayLost(f"No mark can be shown on {self.name}.") from error

    def raise_mark(self) -> None:
        """Put the mark, if it is shown, above all windows."""
        if self._mark is not None:
            with self._guard_connection():
                above = [x.StackMode.Above]
                self._core.ConfigureWindow(self._mark, x.ConfigWindow.StackMode, above)
                self._connection.flush()

    def _create_mark(self) -> int:
        window = int(self._connection.generate_id())
        left = self._screen.width_in_pixels - _MARK_SIDE - _MARK_MARGIN
        self._core.CreateWindowChecked(
            self._screen.root_depth,
            window,
            self._root,
            left,
            _MARK_MARGIN,
            _MARK_SIDE,
            _MARK_SIDE,
            0,
            x.WindowClass.InputOutput,
            self._screen.root_visual,
            # No window manager frames it, and the server paints it by itself.
            x.CW.BackPixel | x.CW.OverrideRedirect,
            [_MARK_COLOUR, 1],
        ).check()
        pid = os.getpid().to_bytes(4, "little")
        for atom, kind, size, value in (
            (x.Atom.WM_NAME, x.Atom.STRING, 8, MARK_TITLE.encode()),
            (self._atoms["_NET_WM_PID"], x.Atom.CARDINAL, 32, pid),
        ):
            length = len(value) * 8 // size
            self._core.ChangeProperty(x.PropMode.Replace, window, atom, kind, size, length, value)
        return window

    def _shape_mark(self, window: int) -> None:
        """Make the mark round, and let clicks through it."""
        extension = self._connection(shape.key)
        disc, pen = (int(self._connection.generate_id()) for _ in range(2))
        self._core.CreatePixmap(1, disc, window, _MARK_SIDE, _MARK_SIDE)
        self._core.CreateGC(pen, disc, x.GC.Foreground, [0])
        whole = x.RECTANGLE.synthetic(0, 0, _MARK_SIDE, _MARK_SIDE)
        self._core.PolyFillRectangle(disc, pen, 1, [whole])
        self._core.ChangeGC(pen, x.GC.Foreground, [1])
        circle = x.ARC.synthetic(0, 0, _MARK_SIDE, _MARK_SIDE, 0, 360 * 64)
        self._core.PolyFillArc(disc, pen, 1, [circle])
        extension.MaskChecked(shape.SO.Set, shape.SK.Bounding, window, 0, 0, disc).check()
        extension.RectanglesChecked(
            shape.SO.Set, shape.SK.Input, x.ClipOrdering.Unsorted, window, 0, 0, 0, []
        ).check()
        self._core.FreeGC(pen)
        self._core.FreePixmap(disc)

    @contextmanager
    def _guard_connection(self) -> Generator[None]:
        """Turn the end of the connection into `DisplayLost`."""
        try:
            yield
        except xcffib.ConnectionException as error:
            raise DisplayLost(f"The display {self.name} is gone.") from error


class _PendingWindow(NamedTuple):
    """Pending replies about one window."""

    number: int
    attributes: Any
    geometry: Any
    titles: tuple[Any, Any]
    names: Any
    role: Any
    pid: Any
    owner: Any
    leader: Any
    types: Any


def _get_box(geometry: Any) -> Box:  # noqa: ANN401 - xcffib has no types
    border = 2 * geometry.border_width
    return geometry.x, geometry.y, geometry.width + border, geometry.height + border


def _decode_title(new: Any, old: Any) -> str:  # noqa: ANN401
    """Return a title on one line, of the new property or else of the old one."""
    given, fallback = _read_bytes(new), _read_bytes(old)
    try:
        title = (given or fallback).decode()
    except UnicodeDecodeError:
        # The old property is Latin-1; the new one may be cut inside a character.
        title = given.decode("utf-8", "replace") if given else fallback.decode("latin-1")
    return " ".join("".join(each if each.isprintable() else " " for each in title).split())


def _read_number(asked: Any) -> int | None:  # noqa: ANN401
    """Return the first number of a property; None: there is none, or it is 0."""
    return next(iter(_read_numbers(asked)), None) or None


def _read_numbers(asked: Any) -> Sequence[int]:  # noqa: ANN401
    """Return the numbers of a property; empty: there are none, or the window is gone."""
    raw = _read_bytes(asked)
    return [each for (each,) in struct.iter_unpack("=I", raw[: len(raw) // 4 * 4])]


def _read_bytes(asked: Any) -> bytes:  # noqa: ANN401
    """Return the value of a property; empty: there is none, or the window is gone."""
    with suppress(*_GONE_ERRORS):
        return bytes(asked.reply().value.buf())
    return b""
