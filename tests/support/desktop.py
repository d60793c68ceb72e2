"""What a window manager says about the windows of an X display."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

import xcffib
from xcffib.xproto import Atom, MapState, PropMode

from tests.support.waiting import until


class Desktop:
    """A connection to an X display that watches what others do."""

    def __init__(self, display: str) -> None:
        self._connection = xcffib.connect(display=display)
        self._root = self._connection.get_setup().roots[0].root

    def close(self) -> None:
        self._connection.disconnect()

    @property
    def has_manager(self) -> bool:
        """Whether a window manager runs."""
        return bool(self._ids("_NET_SUPPORTING_WM_CHECK"))

    @property
    def clients(self) -> list[int]:
        """The windows that the manager knows."""
        return self._ids("_NET_CLIENT_LIST")

    @property
    def titles(self) -> list[str]:
        """The titles of those windows."""
        return [self.title(window) for window in self.clients]

    def title(self, window: int) -> str:
        """Return a window's title; "" for a window that is gone."""
        names = ("_NET_WM_NAME", "WM_NAME")
        with suppress(xcffib.xproto.WindowError):
            return next(filter(None, (self._text(window, name) for name in names)), "")
        return ""

    def find_box(self, title: str) -> tuple[int, int, int, int]:
        """Return where the contents of a window are on the screen, without its frame."""
        window = self.clients[self.titles.index(title)]
        size = self._connection.core.GetGeometry(window).reply()
        at = self._connection.core.TranslateCoordinates(window, self._root, 0, 0).reply()
        return at.dst_x, at.dst_y, at.dst_x + size.width, at.dst_y + size.height

    def prefer(self, resources: str) -> None:
        """Set the preferences that programs take as they start."""
        told = resources.encode()
        change = (PropMode.Replace, self._root, Atom.RESOURCE_MANAGER, Atom.STRING)
        self._connection.core.ChangePropertyChecked(*change, 8, len(told), told).check()

    def client_of(self, inner: int) -> int:
        """Return the window that holds the contents of a Tk window, and its title."""
        return self._connection.core.QueryTree(inner).reply().parent

    def await_viewable(self, window: int, *, viewable: bool = True) -> None:
        """Wait until a window and all that hold it are mapped, or no longer."""
        ask = self._connection.core.GetWindowAttributes

        def there() -> bool:
            return (ask(window).reply().map_state == MapState.Viewable) == viewable

        until(there, f"viewable: {viewable}")

    def await_listed(self, client: int) -> None:
        """Wait until the manager knows a window, if there is a manager."""
        until(lambda: not self.has_manager or client in self.clients, "a listed window")

    def await_gone(self, client: int) -> None:
        """Wait until the manager has forgotten a window."""
        until(lambda: client not in self.clients, "a window is gone")

    def _ids(self, name: str) -> list[int]:
        return self._read(self._root, name).to_atoms()

    def _text(self, window: int, name: str) -> str:
        return bytes(self._read(window, name).buf()).decode(errors="replace")

    def _read(self, window: int, name: str):
        core = self._connection.core
        atom = core.InternAtom(False, len(name), name).reply().atom
        asked = core.GetProperty(False, window, atom, Atom.Any, 0, 1024)
        return asked.reply().value


@contextmanager
def desktop(display: str | None = None):
    """Connect to a display, or to that of the environment."""
    found = Desktop(display or os.environ["DISPLAY"])
    try:
        yield found
    finally:
        found.close()
