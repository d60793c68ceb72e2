"""Looks at one target: which are the same, what moved, and how they are encoded."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from taskmem_vision.looking.look import KEPT, TITLE, Look, Track
from taskmem_vision.looking.sight import every

SIZES = [(64, 64), (96, 64), (64, 96)]
INKS = ["white", "black", "red"]


def sheet(ink: str = "white", size: tuple[int, int] = (64, 64)) -> Image.Image:
    return Image.new("RGB", size, ink)


def opened(encoded: bytes) -> Image.Image:
    return Image.open(io.BytesIO(encoded))


def test_pixels_and_title_that_are_the_same_are_the_same_look() -> None:
    track = Track()
    first = track.take(1.0, sheet(), "a")
    assert track.take(2.0, sheet(), "a") is first
    assert track.moved_at == float("-inf")


def test_another_title_is_another_look_that_moved_in_a_block_of_its_own() -> None:
    track = Track()
    first = track.take(1.0, sheet(), "10 %")
    second = track.take(2.0, sheet(), "100 %")
    assert second is not first
    [motion] = track.since(first.number)
    assert motion.novel == {TITLE}
    assert track.moved_at == 2.0


def test_another_size_moves_all_of_it_and_forgets_the_rhythm() -> None:
    track = Track()
    for now in range(6):
        last = track.take(float(now), sheet(INKS[now % 2]))
    assert list(track.since(0))[-1].busy
    track.take(7.0, sheet(size=(96, 64)))
    [motion] = track.since(last.number)
    assert motion.sudden == every((96, 64))
    assert track.rhythms.warm_at > 7.0


@pytest.mark.parametrize("spinner", [False, True], ids=["alone", "beside a spinner"])
def test_what_fades_too_slowly_to_be_seen_from_look_to_look_moves(
    spinner: bool,
) -> None:
    track = Track()
    for number, level in enumerate(range(255, -1, -5)):
        page = sheet(size=(640, 480))
        page.paste((level,) * 3, (96, 96, 416, 320))
        if spinner:
            page.paste(INKS[number % 3], (512, 416, 544, 448))
        track.take(number / 5, page)
    faded = [motion for motion in track.since(-1) if (5, 5) in motion.blocks]
    assert len(faded) > 10
    assert faded[0].sudden >= {(5, 5), (12, 9)}
    assert (20, 14) not in faded[0].blocks


def test_what_stays_as_it_is_beside_what_moves_does_not_move() -> None:
    track = Track()
    for number in range(9):
        page = sheet(size=(640, 480))
        page.paste("black", (96, 96, 416, 320))
        page.paste(INKS[number % 3], (512, 416, 544, 448))
        track.take(float(number), page)
    assert {block for motion in track.since(-1) for block in motion.blocks} == {
        (16, 13)
    }


def test_looks_of_all_targets_are_numbered_in_one_row() -> None:
    one, other = Track(), Track()
    numbers = [
        each.take(1.0, sheet(ink)).number for ink in INKS for each in (one, other)
    ]
    assert numbers == sorted(set(numbers))


def test_what_a_track_remembers_has_a_bound() -> None:
    track = Track()
    for number in range(KEPT + 10):
        track.take(float(number), sheet(INKS[number % 2]))
    assert len(list(track.since(-1))) == KEPT


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
    track = Track()
    looks: list[Look] = []
    for now, (ink, size, title) in enumerate(shown):
        looks.append(track.take(float(now), sheet(ink, size), title))
    for (before, after), (one, other) in zip(
        pairwise(shown),
        pairwise(looks),
        strict=True,
    ):
        assert (before == after) == (one is other)
    moved = [motion for motion in track.since(looks[0].number) if motion]
    assert len(moved) == len({look.number for look in looks}) - 1


def test_what_a_screen_gives_blue_before_red_comes_out_in_its_colours() -> None:
    raw = Image.frombuffer("RGBX", (1, 1), b"\x30\x20\x10\xff", "raw", "RGBX", 0, 1)
    look = Track().take(1.0, raw)
    assert look.image.getpixel((0, 0)) == (0x10, 0x20, 0x30)
    assert opened(look.png()).getpixel((0, 0)) == (0x10, 0x20, 0x30)


@pytest.mark.parametrize("size", [(3000, 1), (1, 3000), (300, 200), (1, 1)])
def test_a_jpeg_is_never_larger_than_was_asked_for_and_never_enlarged(
    size: tuple[int, int],
) -> None:
    look = Track().take(1.0, sheet(size=size))
    found = opened(look.jpeg(768)).size
    assert max(found) == min(768, max(size))
    assert min(found) >= 1
    assert look.jpeg(768) is look.jpeg(768)


def test_a_crop_is_that_part_as_it_is() -> None:
    page = sheet()
    page.paste("red", (32, 0, 64, 32))
    look = Track().take(1.0, page)
    part = opened(look.crop((32, 0, 64, 32)))
    assert part.size == (32, 32)
    red, green, blue = part.getpixel((16, 16))
    assert red > 240
    assert max(green, blue) < 20
