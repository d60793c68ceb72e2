"""Which windows are for private browsing; what cannot be told counts as private."""

from __future__ import annotations

import pytest

from taskmem_recorder.text import ScreenWord
from taskmem_recorder.windows import (
    Privateness,
    ScreenWindow,
    Toolbar,
    find_page,
    judge_window,
    make_toolbar,
)

OPEN, PRIVATE, UNREAD = Privateness.OPEN, Privateness.PRIVATE, Privateness.UNREAD
CHROMIUM = ScreenWindow(
    1, "Plain page - Chromium", "Chromium", "chromium (/home/me/p)", role="browser"
)
FIREFOX = ScreenWindow(2, "Plain page — Mozilla Firefox", "firefox", "Navigator", role="browser")
LIGHT = Toolbar(
    is_dark=False, width=1000, words=("Plain", "page", "example.org"), beside=("example.org",)
)
DARK = LIGHT._replace(is_dark=True)


def judge(window, toolbar=None, **facts):
    return judge_window(window._replace(**facts), toolbar)


def test_a_window_of_no_browser_is_open() -> None:
    assert judge(ScreenWindow(3, "Incognito - Editor", "Editor")) is OPEN


@pytest.mark.parametrize(
    "title",
    [
        "Plain page — Mozilla Firefox Private Browsing",
        "Mozilla Firefox (Private Browsing)",
        "Seite — Mozilla Firefox Privater Modus",
        "ページ — Mozilla Firefox プライベートブラウジング",
        "Page — Mozilla Firefox Navigation privée",
    ],
)
def test_a_private_window_of_firefox_says_so_in_any_language(title) -> None:
    assert judge(FIREFOX) is OPEN
    assert judge(FIREFOX, title=title) is PRIVATE


@pytest.mark.parametrize("brand", ["Mozilla Firefox", "LibreWolf", "Firefox Nightly"])
def test_an_open_window_ends_with_the_browsers_name(brand) -> None:
    assert judge(FIREFOX, title=f"Private Bank — {brand}") is OPEN


@pytest.mark.parametrize(
    "argument", ["--incognito", "--inprivate", "--private-window", "-private", "--tor"]
)
def test_a_browser_started_for_private_browsing_is_private(argument) -> None:
    assert judge(CHROMIUM, LIGHT, arguments=("chromium", argument)) is PRIVATE
    assert judge(FIREFOX, arguments=("firefox", argument)) is PRIVATE


def test_every_window_of_tor_is_private() -> None:
    assert judge(ScreenWindow(4, "Plain page — Tor Browser", "Navigator")) is PRIVATE


def test_a_window_of_chromium_is_unread_until_its_toolbar_is() -> None:
    assert judge(CHROMIUM) is UNREAD
    assert judge(CHROMIUM, LIGHT._replace(words=())) is UNREAD
    assert judge(CHROMIUM, LIGHT) is OPEN


def test_a_browser_of_unknown_name_is_known_by_its_role() -> None:
    unknown = CHROMIUM._replace(application="Thorium-browser", instance="thorium-browser")
    assert judge(unknown) is UNREAD
    assert judge(unknown, DARK._replace(words=("page", "Incognito"))) is PRIVATE
    assert judge(unknown, role="") is OPEN


@pytest.mark.parametrize("word", ["Incognito", "Incognito(2)", "Inkognito", "lncognito", "Privé"])
def test_a_toolbar_with_the_word_is_private(word) -> None:
    assert judge(CHROMIUM, DARK._replace(words=("page", word))) is PRIVATE


def test_a_dark_toolbar_is_read_once_the_place_of_the_word_is() -> None:
    assert judge(CHROMIUM, DARK._replace(beside=())) is UNREAD
    assert judge(CHROMIUM, DARK._replace(beside=("@", "<", "4"))) is UNREAD
    assert judge(CHROMIUM, LIGHT._replace(beside=())) is OPEN


def test_the_place_of_the_word_is_beside_the_address() -> None:
    said = (("Plain", 13), ("page", 13), ("example.org", 56), ("Welcome", 84))
    words = [ScreenWord(text, 0, 50, top, top + 14) for text, top in said]
    assert make_toolbar(words, 900, is_dark=True).beside == ["example.org"]
    assert make_toolbar([], 900, is_dark=True).beside == []


def test_a_dark_toolbar_without_the_word_is_open() -> None:
    assert judge(CHROMIUM, DARK) is OPEN
    assert judge(CHROMIUM, DARK, language="de") is OPEN


@pytest.mark.parametrize(
    ("facts", "width"),
    [({}, 480), ({"role": "pop-up"}, 1000), ({"language": "ja"}, 1000)],
    ids=["narrow", "no tabs", "unreadable language"],
)
def test_a_dark_toolbar_is_private_if_the_word_could_be_missed(facts, width) -> None:
    assert judge(CHROMIUM, DARK._replace(width=width), **facts) is PRIVATE
    assert judge(CHROMIUM, LIGHT._replace(width=width), **facts) is OPEN


@pytest.mark.parametrize(
    ("window", "page"),
    [
        (CHROMIUM, "Plain page"),
        (FIREFOX, "Plain page"),
        (FIREFOX._replace(title="A — B - C — Mozilla Firefox"), "A — B - C"),
        (FIREFOX._replace(title="Mozilla Firefox"), None),
        (ScreenWindow(5, "notes - Editor", "Editor"), None),
    ],
)
def test_a_browsers_page_is_what_stands_before_its_name(window, page) -> None:
    assert find_page(window) == page
