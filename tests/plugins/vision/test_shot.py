"""What is kept of a look: small, and enough to be shown later."""

import io

import pytest
from PIL import Image

from taskmem_vision.pictures import (
    DETAIL_SIDE,
    MOST_SHOTS,
    TITLE,
    WHOLE_SIDE,
    Shot,
    pick_telling_shot,
    select_shots,
)
from tests.plugins.vision.painted import Easel


def open_image(data):
    image = Image.open(io.BytesIO(data))
    assert image.format == "JPEG"
    return image


def test_a_large_picture_is_sent_small_and_what_is_new_as_it_is():
    look = Easel((1920, 1080)).look(0, (960, 512, 20, 20))
    shot = Shot(look, [(30, 16)])
    assert max(open_image(shot.whole).size) == WHOLE_SIDE
    assert shot.is_shrunk
    left, top, right, bottom = shot.box
    assert open_image(shot.detail).size == (right - left, bottom - top)
    assert left <= 960
    assert right >= 980


def test_a_small_picture_is_sent_as_it_is():
    shot = Shot(Easel().look(0), [(1, 1)])
    assert open_image(shot.whole).size == shot.size
    assert not shot.is_shrunk


@pytest.mark.parametrize(
    "focus",
    [[], [TITLE], [(0, 0), (40, 20)]],
    ids=["nothing", "the title", "more than can be shown"],
)
def test_what_is_new_everywhere_or_nowhere_has_no_detail(focus):
    shot = Shot(Easel((1920, 1080)).look(0), focus)
    assert shot.box is None
    assert shot.detail is None


def test_a_box_is_never_larger_than_what_can_be_shown():
    for wide in range(1, 40):
        shot = Shot(Easel((1920, 1080)).look(0), [(2, 2), (2 + wide, 2)])
        if shot.box is not None:
            assert shot.box[2] - shot.box[0] <= DETAIL_SIDE


def test_a_shot_is_a_picture_that_can_be_made_smaller():
    shot = Shot(Easel((1920, 1080)).look(0), [])
    assert open_image(shot.jpeg(480)).size == (480, 270)
    assert open_image(shot.jpeg(5000)).size == (WHOLE_SIDE, 864)
    assert Image.open(io.BytesIO(shot.png())).size == (WHOLE_SIDE, 864)


def test_colours_survive():
    easel = Easel()
    look = easel.track.add_look(0, Image.new("RGB", (64, 64), (200, 20, 140)))
    red, green, blue = open_image(Shot(look, []).whole).getpixel((32, 32))
    assert (red > 180, green < 40, 120 < blue < 160) == (True, True, True)


def test_kept_shots_are_the_first_the_newest_and_most_different():
    easel = Easel()
    looks = [
        easel.look(0),
        easel.look(1, (0, 0, 40, 40)),
        easel.look(2, (0, 0, 40, 40), (300, 200, 200, 100)),
        easel.look(3, (0, 0, 40, 40)),
        easel.look(4, (0, 0, 40, 80)),
    ]
    held = []
    for look in looks:
        held = select_shots(held, Shot(look, []))
    assert len(held) == MOST_SHOTS
    assert [shot.at for shot in held] == [0, 2, 4]


def test_what_else_is_new_in_one_look_is_kept():
    look = Easel((1920, 1080)).look(0)
    held = select_shots(select_shots([], Shot(look, [(10, 6)])), Shot(look, [(10, 22)]))
    assert [shot.focus for shot in held] == [{(10, 6)}, {(10, 22)}]


def test_the_newest_that_shows_something_new_tells_most():
    easel = Easel((1920, 1080))
    toast = Shot(easel.look(0, (300, 300, 60, 60)), [(9, 9)])
    after = Shot(easel.look(2), [])
    assert pick_telling_shot([toast, after]) is toast
    assert pick_telling_shot([after]) is after
    assert pick_telling_shot([]) is None


def test_one_look_is_kept_once():
    look = Easel().look(0)
    assert len(select_shots(select_shots([], Shot(look, [])), Shot(look, [(1, 1)]))) == 1
