"""Bare X windows for tests, in any state that a window can be in; and how to watch."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import xcffib
import xcffib.randr
from xcffib.xproto import (
    CW,
    GC,
    Atom,
    ClientMessageEvent,
    ConfigWindow,
    EventMask,
    MapState,
    PropMode,
    StackMode,
    WindowClass,
)

from taskmem_hookspecs import Frame, Target, Watch
from taskmem_vision.sensor import ScreenSensor
from tests.support.desktop import Desktop
from tests.support.screens import Screen
from tests.support.waiting import PATIENCE, until

ICONIC = 3
GREEN, RED, BLUE = 0x00A050, 0xD02010, 0x1030C0


class Papers:
    """A program with windows that are sheets of one colour."""

    def __init__(self, display: str) -> None:
        self._connection = xcffib.connect(display=display)
        self._core = self._connection.core
        self._screen = self._connection.get_setup().roots[0]
        self.desktop = Desktop(display)
        self._listed: list[int] = []

    def close(self) -> None:
        """Close all windows, and return when the manager lists none of them."""
        self._connection.disconnect()
        with suppress(xcffib.ConnectionException):  # the server is gone
            for window in self._listed:
                self.desktop.await_gone(window)
        self.desktop.close()

    # --- windows ----------------------------------------------------------------

    def open(
        self,
        title: str | bytes = "",
        size: tuple[int, int] = (300, 200),
        at: tuple[int, int] = (40, 60),
        *,
        colour: int = GREEN,
        owner: int | None = None,
        shown: bool = True,
        managed: bool = True,
        depth: int = 24,
        kind: int = WindowClass.InputOutput,
        within: int | None = None,
    ) -> int:
        """Make a window, and return when it is on the screen and listed.

        `within` is the window that it is in; None: it is on the screen itself.
        """
        window = self._connection.generate_id()
        visual, values = self._looks(depth, colour, managed=managed)
        if kind == WindowClass.InputOnly:
            visual, depth, values = 0, 0, {CW.OverrideRedirect: 1}
        self._core.CreateWindowChecked(
            *(depth, window, within or self._screen.root, *at, *size, 0, kind, visual),
            *(sum(values), [values[key] for key in sorted(values)]),
        ).check()
        if title:
            self.call(window, title)
        # That its place is meant: a manager puts it elsewhere else.
        self._set(window, "WM_NORMAL_HINTS", struct.pack("=18I", 1, *[0] * 17))
        if owner is not None:
            told = struct.pack("=I", owner)
            self._change(window, Atom.WM_TRANSIENT_FOR, Atom.WINDOW, told, 32)
        if shown:
            self.restore(window)
            if managed:
                self.desktop.await_listed(window)
                self._listed.append(window)
        self.sync()
        return window

    def call(self, window: int, title: str | bytes) -> None:
        """Give a window a title; bytes are the old property, which has Latin-1."""
        if isinstance(title, bytes):
            self._change(window, Atom.WM_NAME, Atom.STRING, title)
        else:
            self._set(window, "_NET_WM_NAME", title.encode(), "UTF8_STRING")
        self.sync()

    def call_raw(self, window: int, title: bytes) -> None:
        """Give a window a title that need not be text, in pieces as X takes them."""
        for start in range(0, len(title), 200_000):
            mode = PropMode.Append if start else PropMode.Replace
            piece = title[start : start + 200_000]
            self._set(window, "_NET_WM_NAME", piece, "UTF8_STRING", mode)
        self.sync()

    def paint(self, window: int, colour: int = RED, depth: int = 24) -> None:
        """Paint a square."""
        gc = self._connection.generate_id()
        self._core.CreateGC(gc, window, GC.Foreground, [colour])
        square = xcffib.xproto.RECTANGLE.synthetic(20, 20, 60, 60)
        self._core.PolyFillRectangle(window, gc, 1, [square])
        self._core.FreeGC(gc)
        self.sync()

    def place(self, window: int, x: int, y: int) -> None:
        self._configure(window, ConfigWindow.X | ConfigWindow.Y, x, y)

    def resize(self, window: int, width: int, height: int) -> None:
        both = ConfigWindow.Width | ConfigWindow.Height
        self._configure(window, both, width, height)

    def lift(self, window: int) -> None:
        self._configure(window, ConfigWindow.StackMode, StackMode.Above)

    def minimise(self, window: int) -> None:
        """Return when the manager has done so."""
        kind = self._atom("WM_CHANGE_STATE")
        data = xcffib.xproto.ClientMessageData.synthetic([ICONIC, 0, 0, 0, 0], "I" * 5)
        event = ClientMessageEvent.synthetic(32, window, kind, data)
        mask = EventMask.SubstructureRedirect | EventMask.SubstructureNotify
        self._core.SendEvent(False, self._screen.root, mask, event.pack())
        self.sync()
        self.desktop.await_viewable(window, viewable=False)

    def restore(self, window: int) -> None:
        """Show a window; a manager that has just begun may miss the first request."""

        def is_viewable() -> bool:
            self._core.MapWindow(window)
            state = self._core.GetWindowAttributes(window).reply().map_state
            return state == MapState.Viewable

        until(is_viewable, "a window on the screen")

    def shut(self, window: int) -> None:
        """Close a window."""
        self._core.DestroyWindow(window)
        self.sync()

    def resize_screen(self, width: int, height: int) -> None:
        """Give the screen another size, no larger than its first."""
        root = self._screen.root
        extension = self._connection(xcffib.randr.key)
        extension.QueryVersion(1, 5).reply()
        found = extension.GetScreenResources(root).reply()
        off = (*(0, found.config_timestamp, 0, 0, 0, 1), 0, [])
        extension.SetCrtcConfig(found.crtcs[0], *off).reply()
        extension.SetScreenSizeChecked(root, width, height, 170, 130).check()

    def sync(self) -> None:
        """Return when the server has done all that it was told."""
        self._core.GetInputFocus().reply()

    # --- the wire ---------------------------------------------------------------

    def _looks(self, depth: int, colour: int, *, managed: bool):
        values = {CW.BackPixel: colour, CW.OverrideRedirect: int(not managed)}
        if depth == self._screen.root_depth:
            return self._screen.root_visual, values
        depths = {each.depth: each.visuals for each in self._screen.allowed_depths}
        visual = depths[depth][0].visual_id
        colours = self._connection.generate_id()
        self._core.CreateColormapChecked(*(0, colours, self._screen.root, visual)).check()
        return visual, {**values, CW.BorderPixel: 0, CW.Colormap: colours}

    def _configure(self, window: int, mask: int, *values: int) -> None:
        self._core.ConfigureWindow(window, mask, [*values])
        self.sync()

    def _atom(self, name: str) -> int:
        return self._core.InternAtom(False, len(name), name).reply().atom

    def _set(self, window, name, told, kind=None, mode=PropMode.Replace):
        bits, kind = (8, self._atom(kind)) if kind else (32, Atom.WM_SIZE_HINTS)
        self._change(window, self._atom(name), kind, told, bits, mode)

    def _change(self, window, atom, kind, told, *how):
        bits, mode = (*how, *(8, PropMode.Replace)[len(how) :])
        length = len(told) * 8 // bits
        change = (mode, window, atom, kind, bits, length, told)
        self._core.ChangePropertyChecked(*change).check()


@contextmanager
def papers_on(screen: Screen) -> Iterator[Papers]:
    papers = Papers(screen.display)
    try:
        yield papers
    finally:
        papers.close()


def sensor(screen: Screen, **environ: str) -> ScreenSensor:
    """Return what watches a screen, and nothing else that is here."""
    there = {**screen.variables, "PATH": os.environ["PATH"]}
    return ScreenSensor({**there, **environ}, "linux")


@asynccontextmanager
async def watch_target(screen: Screen, target: str, **environ: str) -> AsyncIterator[Watch]:
    scheme, _, name = target.partition(":")
    watch = await sensor(screen, **environ).watch(Target(scheme=scheme, name=name))
    try:
        yield watch
    finally:
        await watch.close()


async def look(watch: Watch) -> Frame:
    return await watch.look("now", "now")


async def await_change(watch: Watch) -> None:
    """Wait for a change, and not for ever."""
    async with asyncio.timeout(PATIENCE):
        await watch.wait_for_change()


async def await_frame(watch: Watch, holds: Callable[[Frame], object]) -> Frame:
    """Look whenever something changed, until that holds, and return what it was."""
    while not holds(frame := await look(watch)):
        await await_change(watch)
    return frame


def colours(frame: Frame) -> set[int]:
    """Return all colours of a picture."""
    if frame.picture is None:
        return set()
    counted = frame.picture.image.getcolors(1 << 24)
    return {r << 16 | g << 8 | b for _, (r, g, b) in counted}
