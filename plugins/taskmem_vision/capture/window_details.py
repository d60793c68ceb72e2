"""Read whose each window is, and where: for those who must leave some windows out.

All requests of a step are sent before any reply is read, as in `properties`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NamedTuple

from taskmem_vision.capture.desktop import Box
from taskmem_vision.capture.properties import GONE, decode_title, read_bytes, read_numbers

# xcffib has no types.
x: Any = import_module("xcffib.xproto")

_TYPE: Final = "_NET_WM_WINDOW_TYPE"
_NAMES: Final = (
    *(_TYPE, f"{_TYPE}_DIALOG", f"{_TYPE}_DOCK", "_NET_ACTIVE_WINDOW", "_NET_WM_NAME"),
    *("WM_WINDOW_ROLE", "_NET_WM_PID", "WM_CLIENT_LEADER"),
)
_DEEPEST: Final = 4
"""How many windows around an application's are looked through for its frame."""
_LONGEST: Final = 1024
"""Maximum size read of a property, in 32-bit words."""


class WindowDetails(NamedTuple):
    """A window and whose it is."""

    id: int
    title: str = ""
    application: str = ""
    """Its class; empty: it has none."""
    instance: str = ""
    """The instance of that class."""
    role: str = ""
    pid: int | None = None
    owner: int | None = None
    """The window whose dialog or menu it is; None: it does not say."""
    group: int | None = None
    box: Box | None = None
    """Its place with its frame; None: it is not on the screen."""
    is_dialog: bool = False
    is_dock: bool = False
    is_popup: bool = False
    """Whether no window manager handles it, such as a menu."""


class DetailReader:
    """Reads the details of all windows of one display."""

    def __init__(self, core: Any, root: int) -> None:  # noqa: ANN401 - it has no types
        """Set the core protocol of the connection, and the root window."""
        self._core = core
        self._root = root
        asked = [core.InternAtom(False, len(each), each) for each in _NAMES]  # noqa: FBT003
        self._atoms = {
            name: int(each.reply().atom) for name, each in zip(_NAMES, asked, strict=True)
        }

    def find_front_window(self) -> int | None:
        """Return the window that has the keyboard, as the manager says; None: it does not."""
        found = read_numbers(self._ask_property(self._root, self._atoms["_NET_ACTIVE_WINDOW"]))
        return next(iter(found), None) or None

    def read_details(self, applications: Sequence[int]) -> tuple[WindowDetails, ...]:
        """Return all windows, menus first, then those of applications in the given order."""
        children = [*self._core.QueryTree(self._root).reply().children][::-1]
        outer = self._find_frames(applications)
        frames = frozenset(outer.values())
        popups = [each for each in self._list_popups(children) if each not in frames]
        outer |= {each: each for each in popups}
        asked = [
            _DetailReplies(
                number,
                self._core.GetWindowAttributes(number),
                self._core.GetGeometry(outer[number]),
                self._ask_property(number, self._atoms["_NET_WM_NAME"]),
                self._ask_property(number, x.Atom.WM_NAME),
                self._ask_property(number, x.Atom.WM_CLASS),
                self._ask_property(number, self._atoms["WM_WINDOW_ROLE"]),
                self._ask_property(number, self._atoms["_NET_WM_PID"]),
                self._ask_property(number, x.Atom.WM_TRANSIENT_FOR),
                self._ask_property(number, self._atoms["WM_CLIENT_LEADER"]),
                self._ask_property(number, self._atoms[_TYPE]),
            )
            for number in (*popups, *(each for each in applications if each in outer))
        ]
        dialog, dock = self._atoms[f"{_TYPE}_DIALOG"], self._atoms[f"{_TYPE}_DOCK"]
        menus = frozenset(popups)
        found = (each.read_details(dialog, dock, is_popup=each.number in menus) for each in asked)
        return tuple(each for each in found if each is not None)

    def _find_frames(self, numbers: Iterable[int]) -> dict[int, int]:
        """Return the outermost window around each of these; those that are gone are left out."""
        outer = {number: number for number in numbers}
        left = set(outer)
        for _ in range(_DEEPEST):
            asked = [(number, self._core.QueryTree(outer[number])) for number in left]
            for number, tree in asked:
                try:
                    parent = tree.reply().parent
                except GONE:
                    del outer[number]
                    left.discard(number)
                    continue
                if parent in (self._root, 0):
                    left.discard(number)
                else:
                    outer[number] = parent
        return outer

    def _list_popups(self, children: Iterable[int]) -> list[int]:
        asked = [(each, self._core.GetWindowAttributes(each)) for each in children]
        found: list[int] = []
        for each, attributes in asked:
            with suppress(*GONE):
                reply = attributes.reply()
                if reply.override_redirect and reply.map_state == x.MapState.Viewable:
                    found.append(each)
        return found

    def _ask_property(self, number: int, atom: int) -> Any:  # noqa: ANN401
        return self._core.GetProperty(*(False, number, atom, x.GetPropertyType.Any, 0, _LONGEST))


class _DetailReplies(NamedTuple):
    """Pending replies about one window."""

    number: int
    attributes: Any
    geometry: Any
    new_title: Any
    old_title: Any
    class_: Any
    role: Any
    pid: Any
    owner: Any
    leader: Any
    kind: Any

    def read_details(self, dialog: int, dock: int, *, is_popup: bool) -> WindowDetails | None:
        """Read all replies; None: the window is gone."""
        shape = shown = None
        with suppress(*GONE):
            shown = self.attributes.reply().map_state
        with suppress(*GONE):
            shape = self.geometry.reply()
        instance, _, class_ = read_bytes(self.class_).decode("utf-8", "replace").partition("\0")
        kinds = read_numbers(self.kind)
        title = decode_title(self.new_title, self.old_title)
        details = WindowDetails(
            self.number,
            title,
            class_.strip("\0"),
            instance,
            read_bytes(self.role).decode("utf-8", "replace"),
            pid=next(iter(read_numbers(self.pid)), None),
            owner=next(iter(read_numbers(self.owner)), None) or None,
            group=next(iter(read_numbers(self.leader)), None),
            box=None if shape is None or shown != x.MapState.Viewable else _get_box(shape),
            is_dialog=dialog in kinds,
            is_dock=dock in kinds,
            is_popup=is_popup,
        )
        return None if shown is None else details


def _get_box(shape: Any) -> Box:  # noqa: ANN401
    border = 2 * shape.border_width
    return shape.x, shape.y, shape.width + border, shape.height + border
