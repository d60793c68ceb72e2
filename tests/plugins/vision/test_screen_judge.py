"""A judge that reads titles and pictures; its engine and its clock are played."""

from __future__ import annotations

import asyncio
from collections import deque
from io import BytesIO

import pytest
from PIL import Image

from taskmem_hookspecs import Frame, JudgeUnavailable, Met
from taskmem_hookspecs.testing import JudgeSuite
from taskmem_vision.ocr import OcrPage
from taskmem_vision.question_policy import STILL_SECONDS, WARM_UP
from taskmem_vision.screen_judge import RETRY_SECONDS, SURE_SECONDS, ScreenJudge
from tests.plugins.vision.conditions import make_condition, text
from tests.plugins.vision.frames import DAWN
from tests.plugins.vision.painted import Room

MARK = (300, 200, 60, 40)
DONE, CLOSES = text("Done"), {"exit": "any"}


class PlayedEngine:
    """An OCR engine that says what it is told to say."""

    def __init__(self):
        self.pieces = []
        self.says = deque()
        self._free = asyncio.Event()
        self._free.set()

    def hold(self):
        """Take long from now on."""
        self._free.clear()

    def let_go(self):
        self._free.set()

    async def read(self, png, *, numbers=False):
        self.pieces.append(png)
        await self._free.wait()
        said = self.says.popleft() if self.says else ""
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, OcrPage) else OcrPage(said, said)


class JudgedWait(Room):
    """One wait whose engine is played here."""

    def __init__(self, *sides, engine=True):
        super().__init__((1920, 1080))
        self.engine = PlayedEngine() if engine else None
        condition = make_condition(*sides)
        self.judge = ScreenJudge(condition, self.engine, now=lambda: self.now)

    async def read(self, *said):
        """Let what is looked at be read so."""
        self.engine.says.extend(said)
        await self.rule()
        return await self.rule()

    async def paint(self, *boxes):
        self.painted = boxes
        await self.rule()
        self.now += STILL_SECONDS


class TestScreenJudge(JudgeSuite):
    def make_judge(self, tmp_path):
        return JudgedWait(text("Build finished")).judge

    def make_met(self, tmp_path):
        return [*self.make_unmet(tmp_path), self.build_frame("Build finished – IDE")]

    def make_unmet(self, tmp_path):
        return [self.build_frame("Build begun – IDE")]

    def build_frame(self, title):
        return Frame(seen_at=DAWN, place="now", text=title, tail=title)


async def test_what_the_title_shows_needs_no_reading():
    room = JudgedWait(text("Build finished"))
    room.title = "Build finished – IDE"
    ruling = await room.rule()
    assert ruling.met is Met.YES
    assert ruling.observation == 'The title shows "Build finished".'
    assert room.engine.pieces == []


async def test_what_stands_there_already_is_read_at_once():
    room = JudgedWait(text("Download complete"))
    ruling = await room.read("Report.pdf\nDownload complete")
    assert ruling.met is Met.YES
    assert ruling.observation == 'The text shows "Download complete".'
    assert ruling.picture is not None


async def test_what_is_not_there_is_told():
    room = JudgedWait(text("Download complete"))
    ruling = await room.read("Downloading")
    assert ruling.met is Met.NO
    assert ruling.observation == 'The text does not show "Download complete".'


async def test_a_still_target_is_read_once():
    room = JudgedWait(DONE)
    await room.read("Working")
    for _ in range(20):
        room.now += 30
        await room.rule()
    assert len(room.engine.pieces) == 1


async def test_only_what_is_new_is_read():
    room = JudgedWait(DONE)
    await room.read("Working")
    room.now += WARM_UP
    await room.rule()
    await room.paint(MARK)
    ruling = await room.read("Done")
    assert ruling.met is Met.YES
    whole, part = room.engine.pieces
    assert len(part) < len(whole)


async def test_what_is_new_is_read_with_the_beginning_of_its_line():
    """Where "Downloading: 7 bytes" becomes "Download complete", eight letters stay."""
    room = JudgedWait(text("Download complete"))
    await room.read("Downloading: 7 bytes")
    room.now += WARM_UP
    await room.rule()
    await room.paint(MARK)
    await room.read("Download complete")
    _, part = room.engine.pieces
    width, height = Image.open(BytesIO(part)).size
    assert width == room.easel.size[0]
    assert height < room.easel.size[1] / 4


async def test_where_all_of_several_are_wanted_all_of_it_is_read():
    room = JudgedWait([text("Step A done"), text("Step B done")])
    await room.read("Step A done")
    room.now += WARM_UP
    await room.rule()
    await room.paint(MARK)
    assert (await room.read("Step B done")).met is Met.NO
    room.now += 10
    await room.paint(MARK, (9, 9, 50, 50))
    assert (await room.read("Step A done\nStep B done")).met is Met.YES
    assert {rows(piece) for piece in room.engine.pieces} == {room.easel.size[1]}


async def test_what_was_there_and_is_not_any_more_is_gone():
    room = JudgedWait(text("Installing", gone=True))
    await room.read("Installing packages")
    room.now += WARM_UP
    await room.rule()
    await room.paint(MARK)
    assert (await room.read("Ready")).met is Met.NO
    room.now += SURE_SECONDS
    found = await room.read("Ready")
    assert found.met is Met.YES
    assert found.observation == '"Installing" is no longer shown.'


async def test_a_text_that_is_misread_once_is_not_gone():
    room = JudgedWait(text("Installing", gone=True))
    await room.read("Installing packages")
    room.now += WARM_UP
    await room.rule()
    await room.paint(MARK)
    await room.read("1nstal1ing packages")
    room.now += SURE_SECONDS
    assert (await room.read("Installing packages")).met is Met.NO
    room.now += 60
    assert (await room.read("1nstal1ing packages")).met is Met.NO


async def test_appearing_text_is_enough_if_the_other_was_never_there():
    room = JudgedWait(text("Finished"), text("Loading", gone=True))
    found = await room.read("Finished")
    assert (found.met, found.observation) == (Met.YES, 'The text shows "Finished".')


async def test_what_never_was_there_is_not_told_to_be_gone():
    room = JudgedWait(text("Finished"), text("Loading", gone=True))
    found = await room.read("Working")
    assert found.observation == (
        'The text does not show "Finished"; The text does not show "Loading".'
    )


ABOVE, BELOW = (300, 200, 200, 20), (300, 700, 200, 20)


def rows(piece):
    return Image.open(BytesIO(piece)).size[1]


async def test_what_appears_a_moment_after_something_else_is_read_too():
    room = JudgedWait(DONE)
    await room.read("Working")
    room.now += WARM_UP
    await room.rule()
    room.painted = (ABOVE,)
    await room.rule()
    room.now += 0.1
    room.painted = (ABOVE, BELOW)
    for _ in range(20):
        await room.rule()
        room.now += 0.1
    _, *parts = room.engine.pieces
    read = Image.open(BytesIO(parts[-1]))
    assert min(BELOW[3], rows(parts[-1])) == BELOW[3]
    assert sum(rows(part) for part in parts) >= 2 * rows(parts[0])
    assert read.size[0] == room.easel.size[0]


async def test_what_came_and_went_during_a_reading_is_read_afterwards():
    room = JudgedWait(DONE)
    await room.read("Working")
    room.now += WARM_UP
    await room.rule()
    room.engine.hold()
    await room.paint(ABOVE)
    await room.rule()
    room.now += 0.5
    await room.paint(ABOVE, BELOW)
    await room.rule()
    room.now += 1.5
    room.painted = (ABOVE,)
    await room.rule()
    room.now += 1.0
    await room.rule()
    before = len(room.engine.pieces)
    room.engine.let_go()
    for _ in range(5):
        room.now += 0.5
        await room.rule()
    toast, *_ = room.engine.pieces[before:]
    assert rows(toast) < room.easel.size[1] / 4


async def test_before_the_timeout_all_is_read_where_only_parts_were():
    room = JudgedWait(DONE)
    await room.read("Working")
    room.now += WARM_UP
    await room.rule()
    await room.paint(ABOVE)
    await room.read("Working")
    *_, part = room.engine.pieces
    await room.rule(seconds_left=2.0)
    *_, last = room.engine.pieces
    assert rows(part) < rows(last) == room.easel.size[1]


async def test_judge_does_not_poll_a_window_that_cannot_be_seen():
    room = JudgedWait(DONE)
    await room.read("Working")
    room.now += WARM_UP
    await room.rule()
    room.painted = (MARK,)
    await room.rule()
    for _ in range(9):
        room.now += 1
        found = await room.rule(picture=None, note="The window is minimised.")
    assert found.look_again_seconds is None


async def test_what_never_was_there_is_not_gone():
    room = JudgedWait(text("Installing", gone=True))
    assert (await room.read("Welcome")).met is Met.NO
    room.now += WARM_UP
    await room.rule()
    await room.paint(MARK)
    assert (await room.read("Ready")).met is Met.NO


async def test_a_picture_that_cannot_be_read_is_told_and_read_again():
    room = JudgedWait(DONE)
    ruling = await room.read(JudgeUnavailable("tesseract was killed."))
    assert ruling.met is Met.UNSURE
    assert "tesseract was killed." in ruling.observation
    assert ruling.look_again_seconds == pytest.approx(RETRY_SECONDS)
    room.now += RETRY_SECONDS
    assert (await room.read("Done")).met is Met.YES


async def test_a_fault_of_ours_is_raised_and_the_picture_read_again():
    room = JudgedWait(DONE)
    with pytest.raises(ValueError, match="a fault"):
        await room.read(ValueError("a fault"))
    room.now += RETRY_SECONDS
    assert (await room.read("Done")).met is Met.YES


async def test_a_window_that_closes_is_what_was_waited_for():
    room = JudgedWait(CLOSES)
    room.title = "Report"
    await room.read("Anything")
    ruling = await room.rule(gone="The window was closed.")
    assert ruling.met is Met.YES
    assert ruling.observation == "The window was closed."


async def test_a_window_that_went_away_with_its_display_was_not_closed():
    room = JudgedWait(CLOSES)
    ruling = await room.rule(gone="The window went away with its display.")
    assert ruling.met is Met.NO


async def test_a_window_that_closes_is_not_what_was_waited_for():
    room = JudgedWait(DONE)
    await room.read("Working")
    assert (await room.rule(gone="The window was closed.")).met is Met.NO


async def test_what_is_being_read_when_the_window_closes_still_counts():
    room = JudgedWait(DONE)
    room.engine.says.append("Done")
    await room.rule()
    assert (await room.rule(gone="The window was closed.")).met is Met.YES


async def test_before_the_timeout_it_is_read_once_more():
    room = JudgedWait(DONE)
    await room.read("Working")
    room.painted = (MARK,)
    await room.rule(seconds_left=2.0, picture=room.easel.look(room.now, MARK, title=None))
    assert len(room.engine.pieces) == 2


async def test_without_an_engine_only_the_title_is_read():
    room = JudgedWait(DONE, engine=False)
    room.title = "Working"
    ruling = await room.rule()
    assert ruling.met is Met.UNSURE
    assert ruling.look_again_seconds is None
    room.title = "Done"
    assert (await room.rule()).met is Met.YES


async def test_a_target_that_cannot_be_seen_says_why():
    room = JudgedWait(DONE)
    ruling = await room.rule(picture=None, note="The window is minimised.")
    assert ruling.observation == "The window is minimised."


# --- sides ------------------------------------------------------------------------

QUIET = {"quiet": 30}
PERCENT = {"percent": 80}


@pytest.mark.parametrize(
    ("sides", "engine", "decided"),
    [
        ((DONE, PERCENT, QUIET, CLOSES), True, (0, 1, 2, 3)),
        ((DONE, PERCENT, QUIET, CLOSES), False, (2, 3)),
        (("it looks good", DONE), True, (1,)),
        ((text("✓"), DONE), True, (1,)),
        (([QUIET, DONE], [QUIET, CLOSES]), False, (1,)),
    ],
)
async def test_it_decides_the_sides_that_it_can_see(sides, engine, decided):
    assert JudgedWait(*sides, engine=engine).judge.sides == decided


async def test_a_side_that_others_decide_leaves_it_unsure():
    room = JudgedWait("it looks good", DONE)
    assert (await room.read("Working")).met is Met.UNSURE
    assert (await room.rule(gone="The window was closed.")).met is Met.UNSURE


# --- silence ----------------------------------------------------------------------


async def test_it_is_asked_again_when_the_silence_is_long_enough():
    room = JudgedWait(QUIET, engine=False)
    ruling = await room.rule()
    assert (ruling.met, ruling.look_again_seconds) == (Met.NO, 30)
    room.now += 29
    assert (await room.rule()).look_again_seconds == pytest.approx(1)
    room.now += 1
    ruling = await room.rule()
    assert ruling.met is Met.YES
    assert ruling.observation == "Nothing has changed for 30 s."


@pytest.mark.parametrize("change", ["picture", "title", "hidden"])
async def test_what_changes_or_cannot_be_seen_breaks_the_silence(change):
    room = JudgedWait(QUIET, engine=False)
    await room.rule()
    room.now += 29
    if change == "picture":
        room.painted = (MARK,)
    elif change == "title":
        room.title = "Other"
    else:
        await room.rule(picture=None, note="The window is minimised.")
    await room.rule()
    room.now += 29
    assert (await room.rule()).met is Met.NO
    room.now += 1
    assert (await room.rule()).met is Met.YES


async def test_a_title_that_no_picture_knows_breaks_the_silence():
    room = JudgedWait(QUIET, engine=False)
    picture = room.easel.look(room.now)
    await room.rule(picture=picture)
    room.now += 29
    room.title = "Other"
    await room.rule(picture=picture)
    room.now += 29
    assert (await room.rule(picture=picture)).met is Met.NO
    room.now += 1
    assert (await room.rule(picture=picture)).met is Met.YES


async def test_silence_and_text_need_a_reading_since_the_last_change():
    room = JudgedWait([DONE, QUIET])
    await room.read("Done")
    room.now += WARM_UP
    room.painted = (MARK,)
    await room.rule()
    room.engine.hold()
    room.now += 31
    assert (await room.rule()).met is Met.NO
    room.engine.says.append("Done")
    room.engine.let_go()
    await room.rule()
    found = await room.rule()
    assert found.met is Met.YES
    assert found.observation == 'The text shows "Done"; Nothing has changed for 30 s.'


# --- the end of a window ------------------------------------------------------------


async def test_a_window_closes_with_the_text_that_it_showed_last():
    room = JudgedWait([DONE, CLOSES])
    room.title = "Setup"
    await room.read("All done")
    ruling = await room.rule(gone="The window was closed.")
    assert ruling.met is Met.YES
    assert ruling.observation == 'The text shows "Done"; The window was closed.'


async def test_a_text_is_gone_with_its_window_only_if_it_was_there():
    for said, met in (("Installing", Met.YES), ("Welcome", Met.NO)):
        room = JudgedWait(text("Installing", gone=True))
        room.title = "Setup"
        await room.read(said)
        assert (await room.rule(gone="The window was closed.")).met is met


async def test_a_text_that_only_the_title_showed_can_be_gone():
    room = JudgedWait(text("Loading", gone=True))
    room.title = "Loading"
    await room.read("Page")
    room.title = "Page"
    room.now += WARM_UP
    await room.rule()
    await room.paint(MARK)
    assert (await room.read("Page")).met is Met.NO
    room.now += SURE_SECONDS
    assert (await room.read("Page")).met is Met.YES


async def test_only_a_number_that_was_surely_read_counts():
    assert (await JudgedWait(PERCENT).read(OcrPage("85 %", ""))).met is Met.NO
    assert (await JudgedWait(PERCENT).read(OcrPage("85 %", "85 %"))).met is Met.YES
    assert (await JudgedWait(text("85 %")).read(OcrPage("85 %", ""))).met is Met.YES
