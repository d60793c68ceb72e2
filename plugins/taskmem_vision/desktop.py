"""Choose the display and the window to watch, and which windows are private. Pure.

Source: docs/origins.md, "Settings" and "Targets".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from taskmem_hookspecs import InvalidArguments, TargetNotFound
from taskmem_hookspecs.errors import NoProvider
from taskmem_vision.text_lines import to_one_line

SOCKETS: Final = "/tmp/.X11-unix"  # noqa: S108 - that is where X servers listen
"""Folder with the sockets of all local X servers."""
_DISPLAY_VARIABLE: Final = "TASKMEM_DISPLAY"
_WAYLAND_VARIABLE: Final = "WAYLAND_DISPLAY"
HIDDEN_WINDOW: Final = "The window is minimised or on another desktop; it cannot be seen."

_MOST_NAMED_WINDOWS: Final = 5
"""How many displays or windows a sentence names."""
_SOCKET: Final = re.compile(r"X(\d+)")
_WAYLAND_SOCKET: Final = re.compile(r"wayland-\d+")
SCREEN_INSTEAD: Final = "Wait on the whole screen instead: target screen."
_NO_WINDOWS: Final = (
    "A single window cannot be watched on this Wayland session: only those of X11 programs can, "
    f"and DISPLAY names no display of theirs. {SCREEN_INSTEAD}"
)
_NO_DISPLAY: Final = (
    "There is no display: neither DISPLAY nor TASKMEM_DISPLAY is set where the daemon "
    "was started. Where there is a desktop, set one, such as TASKMEM_DISPLAY=:0, and "
    "run: taskmem daemon restart. Where there is none, wait on a terminal (pty:NAME) or a "
    "file (pty:file:/PATH)."
)

Box = tuple[int, int, int, int]
"""Left, top, width, height, in screen pixels."""


class DisplayGone(Exception):
    """The display does not answer, or no longer; the message says which."""


class NotViewable(Exception):
    """The window exists but has no pixels; the message says why."""


class DisplayEvents(NamedTuple):
    """Events of a display since the last call."""

    painted: bool = False
    """True if anything was painted."""
    changed: bool = False
    """True if a title, a position, or the list of windows changed."""
    closed: frozenset[int] = frozenset()
    """Windows that were closed."""


class Desktop(NamedTuple):
    """A display that can be watched."""

    name: str | None
    """As in DISPLAY, or in WAYLAND_DISPLAY; None: the system uses neither."""
    note: str | None = None
    """A sentence for the agent: why this display was chosen, or which windows it cannot show; None:
    it was configured."""
    is_wayland: bool = False
    """True if it is a Wayland display, not one of X11."""


def find_screen_display(
    environ: Mapping[str, str], platform: str, sockets: Iterable[str]
) -> Desktop:
    """Return the display for the target `screen`.

    `sockets`: the names of the sockets of displays; `platform` is as in `sys.platform`.

    Raises:
        NoProvider: It cannot be watched; the message says what is missing.
    """
    if platform in ("darwin", "win32"):
        return Desktop(None)
    for variable in (_DISPLAY_VARIABLE, _WAYLAND_VARIABLE, "DISPLAY"):
        if name := environ.get(variable, "").strip():
            wayland = variable == _WAYLAND_VARIABLE or bool(_WAYLAND_SOCKET.fullmatch(name))
            return Desktop(name, is_wayland=wayland)
    return _find_only_display([*sockets])


def find_window_display(
    environ: Mapping[str, str], platform: str, sockets: Iterable[str]
) -> Desktop:
    """Return the display for `window:` targets.

    Raises:
        NoProvider: They cannot be watched; the message says what is missing.
    """
    if platform in ("darwin", "win32"):
        system = "macOS" if platform == "darwin" else "Windows"
        raise NoProvider(
            f"Watching a single window is not offered on {system}; that takes a plug-in "
            f"that answers wait_sensor for window:. {SCREEN_INSTEAD}"
        )
    sockets = [*sockets]
    found = find_screen_display(environ, platform, sockets)
    if not found.is_wayland:
        return found
    names = [f":{is_x11[1]}" for name in sockets if (is_x11 := _SOCKET.fullmatch(name))]
    name = environ.get("DISPLAY", "").strip() or (names[0] if len(names) == 1 else None)
    if name is None:
        raise NoProvider(_NO_WINDOWS)
    return Desktop(name, "In this Wayland session, only windows of X11 programs can be watched.")


def _find_only_display(sockets: Sequence[str]) -> Desktop:
    """Return the only display here; of a Wayland session, not the one of its X11 programs."""
    there = sorted(name for name in sockets if _WAYLAND_SOCKET.fullmatch(name))
    wayland = bool(there)
    if not wayland:
        numbers = [found[1] for name in sockets if (found := _SOCKET.fullmatch(name))]
        there = [f":{each}" for each in sorted(numbers, key=int)]
    if not there:
        raise NoProvider(_NO_DISPLAY)
    if len(there) == 1:
        return Desktop(there[0], f"It is on display {there[0]}, the only one here.", wayland)
    more = " …" if len(there) > _MOST_NAMED_WINDOWS else ""
    named = ", ".join(there[:_MOST_NAMED_WINDOWS]) + more
    raise NoProvider(
        f"Several displays are here ({named}), and none is named: set {_DISPLAY_VARIABLE} "
        f"to one of them, such as {there[0]}, and restart the daemon."
    )


_WINDOW_ID: Final = re.compile(r"0x([0-9a-fA-F]{1,8})|([0-9]{1,10})")
_TITLE_CHARACTERS: Final = 80
"""Maximum length of a title in a sentence. Characters."""


class Window(NamedTuple):
    """A window of an application."""

    id: int
    title: str
    pid: int | None = None
    """None: the window does not say."""
    group: int | None = None
    """The leader window of its group; None: it is in no group."""
    owner: int | None = None
    """The window whose dialog it is; None: it is no dialog."""
    shown: bool = True
    """True if it is on the screen; False: minimised, or on another desktop."""


class WindowChoice(NamedTuple):
    """The chosen window and the other candidates."""

    window: Window
    others: tuple[Window, ...] = ()


def choose_window(name: str, windows: Sequence[Window]) -> WindowChoice:
    """Return the window that a name means.

    A name is a part of a title, in any case; or an id, as `0x4200003`, or as `69206019`, unless
    only a title contains that number. The windows are topmost first.

    Raises:
        InvalidArguments: The name is empty.
        TargetNotFound: No window matches; the message names those that exist.
    """
    wanted = name.strip()
    if not wanted:
        raise InvalidArguments("window: takes a part of a title, or an id such as 0x4200003.")
    found = _WINDOW_ID.fullmatch(wanted)
    number = found and (int(found[1], 16) if found[1] else int(found[2]))
    for window in windows:
        if window.id == number:
            return WindowChoice(window)
    exact = [window for window in windows if window.title == wanted]
    part = wanted.casefold()
    similar = [window for window in windows if part in window.title.casefold()]
    if found and (found[1] or not similar):
        raise TargetNotFound(f"There is no window {wanted}; {_describe_windows(windows)}")
    if not similar:
        raise TargetNotFound(
            f"No window's title holds {_quote_title(wanted)}; {_describe_windows(windows)}"
        )
    best = (exact or similar)[0]
    return WindowChoice(best, tuple(each for each in similar if each is not best))


def find_dialogs(window: Window, windows: Sequence[Window]) -> tuple[Window, ...]:
    """Return the windows that belong to a window, topmost first.

    These are its dialogs and theirs; and dialogs whose owner does not exist, if they have the same
    group or process.
    """
    there = {each.id for each in windows}
    own = {window.id}

    def is_orphan(each: Window) -> bool:
        if each.owner is None or each.owner in there:
            return False
        by_group = each.group is not None and each.group == window.group
        return by_group or (each.pid is not None and each.pid == window.pid)

    while True:
        more = {each.id for each in windows if each.owner in own} - own
        if not more:
            break
        own |= more
    own_or_orphans = (each for each in windows if each.id in own or is_orphan(each))
    return tuple(each for each in own_or_orphans if each.id != window.id)


def describe_choice(choice: WindowChoice) -> str | None:
    """Return what an agent must know about a choice; None: there was only one candidate."""
    if not choice.others:
        return None
    others = _list_windows(choice.others)
    return f"It is {describe_window(choice.window)} that is watched; also there: {others}."


def _describe_windows(windows: Sequence[Window]) -> str:
    titled = [window for window in windows if window.title]
    if not titled:
        return "no window has a title."
    return f"there are {_list_windows(titled)}."


def _list_windows(windows: Sequence[Window]) -> str:
    named = ", ".join(map(describe_window, windows[:_MOST_NAMED_WINDOWS]))
    more = len(windows) - _MOST_NAMED_WINDOWS
    return f"{named} and {more} more" if more > 0 else named


def describe_window(window: Window) -> str:
    """Return a window's title and id for a sentence."""
    return f"{_quote_title(window.title)} (0x{window.id:x})"


def _quote_title(title: str) -> str:
    return f'"{to_one_line(title, _TITLE_CHARACTERS)}"'


PRIVATE_VARIABLE: Final = "TASKMEM_PRIVATE_WINDOWS"
"""Setting with parts of their titles, separated by commas."""


class Privacy:
    """Decides which windows are private."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Read the setting from the environment."""
        listed = environ.get(PRIVATE_VARIABLE, "").split(",")
        self._parts = [part for each in listed if (part := each.strip().casefold())]

    def __bool__(self) -> bool:
        """Return whether any window can be private."""
        return bool(self._parts)

    def covers(self, window: Window) -> bool:
        """Return whether a window is private, by its title."""
        title = window.title.casefold()
        return any(part in title for part in self._parts)

    def find_private(self, windows: Sequence[Window]) -> frozenset[Window]:
        """Return the private windows and their dialogs, whatever the dialogs' titles."""
        private = {each for each in windows if self.covers(each)}
        return frozenset(private).union(*(find_dialogs(each, windows) for each in private))
