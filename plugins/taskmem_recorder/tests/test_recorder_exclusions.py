"""Nothing of a window that is left out is in any byte of any file."""

from __future__ import annotations

import pytest

from plugins.taskmem_recorder.tests.browser_windows import open_windows
from taskmem_recorder.state import Exclusion, ExclusionKind, add_exclusion

WORD = "hornbeam"


def assert_nothing_of_it(room, secret: str = WORD) -> None:
    """Nothing of a window with that word in title and text, on a ground of INK."""
    assert not room.holds(secret)
    assert not room.shows_ink()


def show_something_else(room, title: str = "Deploy notes") -> None:
    with room.show(title, "The invoices were deployed", place="40x6+700+500"):
        room.await_moment(title, "invoices were deployed")


def test_ink_and_words_of_a_window_that_is_recorded_are_found(room) -> None:
    room.switch_on()
    with room.show(f"About the {WORD}", f"a {WORD} hedge", ink=True):
        room.await_moment(f"About the {WORD}")
    assert room.holds(WORD)
    assert room.shows_ink()


@pytest.mark.parametrize(
    "options", [("-class", "KeePassXC"), ("-class", "Pinentry"), ("-name", "ssh-askpass")]
)
def test_nothing_of_password_windows_is_stored(room, options) -> None:
    room.switch_on()
    with room.show(f"The {WORD}", f"a {WORD} hedge", *options, ink=True):
        show_something_else(room)
    assert_nothing_of_it(room)


@pytest.mark.parametrize(
    ("kind", "what"),
    [(ExclusionKind.APPLICATION, "ledger"), (ExclusionKind.TITLE, WORD)],
)
def test_nothing_of_what_the_user_excludes_is_stored(room, kind, what) -> None:
    exclusion = Exclusion(kind=kind, what=what)
    room.change(lambda state: add_exclusion(state, exclusion))
    room.switch_on()
    with room.show(f"The {WORD}", f"a {WORD} hedge", "-class", "Ledger", ink=True):
        show_something_else(room)
    assert_nothing_of_it(room)


def test_a_window_that_lies_over_an_excluded_one_hides_nothing(room) -> None:
    room.switch_on()
    with (
        room.show(f"The {WORD}", f"a {WORD} hedge", "-class", "KeePassXC", ink=True) as below,
        room.show("Over it", "The invoices were deployed", place="30x4+60+60"),
    ):
        assert below.poll() is None
        room.await_moment("Over it", "invoices were deployed")
    assert_nothing_of_it(room)


def test_an_incognito_window_leaves_nothing_beside_an_open_one(room) -> None:
    with open_windows(room.screen) as browser:
        room.switch_on()
        browser.open_page("Harvest", "The invoices were harvested")
        assert room.await_moment("Harvest - Chromium", "harvested").page == "Harvest"
        browser.open_page(f"The {WORD}", f"a {WORD} hedge", "--incognito", ink=True)
        show_something_else(room)
        browser.open_page("Second harvest", "The barns are full")
        room.await_moment("Second harvest - Chromium")
    assert_nothing_of_it(room)


def test_an_open_window_in_dark_mode_is_recorded(room) -> None:
    with open_windows(room.screen, "--force-dark-mode") as browser:
        room.switch_on()
        browser.open_page("Harvest", "The invoices were harvested")
        assert room.await_moment("Harvest - Chromium", "harvested").page == "Harvest"
