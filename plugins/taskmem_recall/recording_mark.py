"""A red dot in the corner of the screen while it is recorded; clicks go through it."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final, Self

from taskmem_recall.window_exclusions import MARK_TITLE
from taskmem_vision.capture.desktop import DisplayGone
from taskmem_vision.capture.x11 import shape

# xcffib has no types.
xcffib: Any = import_module("xcffib")
x: Any = import_module("xcffib.xproto")

SIDE: Final = 14
FROM_EDGE: Final = 10
COLOUR: Final = 0xD81E1E


class RecordingMark:
    """A window of its own connection; it goes when that is closed."""

    def __init__(self, display: str) -> None:
        """Show the mark on a display, as in DISPLAY.

        Raises:
            DisplayGone: It cannot be shown there.
        """
        try:
            self._connection = xcffib.connect(display=display)
        except (xcffib.XcffibException, UnicodeError, ValueError) as error:
            raise DisplayGone(f"The display {display} cannot be reached.") from error
        try:
            self._core = self._connection.core
            self._shape = self._connection(shape.key)
            self._window = self._create_window()
            self._make_round()
            self._core.MapWindow(self._window)
            self.raise_window()
        except xcffib.XcffibException as error:
            self.close()
            raise DisplayGone(f"No mark can be shown on {display}.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the mark."""
        self._connection.disconnect()

    def raise_window(self) -> None:
        """Put the mark above all windows.

        Raises:
            DisplayGone: The display is gone.
        """
        try:
            above = [x.StackMode.Above]
            self._core.ConfigureWindow(self._window, x.ConfigWindow.StackMode, above)
            self._connection.flush()
        except xcffib.ConnectionException as error:
            raise DisplayGone("The display is gone.") from error

    def _create_window(self) -> int:
        screen = self._connection.get_setup().roots[self._connection.pref_screen]
        window = int(self._connection.generate_id())
        self._core.CreateWindowChecked(
            *(screen.root_depth, window, screen.root),
            *(screen.width_in_pixels - SIDE - FROM_EDGE, FROM_EDGE, SIDE, SIDE, 0),
            *(x.WindowClass.InputOutput, screen.root_visual),
            # No window manager frames it, and the server paints it by itself.
            *(x.CW.BackPixel | x.CW.OverrideRedirect, [COLOUR, 1]),
        ).check()
        self._set_property(window, x.Atom.WM_NAME, x.Atom.STRING, 8, MARK_TITLE.encode())
        pid = os.getpid().to_bytes(4, "little")
        self._set_property(window, self._intern("_NET_WM_PID"), x.Atom.CARDINAL, 32, pid)
        return window

    def _make_round(self) -> None:
        disc, pen = (int(self._connection.generate_id()) for _ in range(2))
        self._core.CreatePixmap(1, disc, self._window, SIDE, SIDE)
        self._core.CreateGC(pen, disc, x.GC.Foreground, [0])
        self._core.PolyFillRectangle(disc, pen, 1, [x.RECTANGLE.synthetic(0, 0, SIDE, SIDE)])
        self._core.ChangeGC(pen, x.GC.Foreground, [1])
        circle = x.ARC.synthetic(0, 0, SIDE, SIDE, 0, 360 * 64)
        self._core.PolyFillArc(disc, pen, 1, [circle])
        self._shape.MaskChecked(shape.SO.Set, shape.SK.Bounding, self._window, 0, 0, disc).check()
        self._shape.RectanglesChecked(
            *(shape.SO.Set, shape.SK.Input, x.ClipOrdering.Unsorted, self._window, 0, 0, 0, [])
        ).check()
        self._core.FreeGC(pen)
        self._core.FreePixmap(disc)

    def _set_property(self, window: int, name: int, kind: int, size: int, value: bytes) -> None:
        length = len(value) * 8 // size
        self._core.ChangeProperty(x.PropMode.Replace, window, name, kind, size, length, value)

    def _intern(self, name: str) -> int:
        return int(self._core.InternAtom(False, len(name), name).reply().atom)  # noqa: FBT003
