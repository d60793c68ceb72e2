"""What of a picture counts as a change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from taskmem_vision.pictures import (
    BLOCK,
    Thumbnail,
    count_blocks,
    find_blocks_in_box,
    find_box_around,
    list_all_blocks,
)

SIZE = (640, 420)


def picture(*boxes: tuple[int, int, int, int], ink: object = "black") -> Image.Image:
    made = Image.new("RGB", SIZE, "#eeeeee")
    for box in boxes:
        made.paste(ink, box)
    return made


def changed_blocks(before: Image.Image, after: Image.Image) -> frozenset[tuple[int, int]]:
    return Thumbnail(after).find_differences(Thumbnail(before))


def test_the_same_picture_differs_nowhere() -> None:
    assert changed_blocks(picture(), picture()) == frozenset()


@given(st.integers(0, SIZE[0] - 12), st.integers(0, SIZE[1] - 12))
def test_a_mark_of_twelve_pixels_is_seen_wherever_it_is(x: int, y: int) -> None:
    blocks = changed_blocks(picture(), picture((x, y, x + 12, y + 12)))
    assert blocks
    assert blocks <= find_blocks_in_box((x - 4, y - 4, x + 16, y + 16), SIZE)


@pytest.mark.parametrize("words", [("Pending", "Ready"), ("Step 3", "Step 4")])
def test_a_word_of_eight_points_is_seen(words: tuple[str, str]) -> None:
    font = ImageFont.load_default(size=11)

    def label(word: str) -> Image.Image:
        made = picture()
        ImageDraw.Draw(made).text((101, 103), word, fill="black", font=font)
        return made

    assert changed_blocks(label(words[0]), label(words[1]))


def test_what_is_hardly_lighter_is_not() -> None:
    assert changed_blocks(picture(), picture((0, 0, 200, 200), ink="#e6e6e6")) == frozenset()


def test_a_picture_of_another_size_differs_everywhere() -> None:
    other = Image.new("RGB", (640, 421))
    assert changed_blocks(picture(), other) == list_all_blocks((640, 421))


@given(st.integers(1, 400), st.integers(1, 400))
def test_every_pixel_is_in_a_block(width: int, height: int) -> None:
    columns, rows = count_blocks((width, height))
    assert (columns - 1) * BLOCK < width <= columns * BLOCK
    assert (rows - 1) * BLOCK < height <= rows * BLOCK
    assert find_blocks_in_box((0, 0, width, height), (width, height)) == list_all_blocks(
        (width, height)
    )


@given(st.sets(st.tuples(st.integers(0, 19), st.integers(0, 13)), min_size=1).map(frozenset))
def test_the_box_round_blocks_holds_them_and_lies_in_the_picture(
    blocks: frozenset[tuple[int, int]],
) -> None:
    left, top, right, bottom = box = find_box_around(blocks, SIZE)
    assert blocks <= find_blocks_in_box(box, SIZE)
    assert 0 <= left < right <= SIZE[0]
    assert 0 <= top < bottom <= SIZE[1]
