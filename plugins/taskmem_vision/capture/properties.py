"""Read properties of X windows; send all requests before reading any reply.

A request takes the server microseconds, and the round trip a hundred times as long: this way,
twenty windows cost one round trip.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NamedTuple

from taskmem_vision.capture.windows import Window
from taskmem_vision.text_lines import to_one_line

# xcffib has no types.
x: Any = import_module("xcffib.xproto")

LIST: Final = "_NET_CLIENT_LIST_STACKING"
"""Property with the window manager's list of application windows, topmost last."""
GONE: Final = (x.WindowError, x.DrawableError, x.MatchError)
"""X errors about a window that does not exist."""

_ATOMS: Final = (*(LIST, "WM_STATE"), *("_NET_WM_NAME", "_NET_WM_PID", "WM_CLIENT_LEADER"))
_DEEPEST: Final = 3
"""How many levels inside a frame are searched for an application's window."""
_LONGEST: Final = 1024
"""Maximum size read of a property, in 32-bit words."""


class Properties:
    """Reads properties from one server."""

    def __init__(self, core: Any) -> None:  # noqa: ANN401 - it has no types
        """Set the core protocol of the connection."""
        self._core = core
        asked = [core.InternAtom(False, len(each), each) for each in _ATOMS]  # noqa: FBT003
        self._atoms = {
            name: int(each.reply().atom) for name, each in zip(_ATOMS, asked, strict=True)
        }

    def list_windows(self, root: int) -> Sequence[int]:
        """Return the windows that the window manager lists, topmost last."""
        return read_numbers(self._ask_property(root, self._atoms[LIST]))

    def find_app_windows(self, numbers: Iterable[int]) -> Sequence[int]:
        """Return the application windows among `numbers` or inside them.

        A window with no application's window inside it is returned itself.
        """
        found: dict[int, list[int]] = {number: [] for number in numbers}
        level = [(number, number) for number in found]
        for _ in range(_DEEPEST + 1):
            asked = [(outer, self._ask_inner(each)) for outer, each in level]
            level = list[tuple[int, int]]()
            for outer, each in asked:
                children, speaks = each.read_children(), each.is_application()
                if speaks:
                    found[outer].append(each.number)
                else:
                    level += [(outer, child) for child in reversed(children)]
        return [each for outer, inner in found.items() for each in inner or [outer]]

    def read_titled_windows(self, numbers: Sequence[int]) -> tuple[Window, ...]:
        """Return windows with only id and title, in the given order."""
        asked = [(number, self._ask_titles(number)) for number in numbers]
        return tuple(Window(id=number, title=decode_title(*each)) for number, each in asked)

    def read_windows(self, numbers: Sequence[int]) -> tuple[Window, ...]:
        """Return the properties of the windows that exist, in the given order."""
        asked = [
            _WindowReplies(
                number,
                self._core.GetWindowAttributes(number),
                self._ask_titles(number),
                self._ask_property(number, self._atoms["_NET_WM_PID"]),
                self._ask_property(number, self._atoms["WM_CLIENT_LEADER"]),
                self._ask_property(number, x.Atom.WM_TRANSIENT_FOR),
            )
            for number in numbers
        ]
        return tuple(found for each in asked if (found := each.read_window()) is not None)

    def _ask_inner(self, number: int) -> _FrameReplies:
        return _FrameReplies(
            number,
            self._core.QueryTree(number),
            self._ask_titles(number),
            self._ask_property(number, self._atoms["WM_STATE"]),
            self._ask_property(number, x.Atom.WM_TRANSIENT_FOR),
        )

    def _ask_titles(self, number: int) -> tuple[Any, Any]:
        """Request both title properties: the new one, and the old one as a fallback."""
        new = self._ask_property(number, self._atoms["_NET_WM_NAME"])
        return new, self._ask_property(number, x.Atom.WM_NAME)

    def _ask_property(self, number: int, atom: int) -> Any:  # noqa: ANN401
        return self._core.GetProperty(*(False, number, atom, x.GetPropertyType.Any, 0, _LONGEST))


class _WindowReplies(NamedTuple):
    """Pending replies about one window."""

    number: int
    attributes: Any
    titles: tuple[Any, Any]
    pid: Any
    leader: Any
    owner: Any

    def read_window(self) -> Window | None:
        """Read all replies; None: the window is gone."""
        shown = None
        with suppress(x.WindowError):
            shown = self.attributes.reply().map_state
        window = Window(
            id=self.number,
            title=decode_title(*self.titles),
            pid=next(iter(read_numbers(self.pid)), None),
            group=next(iter(read_numbers(self.leader)), None),
            owner=next(iter(read_numbers(self.owner)), None),
            shown=shown == x.MapState.Viewable,
        )
        return None if shown is None else window


class _FrameReplies(NamedTuple):
    """Pending replies about a window that may be another's frame."""

    number: int
    tree: Any
    titles: tuple[Any, Any]
    state: Any
    owner: Any

    def read_children(self) -> Sequence[int]:
        """Return the child windows, topmost last."""
        with suppress(*GONE):
            return [*self.tree.reply().children]
        return []

    def is_application(self) -> bool:
        """Return whether it has a title, WM_STATE or an owner, as frames do not."""
        said = (decode_title(*self.titles), read_bytes(self.state), read_bytes(self.owner))
        return any(said)


def decode_title(new: Any, old: Any) -> str:  # noqa: ANN401
    """Return a title on one line, of the new property or else of the old one."""
    found, fallback = read_bytes(new), read_bytes(old)
    try:
        return to_one_line((found or fallback).decode())
    except UnicodeDecodeError:
        # The old property is Latin-1; the new one may be cut inside a character.
        if found:
            return to_one_line(found.decode("utf-8", "replace"))
        return to_one_line(fallback.decode("latin-1"))


def read_numbers(asked: Any) -> Sequence[int]:  # noqa: ANN401
    """Return the numbers of a property; empty: it is not there, or the window is gone."""
    raw = read_bytes(asked)
    return [each for (each,) in struct.iter_unpack("=I", raw[: len(raw) // 4 * 4])]


def read_bytes(asked: Any) -> bytes:  # noqa: ANN401
    """Return a property as it is; empty: it is not there, or the window is gone."""
    with suppress(*GONE):
        return bytes(asked.reply().value.buf())
    return b""
