"""Decide which windows are not recorded. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from taskmem_recall.recording_state import Exclusion, ExclusionKind, parse_hours
from taskmem_recall.screen_windows import ScreenWindow, list_names

_MANAGERS: Final = """
    1password authy bitwarden buttercup dashlane enpass gnome-secrets keepass keepass2 keepassx
    keepassxc keeper keeweb kleopatra kwalletmanager kwalletmanager5 lastpass nordpass padloc
    passwordsafe protonpass pwsafe qtpass revelation roboform seahorse secrets strongbox
    """
PASSWORD_MANAGERS: Final = frozenset(_MANAGERS.split())
"""Applications none of whose windows is recorded."""
_PROMPTS: Final = ("askpass", "gcr-prompter", "gksu", "kdesu", "keyring", "kwalletd", "lxqt-sudo")
_MORE_PROMPTS: Final = ("pinentry", "policykit", "polkit", "ssh-agent")
"""Parts of the names of programs that ask for passwords."""
_LOCKERS: Final = (
    *("i3lock", "slock", "xsecurelock", "xscreensaver", "light-locker", "xtrlock", "xlock"),
    *("kscreenlocker", "gnome-screensaver", "mate-screensaver", "cinnamon-screensaver"),
    *("xfce4-screensaver", "physlock", "swaylock"),
)
"""Parts of the names of programs that lock the screen."""
_ASKED: Final = (
    *("password", "passphrase", "passcode", "authenticat", "unlock", "credential", "sign in"),
    *("passwort", "kennwort", "mot de passe", "contraseña", "senha", "wachtwoord", "hasło"),
    *("heslo", "lösenord", "adgangskode", "salasana", "jelszó", "parola", "пароль", "密码"),
    *("密碼", "パスワード", "비밀번호"),
)
"""Parts of the titles of dialogs that ask for a password."""
STRIP_TITLE: Final = "Recorded by taskmem:"
"""First words of the title of a strip: recorded again, it would be found in place of the moment."""

MARK_TITLE: Final = "This screen is recorded by taskmem"
"""Title of the mark on the screen, which is never what a picture is of."""


class Rules(NamedTuple):
    """What is left out besides what always is."""

    exclusions: Sequence[Exclusion] = ()
    """The user's, of the recorder."""
    private_titles: Sequence[str] = ()
    """Parts of titles in `TASKMEM_PRIVATE_WINDOWS`, in lower case."""


class Hidden(NamedTuple):
    """What of a screen is not recorded."""

    windows: frozenset[int]
    """Ids of the windows that are left out, shown or not."""
    is_locked: bool = False
    """Whether the screen is locked: nothing of it is recorded."""


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
    locked = any(is_locker(each, screen) for each in windows)
    out = {
        each.id
        for each in windows
        if is_sensitive(each)
        or each.title.startswith(STRIP_TITLE)
        or is_excluded(each, rules)
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


def is_sensitive(window: ScreenWindow) -> bool:
    """Return whether a window is a password manager's, or asks for a password."""
    names = list_names(window)
    plain = {name.replace(" ", "").replace("_", "-") for name in names}
    if plain & PASSWORD_MANAGERS:
        return True
    if any(part in name for name in plain for part in (*_PROMPTS, *_MORE_PROMPTS)):
        return True
    is_dialog = window.is_dialog or window.owner is not None
    return is_dialog and contains_any(window.title.casefold(), _ASKED)


def is_excluded(window: ScreenWindow, rules: Rules) -> bool:
    """Return whether the user leaves a window out."""
    title = window.title.casefold()
    if contains_any(title, rules.private_titles):
        return True
    for each in rules.exclusions:
        what = each.what.casefold()
        match each.kind:
            case ExclusionKind.APPLICATION if any(what in name for name in list_names(window)):
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
            except ValueError:  # no hours that an earlier version took, such as 20:00-20:00
                return True
            inside = start <= at < end if start < end else at >= start or at < end
            if inside:
                return True
    return False


def is_locker(window: ScreenWindow, screen: tuple[int, int]) -> bool:
    """Return whether a window locks the screen: by its name, or by covering it as lockers do."""
    if window.box is None:
        return False
    if any(part in name for name in list_names(window) for part in _LOCKERS):
        return True
    left, top, width, height = window.box
    covers = left <= 0 and top <= 0 and (left + width, top + height) >= screen
    return window.is_popup and covers and top + height >= screen[1]


def contains_any(text: str, parts: Iterable[str]) -> bool:
    """Return whether a text contains one of several parts."""
    return any(part in text for part in parts)
