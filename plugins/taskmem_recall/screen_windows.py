"""A window as the recorder sees it, and what that says of its application. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final, NamedTuple

Box = tuple[int, int, int, int]
"""Left, top, width, height, in screen pixels."""


class ScreenWindow(NamedTuple):
    """A window, with what tells whose it is."""

    id: int
    title: str = ""
    application: str = ""
    """Class of the window, such as `firefox`; empty: it does not say."""
    instance: str = ""
    """Instance of that class, such as `Navigator`."""
    role: str = ""
    """Role that the application gives it, such as `browser`."""
    pid: int | None = None
    owner: int | None = None
    """The window whose dialog it is; None: it is no dialog."""
    group: int | None = None
    """Leader window of its group; None: it is in no group."""
    box: Box | None = None
    """Its place with its frame; None: it is not on the screen."""
    is_dialog: bool = False
    is_dock: bool = False
    """Whether it is a panel, which may show other windows' titles."""
    is_popup: bool = False
    """Whether no window manager handles it, such as a menu."""
    arguments: Sequence[str] = ()
    """Arguments of its process; empty: unknown."""
    language: str = ""
    """Language of its process, such as `de`; empty: unknown."""


_BROWSERS: Final = """
    brave brave-browser chrome chromium chromium-browser epiphany falkon firefox firefox-esr floorp
    google-chrome icecat konqueror librewolf microsoft-edge midori navigator opera palemoon
    qutebrowser seamonkey vivaldi vivaldi-stable waterfox zen zen-browser
    """
BROWSERS: Final = frozenset(_BROWSERS.split())
"""Classes and instances of browsers' windows, without `-beta` and the like."""
_CHANNELS: Final = ("-beta", "-dev", "-unstable", "-nightly", "-stable")
_DASHES: Final = (" — ", " – ", " - ")
"""What stands between a page's title and the browser's name."""


def list_names(window: ScreenWindow) -> frozenset[str]:
    """Return the names of a window's application in lower case, also the end of a dotted one.

    These are its class, its instance, and its program.
    """
    program = PurePath(window.arguments[0]).name if window.arguments else ""
    # Chromium appends the folder of a profile to its instance.
    instance = window.instance.partition(" (")[0]
    given = {each.casefold().strip() for each in (window.application, instance, program)}
    ends = {each.rpartition(".")[2] for each in given}
    return frozenset((given | ends) - {""})


def is_browser(window: ScreenWindow) -> bool:
    """Return whether a window is a browser's: by its name, or by its role where that is unknown.

    Chromium and Firefox give the role, and so does what others build of them.
    """
    names = list_names(window)
    return window.role == "browser" or any(_strip_channel(each) in BROWSERS for each in names)


def find_page(window: ScreenWindow) -> str | None:
    """Return the title of the page that a browser shows; None: it is no browser, or has no page."""
    if not is_browser(window):
        return None
    places = [(window.title.rfind(dash), dash) for dash in _DASHES]
    place, _ = max(places)
    return window.title[:place].strip() or None if place > 0 else None


def overlaps(one: Box, other: Box) -> bool:
    """Return whether two boxes share a pixel."""
    return all(
        one[side] < other[side] + other[side + 2] and other[side] < one[side] + one[side + 2]
        for side in (0, 1)
    )


def _strip_channel(name: str) -> str:
    for each in _CHANNELS:
        name = name.removesuffix(each)
    return name
