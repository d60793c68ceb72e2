"""Which window a name means, and which belong to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_hookspecs import InvalidArguments, TargetNotFound
from taskmem_vision.desktop import Window, choose_window, describe_choice, find_dialogs

TERMINAL = Window(0x10, "Terminal", pid=1)
EDITOR = Window(0x20, "main.py – Editor", pid=2, group=0x20)
BROWSER = Window(0x30, "Downloads – Firefox", pid=3)
MAIL = Window(0x40, "Firefox", pid=3)
ALL = [TERMINAL, EDITOR, BROWSER, MAIL]


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("Terminal", TERMINAL),
        ("terminal", TERMINAL),
        ("  editor ", EDITOR),
        ("Firefox", MAIL),  # a whole title wins over a part of the top-most
        ("firefox", BROWSER),
        ("0x30", BROWSER),
        ("0X30", None),
        ("0x00000030", BROWSER),
        ("48", BROWSER),  # as xdotool prints ids
    ],
)
def test_a_name_is_a_part_of_a_title_or_an_id(name: str, window: Window | None) -> None:
    if window is None:
        with pytest.raises(TargetNotFound):
            choose_window(name, ALL)
    else:
        assert choose_window(name, ALL).window == window


def test_a_number_is_an_id_before_it_is_a_part_of_a_title() -> None:
    game, other = Window(0x50, "2048"), Window(2048, "Chess")
    assert choose_window("2048", [game]).window == game
    assert choose_window("2048", [game, other]).window == other


def test_the_others_that_might_be_meant_are_named() -> None:
    choice = choose_window("firefox", ALL)
    assert choice.others == (MAIL,)
    assert describe_choice(choice) == (
        'It is "Downloads – Firefox" (0x30) that is watched; also there: "Firefox" (0x40).'
    )
    assert describe_choice(choose_window("editor", ALL)) is None


def test_where_none_is_meant_those_that_are_there_are_named() -> None:
    with pytest.raises(TargetNotFound) as refused:
        choose_window("Word", ALL)
    assert str(refused.value).startswith(
        'No window\'s title holds "Word"; there are "Terminal" (0x10), '
    )
    for number in ("0x99", "153"):
        with pytest.raises(TargetNotFound, match=f"no window {number}; there are"):
            choose_window(number, ALL)
    with pytest.raises(TargetNotFound, match="no window has a title"):
        choose_window("Word", [])


@pytest.mark.parametrize("name", ["", "  "])
def test_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArguments, match="0x4200003"):
        choose_window(name, ALL)


@given(st.text(max_size=200), st.lists(st.text(max_size=200), max_size=12))
def test_whatever_the_titles_are_a_refusal_is_one_short_line(name: str, titles: list[str]) -> None:
    windows = [Window(number, title) for number, title in enumerate(titles)]
    try:
        choice = choose_window(name, windows)
    except (InvalidArguments, TargetNotFound) as refused:
        said = str(refused)
    else:
        said = describe_choice(choice) or ""
    assert "\n" not in said
    assert said.isprintable()
    assert len(said) < 700


def test_a_windows_dialogs_and_theirs_belong_to_it() -> None:
    dialog = Window(0x31, "Error", pid=3, owner=0x30)
    deeper = Window(0x32, "Details", pid=9, owner=0x31)
    others = Window(0x33, "Error", pid=1, owner=0x10)
    found = find_dialogs(BROWSER, [deeper, dialog, others, *ALL])
    assert found == (deeper, dialog)


def test_dialogs_of_its_group_or_process_belong_to_a_window() -> None:
    of_group = Window(0x51, "Save?", group=0x20, owner=0)
    of_process = Window(0x52, "Open", pid=2, owner=0)
    second = Window(0x53, "other.py – Editor", pid=2, group=0x20)
    found = find_dialogs(EDITOR, [of_group, of_process, second, *ALL])
    assert found == (of_group, of_process)


def test_dialog_of_another_window_of_the_program_is_excluded() -> None:
    second = Window(0x21, "other.py – Editor", pid=2, group=0x20)
    dialog = Window(0x54, "Save?", pid=2, group=0x20, owner=0x21)
    assert find_dialogs(EDITOR, [dialog, second, *ALL]) == ()
    assert find_dialogs(second, [dialog, second, *ALL]) == (dialog,)
