"""Windows of a sway session: where they are, what lies over them, and when they change.

sway tells it on a socket of its own, in the protocol of i3. Which sway serves a Wayland display is
told by the process at the other end of both sockets. The pixels of a window are those at its place
on the screen; where a window of another program lies over it, they are black.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from PIL import Image

from taskmem_vision.desktop import Box, DisplayGone, Window
from taskmem_vision.text_lines import to_one_line

_TIME_LIMIT: Final = struct.pack("ll", 3, 0)
"""Time limit for one answer: seconds, and microseconds."""
_MOST_BYTES: Final = 1 << 24
"""Maximum size of an answer; a window takes about 1,500 bytes."""
_MAGIC: Final = b"i3-ipc"
_HEADER: Final = struct.Struct("=6sII")
_SUBSCRIBE, _GET_TREE = 2, 4
_EVENTS: Final = b'["window", "workspace"]'
_CREDENTIALS: Final = struct.Struct("=iII")


class Surface(NamedTuple):
    """A window, and where it is on the screen."""

    window: Window
    box: Box
    """Its contents."""
    frame: tuple[Box, ...]
    """All that shows it or its title: with borders, and the title bar or tab."""
    x11_id: int | None
    """Its id on the X11 display; None: its program uses Wayland."""


class WindowTree(NamedTuple):
    """All windows of a session."""

    screen: Box
    """All monitors."""
    surfaces: tuple[Surface, ...]
    """Topmost first."""

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows, topmost first."""
        return tuple(each.window for each in self.surfaces)

    def find_window(self, number: int) -> Window | None:
        """Return the window with an id; None: it is not there."""
        return next((each for each in self.windows if each.id == number), None)

    def is_of_x11(self, window: Window) -> bool:
        """Return whether a window's program uses X11."""
        return any(each.window == window and each.x11_id is not None for each in self.surfaces)

    @property
    def places(self) -> tuple[object, ...]:
        """Places of all monitors and windows, without titles."""
        spots = ((each.window.id, each.window.shown, each.frame) for each in self.surfaces)
        return self.screen, *spots

    def crop_window(
        self, pixels: Image.Image, window: Window, dialogs: Collection[Window]
    ) -> Image.Image:
        """Return a window with its dialogs from a picture of the screen; all else is black."""
        family = {window.id, *(each.id for each in dialogs)}
        stack = [each for each in reversed(self.surfaces) if each.window.shown]
        place = _join_boxes([each.box for each in stack if each.window.id in family])
        canvas = Image.new(pixels.mode, pixels.size)
        under = True
        for each in stack:
            under = under and each.window.id != window.id
            if each.window.id in family:
                spot = self._find_spot(each.box, pixels)
                canvas.paste(pixels.crop(spot), spot[:2])
            elif not under:
                for box in each.frame:
                    canvas.paste(0, self._find_spot(box, pixels))
        return canvas.crop(self._find_spot(place, pixels))

    def black_out(self, pixels: Image.Image, windows: Collection[Window]) -> Image.Image:
        """Return a picture of the screen on which windows are black."""
        ids = {each.id for each in windows}
        for each in self.surfaces:
            for box in each.frame if each.window.id in ids else ():
                pixels.paste(0, self._find_spot(box, pixels))
        return pixels

    def _find_spot(self, box: Box, pixels: Image.Image) -> tuple[int, int, int, int]:
        """Return left, top, right and bottom of a box in a picture of the screen."""
        scale = pixels.width / max(1, self.screen[2])
        left, top = box[0] - self.screen[0], box[1] - self.screen[1]
        right, bottom = left + box[2], top + box[3]
        return round(left * scale), round(top * scale), round(right * scale), round(bottom * scale)


def parse_tree(told: Mapping[str, Any]) -> WindowTree:
    """Return the windows that sway's tree has.

    Raises:
        DisplayGone: It has another form.
    """
    try:
        surfaces = [*_list_surfaces(told, (0, 0))]
        owners = _find_owners(surfaces)
        owned = [
            each._replace(window=each.window._replace(owner=owners.get(each.window.id)))
            for each, _ in reversed(surfaces)
        ]
        return WindowTree(_read_box(told["rect"]), tuple(owned))
    except (KeyError, TypeError, ValueError) as error:
        raise DisplayGone("sway tells of its windows in a form that is not known.") from error


def _list_surfaces(
    node: Mapping[str, Any], corner: tuple[int, int]
) -> Iterator[tuple[Surface, bool]]:
    """Yield the windows in a node, topmost last, each with whether it floats."""
    box = _read_box(node["rect"])
    pid = node.get("pid")
    if pid:
        left, top, width, height = _read_box(node["window_rect"])
        inner = (box[0] + left, box[1] + top, width, height)
        left, top, width, height = _read_box(node["deco_rect"])
        bar = (corner[0] + left, corner[1] + top, width, height)
        shown = bool(node["visible"])
        frame = tuple(each for each in ((box, bar) if shown else (bar,)) if each[2] and each[3])
        x11_id = node.get("window") if node.get("shell") == "xwayland" else None
        title = to_one_line(str(node.get("name") or ""))
        window = Window(int(x11_id or node["id"]), title, int(pid), shown=shown)
        yield Surface(window, inner, frame, x11_id), node["type"] == "floating_con"
    for each in [*node["nodes"], *node["floating_nodes"]]:
        yield from _list_surfaces(each, box[:2])


def _find_owners(surfaces: Collection[tuple[Surface, bool]]) -> dict[int, int]:
    """Return whose dialogs floating windows are: of the only other window of their process."""
    owners: dict[int, int] = {}
    for each, floats in surfaces:
        others = [
            other.window.id
            for other, above in surfaces
            if other.window.pid == each.window.pid and not above
        ]
        if floats and len(others) == 1:
            owners[each.window.id] = others[0]
    return owners


def _read_box(told: Mapping[str, Any]) -> Box:
    return int(told["x"]), int(told["y"]), int(told["width"]), int(told["height"])


def _join_boxes(boxes: Collection[Box]) -> Box:
    """Return the box around boxes, of which there is at least one."""
    left, top = min(box[0] for box in boxes), min(box[1] for box in boxes)
    right, bottom = max(box[0] + box[2] for box in boxes), max(box[1] + box[3] for box in boxes)
    return left, top, right - left, bottom - top


# --- the socket ---------------------------------------------------------------


def find_socket(display: Path, folder: Path, named: str | None) -> Path | None:
    """Return the socket of the sway that serves a Wayland display; None: none does.

    `folder`: where sockets are; `named`: as in SWAYSOCK. It may block for a moment.
    """
    server = _find_server(display)
    there = [*([Path(named)] if named else []), *folder.glob("sway-ipc.*.sock")]
    return next((each for each in there if server and _find_server(each) == server), None)


def _find_server(path: Path) -> int | None:
    """Return the process that listens at a socket; None: nobody does."""
    with suppress(OSError), _connect(path) as asking:
        size = _CREDENTIALS.size
        told = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        return int(_CREDENTIALS.unpack(told)[0])
    return None


def read_tree(path: Path) -> WindowTree:
    """Return the windows of the sway at a socket; it blocks until sway answers.

    Raises:
        DisplayGone: It does not answer.
    """
    try:
        with _connect(path) as asking, asking.makefile("rb") as answer:
            asking.sendall(_HEADER.pack(_MAGIC, 0, _GET_TREE))
            _, size, _ = _HEADER.unpack(answer.read(_HEADER.size))
            if size > _MOST_BYTES:
                raise DisplayGone("sway tells more of its windows than any session has.")
            told = json.loads(answer.read(size))
    except (OSError, ValueError, struct.error) as error:
        raise DisplayGone("sway does not answer.") from error
    return parse_tree(told)


def subscribe_events(path: Path) -> socket.socket:
    """Return a socket that becomes readable at each change of windows, and at sway's end.

    Raises:
        DisplayGone: sway does not answer.
    """
    try:
        events = _connect(path)
        events.sendall(_HEADER.pack(_MAGIC, len(_EVENTS), _SUBSCRIBE) + _EVENTS)
    except OSError as error:
        raise DisplayGone("sway does not answer.") from error
    events.setblocking(False)  # noqa: FBT003
    return events


def _connect(path: Path) -> socket.socket:
    """Connect to a socket, and wait for its server: sway queues few that connect."""
    made = socket.socket(socket.AF_UNIX)
    try:
        # A time limit of Python's would take a full queue for an error.
        for limit in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            made.setsockopt(socket.SOL_SOCKET, limit, _TIME_LIMIT)
        made.connect(str(path))
    except OSError:
        made.close()
        raise
    return made
