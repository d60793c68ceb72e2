"""Choose the window that a name means. Pure.

Source: docs/origins.md, "Targets".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from taskmem_hookspecs import InvalidArguments, TargetNotFound
from taskmem_vision.text_lines import to_one_line

_ID: Final = re.compile(r"0x([0-9a-fA-F]{1,8})|([0-9]{1,10})")
_NAMED: Final = 5
_TITLE: Final = 80
"""Maximum numbers in a sentence: windows, and characters of a title."""


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
    """Whether it is on the screen; False: minimised, or on another desktop."""


class WindowChoice(NamedTuple):
    """The chosen window and the other candidates."""

    window: Window
    others: tuple[Window, ...] = ()


def choose_window(name: str, windows: Sequence[Window]) -> WindowChoice:
    """Return the window that a name means.

    Args:
        name: A part of its title, in any case; or its id, as `0x4200003`, or as `69206019`,
            unless only a title contains that number.
        windows: All windows, topmost first.

    Raises:
        InvalidArguments: The name is empty.
        TargetNotFound: No window matches; the message names those that exist.
    """
    wanted = name.strip()
    if not wanted:
        raise InvalidArguments("window: takes a part of a title, or an id such as 0x4200003.")
    found = _ID.fullmatch(wanted)
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
    while True:
        more = {each.id for each in windows if each.owner in own} - own
        if not more:
            break
        own |= more
    return tuple(
        each
        for each in windows
        if each.id != window.id
        and (
            each.id in own
            or (each.owner is not None and each.owner not in there and _is_related(each, window))
        )
    )


def describe_choice(choice: WindowChoice) -> str | None:
    """Return what an agent must know about a choice; None: there was only one candidate."""
    if not choice.others:
        return None
    named = ", ".join(describe_window(each) for each in choice.others[:_NAMED])
    more = len(choice.others) - _NAMED
    return (
        f"It is {describe_window(choice.window)} that is watched; also there: {named}"
        f"{f' and {more} more' if more > 0 else ''}."
    )


def _is_related(one: Window, other: Window) -> bool:
    """Return whether two windows have the same group or process."""
    by_group = one.group is not None and one.group == other.group
    return by_group or (one.pid is not None and one.pid == other.pid)


def _describe_windows(windows: Sequence[Window]) -> str:
    titled = [window for window in windows if window.title]
    if not titled:
        return "no window has a title."
    named = ", ".join(describe_window(each) for each in titled[:_NAMED])
    more = len(titled) - _NAMED
    return f"there are {named}{f' and {more} more' if more > 0 else ''}."


def describe_window(window: Window) -> str:
    """Return a window's title and id for a sentence."""
    return f"{_quote_title(window.title)} (0x{window.id:x})"


def _quote_title(title: str) -> str:
    return f'"{to_one_line(title, _TITLE)}"'
