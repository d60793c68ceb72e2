"""Looks at one target: which are the same, what moved, and how they are encoded."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from taskmem_vision.pictures import MOST_MOTIONS, TITLE, Look, LookHistory, list_all_blocks

SIZES = [(64, 64), (96, 64), (64, 96)]
INKS = ["white", "black", "red"]


def sheet(ink: str = "white", size: tuple[int, int] = (64, 64)) -> Image.Image:
    return Image.new("RGB", size, ink)


def open_image(encoded: bytes) -> Image.Image:
    return Image.open(io.BytesIO(encoded))


def test_pixels_and_title_that_are_the_same_are_the_same_look() -> None:
    track = LookHistory()
    first = track.add_look(1.0, sheet(), "a")
    assert track.add_look(2.0, sheet(), "a") is first
    assert track.moved_at == float("-inf")


def test_changed_title_is_a_new_look_that_moved_the_title_block() -> None:
    track = LookHistory()
    first = track.add_look(1.0, sheet(), "10 %")
    second = track.add_look(2.0, sheet(), "100 %")
    assert second is not first
    [motion] = track.list_motions_since(first.number)
    assert motion.novel == {TITLE}
    assert track.moved_at == 2.0


def test_another_size_moves_all_of_it_and_forgets_the_rhythm() -> None:
    track = LookHistory()
    for now in range(6):
        last = track.add_look(float(now), sheet(INKS[now % 2]))
    assert list(track.list_motions_since(0))[-1].busy
    track.add_look(7.0, sheet(size=(96, 64)))
    [motion] = track.list_motions_since(last.number)
    assert motion.sudden == list_all_blocks((96, 64))
    assert track.rhythms.warm_at > 7.0


@pytest.mark.parametrize("spinner", [False, True], ids=["alone", "beside a spinner"])
def test_slow_fade_counts_as_motion(spinner: bool) -> None:
    track = LookHistory()
    for number, level in enumerate(range(255, -1, -5)):
        page = sheet(size=(640, 480))
        page.paste((level,) * 3, (96, 96, 416, 320))
        if spinner:
            page.paste(INKS[number % 3], (512, 416, 544, 448))
        track.add_look(number / 5, page)
    faded = [motion for motion in track.list_motions_since(-1) if (5, 5) in motion.blocks]
    assert len(faded) > 10
    assert faded[0].sudden >= {(5, 5), (12, 9)}
    assert (20, 14) not in faded[0].blocks


def test_what_stays_as_it_is_beside_what_moves_does_not_move() -> None:
    track = LookHistory()
    for number in range(9):
        page = sheet(size=(640, 480))
        page.paste("black", (96, 96, 416, 320))
        page.paste(INKS[number % 3], (512, 416, 544, 448))
        track.add_look(float(number), page)
    assert {block for motion in track.list_motions_since(-1) for block in motion.blocks} == {
        (16, 13)
    }


def test_looks_of_all_targets_are_numbered_in_one_row() -> None:
    one, other = LookHistory(), LookHistory()
    numbers = [each.add_look(1.0, sheet(ink)).number for ink in INKS for each in (one, other)]
    assert numbers == sorted(set(numbers))


def test_what_a_track_remembers_has_a_bound() -> None:
    track = LookHistory()
    for number in range(MOST_MOTIONS + 10):
        track.add_look(float(number), sheet(INKS[number % 2]))
    assert len(list(track.list_motions_since(-1))) == MOST_MOTIONS


@given(
    st.lists(
        st.tuples(st.sampled_from(INKS), st.sampled_from(SIZES), st.sampled_from("ab")),
        min_size=1,
        max_size=30,
    )
)
def test_a_look_is_a_new_one_exactly_when_something_differs(
    shown: list[tuple[str, tuple[int, int], str]],
) -> None:
    track = LookHistory()
    looks: list[Look] = []
    for now, (ink, size, title) in enumerate(shown):
        looks.append(track.add_look(float(now), sheet(ink, size), title))
    for (before, after), (one, other) in zip(pairwise(shown), pairwise(looks), strict=True):
        assert (before == after) == (one is other)
    moved = [motion for motion in track.list_motions_since(looks[0].number) if motion]
    assert len(moved) == len({look.number for look in looks}) - 1


def test_blue_first_screen_pixels_keep_their_colours() -> None:
    raw = Image.frombuffer("RGBX", (1, 1), b"\x30\x20\x10\xff", "raw", "RGBX", 0, 1)
    look = LookHistory().add_look(1.0, raw)
    assert look.image.getpixel((0, 0)) == (0x10, 0x20, 0x30)
    assert open_image(look.png()).getpixel((0, 0)) == (0x10, 0x20, 0x30)


@pytest.mark.parametrize("size", [(3000, 1), (1, 3000), (300, 200), (1, 1)])
def test_jpeg_keeps_within_the_asked_size_and_is_never_enlarged(size: tuple[int, int]) -> None:
    look = LookHistory().add_look(1.0, sheet(size=size))
    found = open_image(look.jpeg(768)).size
    assert max(found) == min(768, max(size))
    assert min(found) >= 1
    assert look.jpeg(768) is look.jpeg(768)


def test_a_crop_is_that_part_as_it_is() -> None:
    page = sheet()
    page.paste("red", (32, 0, 64, 32))
    look = LookHistory().add_look(1.0, page)
    part = open_image(look.crop((32, 0, 64, 32)))
    assert part.size == (32, 32)
    red, green, blue = part.getpixel((16, 16))
    assert red > 240
    assert max(green, blue) < 20
