"""Decide which windows are not recorded: sensitive, excluded, or for private browsing. Pure.

What cannot be told counts as private. Firefox says so in the title, behind its name, in every
language. Chromium says so nowhere but in its toolbar, which is dark and holds a word: a window of a
dark toolbar without that word is open only if the word would have been recognised, and while what
was read stands beside its place.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from taskmem_recorder.state import Exclusion, ExclusionKind, parse_hours

if TYPE_CHECKING:
    from taskmem_recorder.text import ScreenWord

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
    """True for a panel, which may show other windows' titles."""
    is_popup: bool = False
    """True if no window manager handles it, such as a menu."""
    arguments: Sequence[str] = ()
    """Arguments of its process; empty: unknown."""
    language: str = ""
    """Language of its process, such as `de`; empty: unknown."""


_BROWSERS: Final = """
    brave brave-browser chrome chromium chromium-browser epiphany falkon firefox firefox-esr floorp
    google-chrome icecat konqueror librewolf microsoft-edge midori navigator opera palemoon
    qutebrowser seamonkey vivaldi vivaldi-stable waterfox zen zen-browser
    """
_BROWSER_SET: Final = frozenset(_BROWSERS.split())
"""Classes and instances of browsers' windows, without `-beta` and the like."""
_CHANNELS: Final = ("-beta", "-dev", "-unstable", "-nightly", "-stable")
_DASHES: Final = (" — ", " – ", " - ")
"""Dashes between a page's title and the browser's name."""


def _list_names(window: ScreenWindow) -> frozenset[str]:
    """Return the names of a window's application in lower case, also the end of a dotted one.

    These are its class, its instance, and its program.
    """
    program = PurePath(window.arguments[0]).name if window.arguments else ""
    # Chromium appends the folder of a profile to its instance.
    instance = window.instance.partition(" (")[0]
    given = {each.casefold().strip() for each in (window.application, instance, program)}
    ends = {each.rpartition(".")[2] for each in given}
    return frozenset((given | ends) - {""})


def _is_browser(window: ScreenWindow) -> bool:
    """Return whether a window is a browser's: by its name, or by its role where that is unknown.

    Chromium and Firefox give the role, and so does what others build of them.
    """
    names = _list_names(window)
    return window.role == "browser" or any(_strip_channel(each) in _BROWSER_SET for each in names)


def find_page(window: ScreenWindow) -> str | None:
    """Return the title of the page that a browser shows; None: it is no browser, or has no page."""
    if not _is_browser(window):
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


_MANAGERS: Final = """
    1password authy bitwarden buttercup dashlane enpass gnome-secrets keepass keepass2 keepassx
    keepassxc keeper keeweb kleopatra kwalletmanager kwalletmanager5 lastpass nordpass padloc
    passwordsafe protonpass pwsafe qtpass revelation roboform seahorse secrets strongbox
    """
_PASSWORD_MANAGERS: Final = frozenset(_MANAGERS.split())
"""Applications none of whose windows is recorded."""
_PROMPTS: Final = ("askpass", "gcr-prompter", "gksu", "kdesu", "keyring", "kwalletd", "lxqt-sudo")
_MORE_PROMPTS: Final = ("pinentry", "policykit", "polkit", "ssh-agent")
"""Parts of the names of programs that ask for passwords."""
_LOCKERS: Final = (
    "i3lock",
    "slock",
    "xsecurelock",
    "xscreensaver",
    "light-locker",
    "xtrlock",
    "xlock",
    "kscreenlocker",
    "gnome-screensaver",
    "mate-screensaver",
    "cinnamon-screensaver",
    "xfce4-screensaver",
    "physlock",
    "swaylock",
)
"""Parts of the names of programs that lock the screen."""
_PASSWORD_TITLES: Final = (
    "password",
    "passphrase",
    "passcode",
    "authenticat",
    "unlock",
    "credential",
    "sign in",
    "passwort",
    "kennwort",
    "mot de passe",
    "contraseña",
    "senha",
    "wachtwoord",
    "hasło",
    "heslo",
    "lösenord",
    "adgangskode",
    "salasana",
    "jelszó",
    "parola",
    "пароль",
    "密码",
    "密碼",
    "パスワード",
    "비밀번호",
)
"""Parts of the titles of dialogs that ask for a password."""
STRIP_TITLE: Final = "Recorded by taskmem:"
"""First words of the title of a strip: recorded again, it would be found in place of the moment."""

MARK_TITLE: Final = "This screen is recorded by taskmem"
"""Title of the mark on the screen, which is never what a picture is of."""


class Rules(NamedTuple):
    """Windows and times that are left out, besides those that always are."""

    exclusions: Sequence[Exclusion] = ()
    """The user's, of the recorder."""
    private_titles: Sequence[str] = ()
    """Parts of titles in `TASKMEM_PRIVATE_WINDOWS`, in lower case."""


class Hidden(NamedTuple):
    """Parts of a screen that are not recorded."""

    windows: frozenset[int]
    """Ids of the windows that are left out, shown or not."""
    is_locked: bool = False
    """True if the screen is locked: nothing of it is recorded."""


def find_hidden(
    windows: Sequence[ScreenWindow],
    screen: tuple[int, int],
    rules: Rules,
    is_private: Callable[[ScreenWindow], bool],
) -> Hidden:
    """Return what of a screen is not recorded.

    Their dialogs and menus are left out with the windows. A menu whose window is unknown is left
    out while any window is, and so is a panel, which may show titles.

    Args:
        windows: All windows, topmost first, with menus and panels.
        screen: Width and height of the screen.
        rules: What the user leaves out.
        is_private: Returns whether a window is for private browsing.
    """
    locked = any(_is_locker(each, screen) for each in windows)
    out = {
        each.id
        for each in windows
        if _is_sensitive(each)
        or each.title.startswith(STRIP_TITLE)
        or _is_excluded(each, rules)
        or is_private(each)
    }
    while more := {each.id for each in windows if each.owner in out} - out:
        out |= more
    if out:
        out |= _find_related(windows, frozenset(out))
    return Hidden(frozenset(out), locked)


def _find_related(windows: Sequence[ScreenWindow], out: frozenset[int]) -> frozenset[int]:
    """Return the panels, menus and dialogs that may show something of the windows left out."""
    pids = {each.pid for each in windows if each.id in out and each.pid is not None}
    groups = {each.group for each in windows if each.id in out and each.group is not None}
    programs = {each.pid for each in windows if not each.is_popup and not each.is_dock}

    def is_related(window: ScreenWindow) -> bool:
        same = window.pid in pids or window.group in groups
        if window.is_popup:
            # What is of no application may be a switcher, which shows windows and titles.
            return same or window.pid is None or window.pid not in programs
        return window.is_dock or (window.is_dialog and same)

    return frozenset(each.id for each in windows if is_related(each))


def _is_sensitive(window: ScreenWindow) -> bool:
    """Return whether a window is a password manager's, or asks for a password."""
    names = _list_names(window)
    plain = {name.replace(" ", "").replace("_", "-") for name in names}
    if plain & _PASSWORD_MANAGERS:
        return True
    if any(part in name for name in plain for part in (*_PROMPTS, *_MORE_PROMPTS)):
        return True
    is_dialog = window.is_dialog or window.owner is not None
    return is_dialog and _contains_any(window.title.casefold(), _PASSWORD_TITLES)


def _is_excluded(window: ScreenWindow, rules: Rules) -> bool:
    """Return whether the user leaves a window out."""
    title = window.title.casefold()
    if _contains_any(title, rules.private_titles):
        return True
    for each in rules.exclusions:
        what = each.what.casefold()
        match each.kind:
            case ExclusionKind.APPLICATION if any(what in name for name in _list_names(window)):
                return True
            case ExclusionKind.TITLE if what in title:
                return True
            case ExclusionKind.WINDOW if int(what, 0) == window.id:
                return True
            case _:
                continue
    return False


def is_excluded_time(now: datetime, exclusions: Iterable[Exclusion]) -> bool:
    """Return whether nothing is recorded at this time of the day; `now` is in local time.

    Hours that cannot be read leave out the whole day, until they are removed.
    """
    at = now.time().replace(tzinfo=None)
    for each in exclusions:
        if each.kind is ExclusionKind.TIME:
            try:
                start, end = parse_hours(each.what)
            except ValueError:  # the file was edited by hand
                return True
            inside = start <= at < end if start < end else at >= start or at < end
            if inside:
                return True
    return False


def _is_locker(window: ScreenWindow, screen: tuple[int, int]) -> bool:
    """Return whether a window locks the screen: by its name, or by covering it as lockers do."""
    if window.box is None:
        return False
    if any(part in name for name in _list_names(window) for part in _LOCKERS):
        return True
    left, top, width, height = window.box
    covers = left <= 0 and top <= 0 and (left + width, top + height) >= screen
    return window.is_popup and covers and top + height >= screen[1]


def _contains_any(text: str, parts: Iterable[str]) -> bool:
    """Return whether a text contains one of several parts."""
    return any(part in text for part in parts)


STRIP_HEIGHT: Final = 96
"""Height of the part of a window in which its toolbar is. Pixels."""
_LEAST_TOOLBAR_WIDTH: Final = 500
"""Width from which a toolbar shows the word in full. Pixels."""
_LEAST_LIKENESS: Final = 0.8
"""How similar a read word must be to one of `_PRIVATE_WORDS`."""
_LEAST_LETTERS: Final = 3
"""How many letters of a toolbar must have been read, so that it counts as read."""
_ADDRESS_ROW: Final = (2.0, 4.0)
"""Where the row with the address and the word is, in heights of the middle of the tabs' row."""

_PRIVATE_ARGUMENTS: Final = """
    --incognito --incognito-mode --inprivate --private --private-browsing --private-window --tor
    -incognito -inprivate -private -private-window
    """
_PRIVATE_ARGUMENT_SET: Final = frozenset(_PRIVATE_ARGUMENTS.split())
_PRIVATE_BROWSERS: Final = (
    "tor browser",
    "torbrowser",
    "mullvad browser",
    "mullvadbrowser",
    "onionbrowser",
)
"""Browsers all of whose windows are private."""
_FIREFOX_CLASSES: Final = (
    "firefox firefox-esr navigator librewolf waterfox floorp icecat zen zen-browser"
)
_FIREFOX: Final = frozenset(_FIREFOX_CLASSES.split())
_BRANDS: Final = (
    "firefox",
    "firefox esr",
    "firefox developer edition",
    "firefox nightly",
    "nightly",
    "librewolf",
    "waterfox",
    "floorp",
    "gnu icecat",
    "icecat",
    "zen browser",
    "zen",
)
"""Names with which the titles of Firefox's open windows end."""
_MARKERS: Final = (
    "private browsing",
    "(private)",
    "[private]",
    "(incognito)",
    "[incognito]",
    "inprivate",
    "(inkognito)",
    "incognito mode",
    "private window",
    "privater modus",
    "navigation privée",
)
"""Words of other browsers in the titles of private windows."""
_PRIVATE_WORDS: Final = (
    "incognito",
    "inkognito",
    "inprivate",
    "private",
    "privat",
    "privada",
    "privee",
    "anonima",
)
"""Words in the toolbar of a private window, without accents."""
_LANGUAGES: Final = frozenset(
    ("da", "de", "en", "es", "fr", "it", "nb", "nl", "no", "pl", "pt", "sv")
)
"""Languages whose word is one of `_PRIVATE_WORDS`."""


class Toolbar(NamedTuple):
    """Content of the uppermost part of a window."""

    is_dark: bool
    width: int
    words: Sequence[str] = ()
    beside: Sequence[str] = ()
    """The words in the row in which a private window's word would be."""


class Privateness(StrEnum):
    """Knowledge of a window: open, private, or not read yet."""

    OPEN = "open"
    PRIVATE = "private"
    UNREAD = "unread"
    """Its toolbar must be read first; until then it counts as private."""


def make_toolbar(words: Sequence[ScreenWord], width: int, *, is_dark: bool) -> Toolbar:
    """Return what was seen where these words were read."""
    middles = [(each.top + each.bottom) / 2 for each in words]
    least, most = (times * min(middles, default=0.0) for times in _ADDRESS_ROW)
    beside = [each.text for each, at in zip(words, middles, strict=True) if least <= at <= most]
    return Toolbar(is_dark, width, [each.text for each in words], beside)


def judge_window(window: ScreenWindow, toolbar: Toolbar | None) -> Privateness:
    """Return whether a window is for private browsing.

    `toolbar`: None if it was not read yet.
    """
    names = _list_names(window)
    title = window.title.casefold()
    if not names.isdisjoint(_PRIVATE_BROWSERS) or title.endswith(_PRIVATE_BROWSERS):
        return Privateness.PRIVATE
    if not _is_browser(window):
        return Privateness.OPEN
    if _PRIVATE_ARGUMENT_SET.intersection(window.arguments) or any(
        each in title for each in _MARKERS
    ):
        return Privateness.PRIVATE
    if names & _FIREFOX:
        return Privateness.OPEN if title.endswith(_BRANDS) else Privateness.PRIVATE
    return Privateness.UNREAD if toolbar is None else _judge_toolbar(window, toolbar)


def _judge_toolbar(window: ScreenWindow, toolbar: Toolbar) -> Privateness:
    if any(map(_is_private_word, toolbar.words)):
        return Privateness.PRIVATE
    if _count_letters(toolbar.words) < _LEAST_LETTERS:
        return Privateness.UNREAD
    if not toolbar.is_dark:
        return Privateness.OPEN
    known = not window.language or window.language in _LANGUAGES
    if window.role != "browser" or toolbar.width < _LEAST_TOOLBAR_WIDTH or not known:
        return Privateness.PRIVATE
    return (
        Privateness.OPEN if _count_letters(toolbar.beside) >= _LEAST_LETTERS else Privateness.UNREAD
    )


def _count_letters(words: Sequence[str]) -> int:
    return sum(each.isalnum() for word in words for each in word)


def _is_private_word(word: str) -> bool:
    """Return whether a word is that of a private window, perhaps misread."""
    plain = unicodedata.normalize("NFKD", word.casefold())
    letters = "".join(each for each in plain if each.isalpha())
    return any(
        SequenceMatcher(None, letters, each).ratio() >= _LEAST_LIKENESS for each in _PRIVATE_WORDS
    )
