"""Which windows are not recorded."""

from __future__ import annotations

from datetime import datetime

import pytest

from taskmem_recorder.state import Exclusion, ExclusionKind
from taskmem_recorder.windows import Rules, ScreenWindow, find_hidden, is_excluded_time

SCREEN = (1280, 800)
EDITOR = ScreenWindow(1, "notes - Editor", "Editor", box=(0, 0, 600, 400), pid=10)


def find(*windows, private=(), **rules):
    return find_hidden([*windows], SCREEN, Rules(**rules), lambda each: each.id in private)


def exclude(kind: ExclusionKind, what: str):
    return {"exclusions": (Exclusion(kind=kind, what=what),)}


def test_an_ordinary_window_is_recorded() -> None:
    assert find(EDITOR).windows == frozenset()


@pytest.mark.parametrize(
    "window",
    [
        {"application": "KeePassXC"},
        {"application": "org.keepassxc.KeePassXC"},
        {"application": "1Password"},
        {"application": "Bitwarden"},
        {"application": "Proton Pass"},
        {"instance": "seahorse"},
        {"arguments": ("/usr/bin/keepassxc",)},
        {"application": "Pinentry-gtk-2"},
        {"application": "Ssh-askpass"},
        {"application": "Gcr-prompter"},
        {"application": "polkit-gnome-authentication-agent-1"},
        {"application": "Zenity", "is_dialog": True, "title": "Type your password"},
        {"application": "Editor", "owner": 1, "title": "Authentication required"},
        {"application": "Editor", "owner": 1, "title": "Passwort eingeben"},
    ],
)
def test_passwords_and_what_asks_for_them_are_left_out(window) -> None:
    asks = ScreenWindow(2, **{"title": "x", **window})
    assert 2 in find(EDITOR, asks).windows


def test_a_strip_is_not_recorded_again() -> None:
    title = "Recorded by taskmem: firefox, 2026-02-10 12:00:00 - Chromium"
    assert find(EDITOR, ScreenWindow(2, title, "Chromium", box=(0, 0, 9, 9))).windows == {2}


def test_a_page_about_passwords_is_recorded() -> None:
    page = ScreenWindow(2, "Reset a password - Docs", "Editor", box=(0, 0, 9, 9))
    assert find(page).windows == frozenset()


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (ExclusionKind.APPLICATION, "editor"),
        (ExclusionKind.TITLE, "NOTES"),
        (ExclusionKind.WINDOW, "0x1"),
    ],
)
def test_what_the_user_names_is_left_out(kind, what) -> None:
    hidden = find(EDITOR, ScreenWindow(2, "Mail", "Mail"), **exclude(kind, what))
    assert hidden.windows == {1}


def test_titles_private_for_waits_are_left_out_too() -> None:
    assert find(EDITOR, private_titles=("notes",)).windows == {1}


def test_a_private_windows_dialogs_and_menus_are_left_out() -> None:
    other = ScreenWindow(2, "Mail", "Mail", pid=20)
    dialog = ScreenWindow(3, "Save", "Editor", owner=1, pid=10)
    second = ScreenWindow(4, "Sure?", "Editor", owner=3, pid=10)
    menu = ScreenWindow(5, is_popup=True, pid=10)
    unknown = ScreenWindow(6, is_popup=True)
    others = ScreenWindow(7, is_popup=True, pid=20)
    switcher = ScreenWindow(8, is_popup=True, pid=30)
    found = find(menu, unknown, others, switcher, second, dialog, EDITOR, other, private={1})
    assert found.windows == {1, 3, 4, 5, 6, 8}


def test_panels_are_left_out_while_any_window_is() -> None:
    panel = ScreenWindow(9, "Panel", "panel", box=(0, 770, 1280, 30), is_dock=True)
    assert find(panel, EDITOR).windows == frozenset()
    minimised = EDITOR._replace(box=None)
    assert find(panel, minimised, private={1}).windows == {1, 9}


@pytest.mark.parametrize(
    ("window", "locked"),
    [
        (ScreenWindow(2, "", "i3lock", box=(0, 0, 1280, 800)), True),
        (ScreenWindow(2, "", "", box=(0, 0, 1280, 800), is_popup=True), True),
        (ScreenWindow(2, "", "", box=(0, 0, 1280, 700), is_popup=True), False),
        (ScreenWindow(2, "A film", "mpv", box=(0, 0, 1280, 800)), False),
    ],
)
def test_a_screen_is_locked_by_a_name_or_a_cover(window, locked) -> None:
    assert find(window, EDITOR).is_locked is locked


@pytest.mark.parametrize(
    ("hours", "at", "out"),
    [
        ("22:00-07:00", "23:30", True),
        ("22:00-07:00", "06:59", True),
        ("22:00-07:00", "07:00", False),
        ("09:00-17:00", "12:00", True),
        ("09:00-17:00", "17:00", False),
    ],
)
def test_hours_of_the_day_are_left_out_also_over_midnight(hours, at, out) -> None:
    now = datetime.fromisoformat(f"2026-11-27T{at}")
    assert is_excluded_time(now, [Exclusion(kind=ExclusionKind.TIME, what=hours)]) is out


@pytest.mark.parametrize("hours", ["20:00-20:00", "late"])
def test_hours_that_cannot_be_read_leave_out_the_day(hours) -> None:
    now = datetime.fromisoformat("2026-11-27T09:00")
    assert is_excluded_time(now, [Exclusion(kind=ExclusionKind.TIME, what=hours)])
