"""Recognise browsers' private windows. Pure. What cannot be told counts as private.

Firefox says so in the title, behind its name, in every language. Chromium says so nowhere but in
its toolbar, which is dark and holds a word: a window of a dark toolbar without that word is open
only if the word would have been recognised, and while what was read stands beside its place.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final, NamedTuple

from taskmem_recall.screen_windows import ScreenWindow, is_browser, list_names
from taskmem_vision.reading.page import Word

STRIP: Final = 96
"""Height of the part of a window in which its toolbar is. Pixels."""
NARROWEST: Final = 500
"""Width from which a toolbar shows the word in full. Pixels."""
ALIKE: Final = 0.8
"""How similar a read word must be to one of `_WORDS`."""
READABLE: Final = 3
"""How many letters of a toolbar must have been read, so that it counts as read."""
_BESIDE: Final = (2.0, 4.0)
"""Where the row with the address and the word is, in heights of the middle of the tabs' row."""

_SAID: Final = """
    --incognito --incognito-mode --inprivate --private --private-browsing --private-window --tor
    -incognito -inprivate -private -private-window
    """
_ARGUMENTS: Final = frozenset(_SAID.split())
_ALWAYS: Final = ("tor browser", "torbrowser", "mullvad browser", "mullvadbrowser", "onionbrowser")
"""Browsers all of whose windows are private."""
_OF_FIREFOX: Final = (
    "firefox firefox-esr navigator librewolf waterfox floorp icecat zen zen-browser"
)
_FIREFOX: Final = frozenset(_OF_FIREFOX.split())
_BRANDS: Final = (
    *("firefox", "firefox esr", "firefox developer edition", "firefox nightly", "nightly"),
    *("librewolf", "waterfox", "floorp", "gnu icecat", "icecat", "zen browser", "zen"),
)
"""Names with which the titles of Firefox's open windows end."""
_MARKERS: Final = (
    *("private browsing", "(private)", "[private]", "(incognito)", "[incognito]", "inprivate"),
    *("(inkognito)", "incognito mode", "private window", "privater modus", "navigation privée"),
)
"""What other browsers write into the titles of private windows."""
_WORDS: Final = (
    *("incognito", "inkognito", "inprivate", "private", "privat", "privada", "privee", "anonima"),
)
"""What the toolbar of a private window says, without accents."""
_LANGUAGES: Final = frozenset(
    ("da", "de", "en", "es", "fr", "it", "nb", "nl", "no", "pl", "pt", "sv")
)
"""Languages whose word is one of `_WORDS`."""


class Toolbar(NamedTuple):
    """What was seen in the uppermost part of a window."""

    is_dark: bool
    width: int
    words: Sequence[str] = ()
    beside: Sequence[str] = ()
    """The words in the row in which a private window's word would be."""


class Privateness(StrEnum):
    """What is known of a window."""

    OPEN = "open"
    PRIVATE = "private"
    UNREAD = "unread"
    """Its toolbar must be read first; until then it counts as private."""


def make_toolbar(words: Sequence[Word], width: int, *, is_dark: bool) -> Toolbar:
    """Return what was seen where these words were read."""
    middles = [(each.top + each.bottom) / 2 for each in words]
    least, most = (times * min(middles, default=0.0) for times in _BESIDE)
    beside = [each.text for each, at in zip(words, middles, strict=True) if least <= at <= most]
    return Toolbar(is_dark, width, [each.text for each in words], beside)


def judge_window(window: ScreenWindow, toolbar: Toolbar | None) -> Privateness:
    """Return whether a window is for private browsing.

    `toolbar`: None if it was not read yet.
    """
    names = list_names(window)
    title = window.title.casefold()
    if not names.isdisjoint(_ALWAYS) or title.endswith(_ALWAYS):
        return Privateness.PRIVATE
    if not is_browser(window):
        return Privateness.OPEN
    if _ARGUMENTS.intersection(window.arguments) or any(each in title for each in _MARKERS):
        return Privateness.PRIVATE
    if names & _FIREFOX:
        return Privateness.OPEN if title.endswith(_BRANDS) else Privateness.PRIVATE
    return Privateness.UNREAD if toolbar is None else _judge_toolbar(window, toolbar)


def _judge_toolbar(window: ScreenWindow, toolbar: Toolbar) -> Privateness:
    if any(map(_is_private_word, toolbar.words)):
        return Privateness.PRIVATE
    if _count_letters(toolbar.words) < READABLE:
        return Privateness.UNREAD
    if not toolbar.is_dark:
        return Privateness.OPEN
    known = not window.language or window.language in _LANGUAGES
    if window.role != "browser" or toolbar.width < NARROWEST or not known:
        return Privateness.PRIVATE
    return Privateness.OPEN if _count_letters(toolbar.beside) >= READABLE else Privateness.UNREAD


def _count_letters(words: Sequence[str]) -> int:
    return sum(each.isalnum() for word in words for each in word)


def _is_private_word(word: str) -> bool:
    """Return whether a word is that of a private window, perhaps misread."""
    plain = unicodedata.normalize("NFKD", word.casefold())
    letters = "".join(each for each in plain if each.isalpha())
    return any(SequenceMatcher(None, letters, each).ratio() >= ALIKE for each in _WORDS)
