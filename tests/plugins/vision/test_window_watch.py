"""One window on a real display: found, seen whatever covers it, and told of."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from xcffib.xproto import WindowClass

from taskmem_hookspecs import Target, TargetNotFound
from taskmem_hookspecs.testing import SensorSuite
from taskmem_vision.picture_watch import LOOK_GAP
from tests.plugins.vision.papers import (
    BLUE,
    GREEN,
    RED,
    await_change,
    await_frame,
    colours,
    look,
    papers_on,
    sensor,
    watch_target,
)


class TestWindow(SensorSuite):
    """A window whose title changes."""

    @pytest.fixture(autouse=True)
    def open(self, screen, papers):
        self.screen, self.papers = screen, papers
        self.window = papers.open("The letter")

    def make_sensor(self, tmp_path):
        return sensor(self.screen)

    def make_target(self, tmp_path):
        return Target(scheme="window", name=f"0x{self.window:x}")

    def show(self, tmp_path, text):
        self.papers.call(self.window, text)

    def make_missing(self, tmp_path):
        return Target(scheme="window", name="The parcel")

    def remove(self, tmp_path):
        self.papers.shut(self.window)
        return True


# --- which one ----------------------------------------------------------------------


async def test_window_is_found_by_part_of_its_title_its_title_or_id(screen, papers):
    one = papers.open("The letter to Alex", (310, 200))
    papers.open("letter", (320, 200))
    for name, width in [("to alex", 310), ("letter", 320), (f"0x{one:x}", 310)]:
        async with watch_target(screen, f"window:{name}") as watch:
            assert (await watch.here()).picture.size == (width, 200)


async def test_missing_window_is_refused_with_the_names_of_the_others(screen, papers):
    one = papers.open("The letter")
    for name in ["The parcel", "0x99999999"]:
        with pytest.raises(TargetNotFound, match=f'"The letter" .0x{one:x}'):
            async with watch_target(screen, f"window:{name}"):
                pass


async def test_first_note_names_the_other_window_that_matches(screen, papers):
    below = papers.open("Letter 1")
    papers.open("Letter 2")
    async with watch_target(screen, "window:letter") as watch:
        note = (await watch.here()).note
        assert note.startswith('It is "Letter 2" (')
        assert note.endswith(f'also there: "Letter 1" (0x{below:x}).')
        assert (await look(watch)).note is None


# --- what is seen of it -------------------------------------------------------------


async def test_covered_window_is_seen_by_its_own_pixels(screen, papers):
    under = papers.open("Under", (300, 200))
    papers.open("Over", (600, 500), (0, 0), colour=BLUE)
    async with watch_target(screen, "window:Under") as watch:
        first = await watch.here()
        assert first.picture.size == (300, 200)
        assert colours(first) == {GREEN}
        papers.paint(under)
        await await_frame(watch, lambda frame: colours(frame) == {GREEN, RED})


async def test_it_is_seen_whole_where_the_screen_ends(bare):
    with papers_on(bare) as papers:
        target = papers.open("Edge", (300, 200), (600, -150))
        async with watch_target(bare, "window:Edge") as watch:
            await watch.here()
            papers.paint(target)
            frame = await await_frame(watch, lambda frame: colours(frame) == {GREEN, RED})
            assert frame.picture.size == (300, 200)


async def test_its_title_is_its_text_and_a_change_of_it_is_told(screen, papers):
    window = papers.open("Copying 10 %")
    async with watch_target(screen, "window:Copying") as watch:
        assert (await watch.here()).text == "Copying 10 %"
        papers.call(window, "Copying 100 %")
        await await_frame(watch, lambda frame: frame.text == "Copying 100 %")


async def test_moved_it_is_the_same_picture(screen, papers):
    window = papers.open("Moving")
    async with watch_target(screen, "window:Moving") as watch:
        before = (await watch.here()).picture
        papers.place(window, 500, 300)
        await await_change(watch)
        assert (await look(watch)).picture is before
        papers.paint(window)
        await await_frame(watch, lambda frame: colours(frame) == {GREEN, RED})


async def test_resized_the_picture_has_its_new_size(screen, papers):
    window = papers.open("Growing")
    async with watch_target(screen, "window:Growing") as watch:
        await watch.here()
        papers.resize(window, 450, 350)
        await await_frame(watch, lambda frame: frame.picture.size == (450, 350))


async def test_minimised_it_is_told_at_once_and_it_comes_back(screen, papers):
    window = papers.open("Hiding")
    async with watch_target(screen, "window:Hiding") as watch:
        await watch.here()
        papers.minimise(window)
        frame = await await_frame(watch, lambda frame: frame.picture is None)
        assert "minimised or on another desktop" in frame.note
        assert frame.gone is None
        assert frame.text == "Hiding"
        assert (await look(watch)).note == frame.note
        papers.restore(window)
        back = await await_frame(watch, lambda frame: frame.picture is not None)
        assert back.note is None
        assert colours(back) == {GREEN}


async def test_window_minimised_from_the_start_can_be_waited_for(screen, papers):
    window = papers.open("Asleep")
    papers.minimise(window)
    async with watch_target(screen, "window:Asleep") as watch:
        assert "minimised" in (await watch.here()).note
        papers.restore(window)
        await await_frame(watch, lambda frame: colours(frame) == {GREEN})


@pytest.mark.parametrize("size", [(1, 1), (5000, 4000)])
async def test_it_may_be_of_any_size(screen, papers, size):
    window = papers.open("Sized", size, (0, 0))
    papers.resize(window, *size)
    async with watch_target(screen, "window:Sized") as watch:
        await await_frame(watch, lambda frame: frame.picture.size == size)


async def test_a_window_that_can_be_seen_through_is_seen(screen, papers):
    papers.open("Glass", depth=32, colour=0x80_00_A0_50)
    async with watch_target(screen, "window:Glass") as watch:
        assert colours(await watch.here()) == {GREEN}


async def test_window_of_few_colours_has_no_picture(screen, papers, monkeypatch):
    # No server of a test has windows of 16 bits a colour.
    monkeypatch.setattr("taskmem_vision.x11._DEPTHS", (32,))
    papers.open("Old")
    async with watch_target(screen, "window:Old") as watch:
        frame = await watch.here()
        assert frame.picture is None
        assert "16 million colours" in frame.note


# --- its dialogs --------------------------------------------------------------------


async def test_a_dialog_is_seen_with_it_where_it_lies_and_when_it_goes(screen, papers):
    window = papers.open("Main", (400, 300), (100, 100))
    async with watch_target(screen, "window:Main") as watch:
        assert colours(await watch.here()) == {GREEN}
        dialog = papers.open("Error", (60, 40), (200, 200), colour=RED, owner=window)
        frame = await await_frame(watch, lambda frame: colours(frame) == {GREEN, RED})
        assert frame.picture.size == (400, 300)
        papers.paint(dialog, BLUE)
        await await_frame(watch, lambda frame: BLUE in colours(frame))
        papers.place(dialog, 560, 200)
        await await_frame(watch, lambda frame: frame.picture.size[0] > 400)
        papers.shut(dialog)
        frame = await await_frame(watch, lambda frame: colours(frame) == {GREEN})
        assert frame.picture.size == (400, 300)


async def test_the_titles_of_its_dialogs_are_text_too(screen, papers):
    window = papers.open("Main")
    async with watch_target(screen, "window:Main") as watch:
        assert (await look(watch)).text == "Main"
        dialog = papers.open("Upload failed", (60, 40), owner=window)
        frame = await await_frame(watch, lambda frame: frame.text != "Main")
        assert frame.text == "Main\nUpload failed"
        papers.shut(dialog)
        await await_frame(watch, lambda frame: frame.text == "Main")


async def test_a_dialog_larger_than_the_window_is_seen_whole(screen, papers):
    window = papers.open("Main", (200, 100), (300, 300))
    dialog = papers.open("Big", (500, 400), (200, 200), colour=RED, owner=window)
    papers.lift(dialog)
    async with watch_target(screen, "window:Main") as watch:
        frame = await await_frame(watch, lambda frame: RED in colours(frame))
        assert frame.picture.size >= (500, 400)


@pytest.mark.parametrize("far", [30_000, -30_000])
async def test_far_away_dialog_does_not_make_the_picture_large(bare, far):
    with papers_on(bare) as papers:
        window = papers.open("Main", (200, 100), (300, 300))
        dialog = papers.open("Parked", (50, 50), (0, 0), colour=RED, owner=window)
        async with watch_target(bare, "window:Main") as watch:
            await await_frame(watch, lambda frame: RED in colours(frame))
            papers.place(dialog, far, far)
            papers.paint(window, BLUE)
            frame = await await_frame(watch, lambda frame: BLUE in colours(frame))
            width, height = frame.picture.size
            assert width <= 200 + 2 * bare.size[0]
            assert height <= 100 + 2 * bare.size[1]


async def test_the_dialog_of_another_window_is_not_seen_with_it(screen, papers):
    papers.open("Main", (400, 300), (100, 100))
    other = papers.open("Second", (100, 100), (700, 100), colour=BLUE)
    papers.open("Error", (60, 40), (200, 200), colour=RED, owner=other)
    async with watch_target(screen, "window:Main") as watch:
        assert colours(await watch.here()) == {GREEN}


async def test_dialog_without_pixels_takes_nothing_from_the_picture(bare):
    with papers_on(bare) as papers:
        window = papers.open("Main")
        papers.open("Ghost", owner=window, kind=WindowClass.InputOnly)
        async with watch_target(bare, "window:Main") as watch:
            frame = await watch.here()
            assert colours(frame) == {GREEN}
            assert frame.gone is None


async def test_a_dialog_that_closes_while_it_is_looked_at_ends_nothing(screen, papers, monkeypatch):
    window = papers.open("Main", (400, 300), (100, 100))
    dialog = papers.open("Error", (60, 40), (200, 200), colour=RED, owner=window)
    async with watch_target(screen, "window:Main") as watch:
        place = watch._display.read_box

        def closed_right_after(number):
            found = place(number)
            if number == dialog:
                papers.shut(dialog)
            return found

        monkeypatch.setattr(watch._display, "read_box", closed_right_after)
        frame = await watch.here()
        assert colours(frame) == {GREEN}
        assert frame.gone is None


# --- what is told -------------------------------------------------------------------


async def test_nothing_wakes_anybody_while_all_is_still(screen, papers):
    papers.open("Still")
    busy = papers.open("Busy", at=(500, 60))
    async with (
        watch_target(screen, "window:Still") as still,
        watch_target(screen, "window:Busy") as other,
    ):
        await still.here()
        await await_change(still)  # The server tells of the first paint.
        await still.look("now", "now")
        await other.here()
        waking = asyncio.create_task(still.wait_for_change())
        for colour in (RED, BLUE):
            papers.paint(busy, colour)
            await await_frame(other, lambda frame, colour=colour: colour in colours(frame))
        assert not waking.done()
        waking.cancel()


async def test_where_nothing_changed_a_look_is_the_same_picture(screen, papers):
    window = papers.open("Same")
    async with watch_target(screen, "window:Same") as watch:
        first = await watch.here()
        await await_change(watch)
        await look(watch)
        papers.paint(window, GREEN)
        await await_change(watch)
        again = await look(watch)
        assert again.picture is first.picture


async def test_looks_at_what_keeps_changing_are_apart(screen, papers):
    window = papers.open("Clock")
    async with watch_target(screen, "window:Clock") as watch:
        looks = []
        for number in range(60):
            papers.paint(window, number + 1)
            frame = await look(watch)
            looks.append(frame.picture.at)
            if number % 10 == 0:
                await await_change(watch)
        times = sorted(set(looks))
        assert len(times) > 3
        assert all(b - a >= LOOK_GAP for a, b in pairwise(times))


async def test_watch_reports_paint_right_after_a_look_despite_others(screen, papers):
    window = papers.open("Two readers")
    async with watch_target(screen, "window:Two readers") as watch:
        await watch.here()
        await await_change(watch)
        await look(watch)
        waking = asyncio.create_task(watch.wait_for_change())
        papers.paint(window)
        # Another one looks, too early to be shown anything new, again and again.
        while not waking.done():
            await look(watch)
            await asyncio.sleep(0)
        await await_frame(watch, lambda frame: RED in colours(frame))


async def test_two_watches_of_one_window_see_the_same(screen, papers):
    window = papers.open("Shared")
    async with (
        watch_target(screen, "window:Shared") as one,
        watch_target(screen, "window:Shared") as other,
    ):
        await one.here()
        await other.here()
        papers.paint(window)
        for watch in (one, other):
            await await_frame(watch, lambda frame: colours(frame) == {GREEN, RED})
        await one.close()
        papers.paint(window, BLUE)
        await await_frame(other, lambda frame: BLUE in colours(frame))
