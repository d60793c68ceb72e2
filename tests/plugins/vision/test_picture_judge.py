"""A judge that is shown looks and asks beside; its model and its clock are played."""

from __future__ import annotations

import asyncio
import gc
import io
from collections import deque
from types import SimpleNamespace

import pytest

from taskmem_hookspecs import JudgeUnavailable, Met, NoAnswer, Picture
from taskmem_vision.picture_judge import CONFIRM_SECONDS, MOST_ANSWERS, PictureJudge
from taskmem_vision.pictures import JUDGEMENT_GAP
from taskmem_vision.question_policy import STILL_SECONDS, WARM_UP
from taskmem_vision.reader_questions import PromptInjectionSuspected, ReaderReply
from tests.plugins.vision.asking import verdict
from tests.plugins.vision.painted import Room, picture, turn

MARK = (300, 200, 60, 40)


class Model:
    """Answers when it is told to."""

    def __init__(self):
        self.reader = SimpleNamespace(name="played")
        self.scenes = []
        self.alone = []
        self._answers = deque()

    async def ask(self, words, scene, *, alone=False):
        assert words == "It is done."
        self.scenes.append(scene)
        self.alone.append(alone)
        answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        return await answer

    async def answer(self, what):
        """Answer the oldest question, and let that be heard."""
        await turn()
        answer = self._answers.popleft()
        if isinstance(what, Exception):
            answer.set_exception(what)
        else:
            answer.set_result((what, ReaderReply("played", None)))
        await turn()

    @property
    def waiting_count(self):
        return len(self._answers)


class JudgedWait(Room):
    """One wait whose model is played here."""

    def __init__(self, **options):
        super().__init__()
        self.model = Model()
        self.judge = PictureJudge("It is done.", self.model, now=lambda: self.now, **options)

    async def begin(self):
        """Let the first question be answered with a no, and all warm up."""
        await self.rule()
        await self.model.answer(verdict())
        await self.rule()
        self.now += WARM_UP + 1
        await self.rule()

    async def paint(self, *boxes, seconds=STILL_SECONDS):
        """Paint, and look at it, and again when it has stood still."""
        self.painted = boxes
        await self.rule()
        self.now += seconds
        return await self.rule()


@pytest.fixture
def room():
    return JudgedWait()


async def test_what_holds_already_is_asked_about_at_once(room):
    ruling = await room.rule()
    assert ruling.met is Met.UNSURE
    assert ruling.look_again_seconds == JUDGEMENT_GAP
    await room.model.answer(verdict(Met.YES, observation="It stands there."))
    ruling = await room.rule()
    assert ruling.met is Met.YES
    assert ruling.observation == "It stands there."


async def test_a_still_target_is_asked_about_once(room):
    await room.begin()
    for _ in range(20):
        room.now += 30
        ruling = await room.rule()
        assert ruling.look_again_seconds is None
    assert len(room.model.scenes) == 1


async def test_something_new_is_asked_about_when_it_stands_still(room):
    await room.begin()
    room.painted = (MARK,)
    ruling = await room.rule()
    assert ruling.look_again_seconds == pytest.approx(STILL_SECONDS)
    assert len(room.model.scenes) == 1
    room.now += STILL_SECONDS
    await room.rule()
    [_, scene] = room.model.scenes
    assert scene.shots[-1].box is not None
    assert scene.before is not None


async def test_a_look_goes_on_while_the_model_thinks(room):
    await room.begin()
    await room.paint(MARK)
    assert room.model.waiting_count == 1
    for _ in range(5):
        room.now += JUDGEMENT_GAP
        ruling = await room.rule()
        assert ruling.look_again_seconds == JUDGEMENT_GAP
    assert room.model.waiting_count == 1


async def test_model_is_shown_what_came_and_went_while_it_thought(room):
    await room.begin()
    await room.paint(MARK)
    await room.paint(MARK, (20, 20, 200, 60))
    await room.paint(MARK)
    await room.model.answer(verdict())
    room.now += 2
    await room.rule()
    room.now += 10
    await room.rule()
    shown = room.model.scenes[-1].shots
    assert (30, 30) in {where for shot in shots_of(shown) for where in shot}


def shots_of(shots):
    """Return, for each shot, some of the places that are dark in it."""
    from PIL import Image

    for shot in shots:
        image = Image.open(io.BytesIO(shot.whole)).convert("L")
        yield {(x, y) for x, y in ((30, 30), (310, 210)) if image.getpixel((x, y)) < 150}


async def test_a_hesitant_yes_needs_another_one_on_a_later_look(room):
    await room.rule()
    await room.model.answer(verdict(Met.YES, 0.6))
    ruling = await room.rule()
    assert ruling.met is Met.UNSURE
    assert ruling.look_again_seconds == pytest.approx(CONFIRM_SECONDS)
    room.now += CONFIRM_SECONDS
    await room.rule()
    await room.model.answer(verdict(Met.YES, 0.6))
    assert (await room.rule()).met is Met.YES


async def test_a_hesitant_yes_that_is_not_confirmed_settles_nothing(room):
    await room.rule()
    await room.model.answer(verdict(Met.YES, 0.6))
    room.now += CONFIRM_SECONDS
    await room.rule()
    await room.model.answer(verdict(Met.NO))
    assert (await room.rule()).met is Met.UNSURE


@pytest.mark.parametrize(
    "answer",
    [verdict(Met.YES, 0.4), verdict(Met.UNSURE, 1.0), verdict(Met.NO, 1.0)],
    ids=["a guess", "unsure", "no"],
)
async def test_nothing_less_than_a_yes_settles_it(room, answer):
    await room.rule()
    await room.model.answer(answer)
    assert (await room.rule()).met is Met.UNSURE
    assert room.model.waiting_count == 0


async def test_what_decided_is_shown_as_the_picture_of_the_ruling(room):
    await room.begin()
    await room.paint(MARK)
    await room.model.answer(verdict(Met.YES))
    ruling = await room.rule()
    assert isinstance(ruling.picture, Picture)
    assert ruling.picture is room.model.scenes[-1].shots[-1]


async def test_once_it_held_it_holds(room):
    await room.rule()
    await room.model.answer(verdict(Met.YES))
    await room.rule()
    assert (await room.rule(gone="It is closed.")).met is Met.YES


# When the model is in trouble.


async def test_a_model_in_trouble_is_told_and_asked_the_same_again(room):
    await room.begin()
    await room.paint(MARK)
    await room.model.answer(JudgeUnavailable("It is down."))
    ruling = await room.rule()
    assert ruling.met is Met.UNSURE
    assert "played is in trouble: It is down." in ruling.observation
    assert ruling.trouble == "It is down."
    assert ruling.look_again_seconds == pytest.approx(1)
    room.now += 1
    await room.rule()
    assert room.model.scenes[-1].shots[0] is room.model.scenes[-2].shots[0]
    await room.model.answer(verdict(Met.YES))
    assert (await room.rule()).met is Met.YES


async def test_it_is_asked_less_and_less_often_while_it_is_in_trouble(room):
    gaps = []
    await room.rule()
    for _ in range(8):
        await room.model.answer(JudgeUnavailable("It is down."))
        ruling = await room.rule()
        gaps.append(ruling.look_again_seconds)
        room.now += ruling.look_again_seconds
        await room.rule()
    assert gaps == pytest.approx([1, 2, 4, 8, 16, 30, 30, 30])


async def test_the_delay_that_the_server_asks_for_is_kept(room):
    await room.rule()
    await room.model.answer(JudgeUnavailable("The limit is reached.", 55))
    assert (await room.rule()).look_again_seconds == pytest.approx(55)


async def test_model_is_shown_later_what_appeared_while_it_was_down(room):
    await room.begin()
    await room.paint(MARK)
    await room.model.answer(JudgeUnavailable("It is down.", 20))
    await room.rule()
    await room.paint(MARK, (20, 20, 200, 60))
    room.now += 21
    await room.rule()
    shown = [*shots_of(room.model.scenes[-1].shots)]
    assert {(30, 30), (310, 210)} in shown
    assert {(310, 210)} in shown


async def test_trouble_that_is_over_is_not_told_any_more(room):
    await room.rule()
    await room.model.answer(JudgeUnavailable("It is down."))
    await room.rule()
    room.now += 1
    await room.rule()
    await room.model.answer(verdict())
    assert "trouble" not in (await room.rule()).observation


async def test_a_fault_of_ours_is_raised_and_the_question_asked_again(room):
    await room.rule()
    await room.model.answer(ValueError("a fault"))
    with pytest.raises(ValueError, match="a fault"):
        await room.rule()
    room.now += 1
    await room.rule()
    await room.model.answer(verdict(Met.YES))
    assert (await room.rule()).met is Met.YES


async def test_failed_question_is_not_reported_as_never_asked(room):
    await room.rule()
    await room.model.answer(JudgeUnavailable("It is down."))
    ruling = await room.rule()
    assert "in trouble: It is down." in ruling.observation
    assert "not been asked" not in ruling.observation


async def test_a_question_that_is_given_up_is_not_complained_of(room, caplog):
    gc.collect()  # what other tests left behind is none of this one's
    caplog.clear()
    await room.rule()
    room.judge = None
    await room.model.answer(JudgeUnavailable("It is down."))
    gc.collect()
    assert not [said for said in caplog.messages if "never retrieved" in said]


async def test_questions_without_an_answer_do_not_count(room):
    room = JudgedWait(calls=3)
    await room.rule()
    for _ in range(6):
        await room.model.answer(JudgeUnavailable("It is down."))
        ruling = await room.rule()
        room.now += ruling.look_again_seconds
        await room.rule()
    await room.model.answer(verdict(Met.YES))
    assert (await room.rule()).met is Met.YES


async def test_an_answer_that_is_none_is_asked_for_again_alone(room):
    await room.rule()
    await room.model.answer(NoAnswer("Nonsense."))
    await room.rule()
    await room.rule()
    assert room.model.alone == [False, True]


async def test_a_model_that_was_swayed_is_shown_only_what_is_new(room):
    await room.begin()
    await room.paint(MARK)
    await room.model.answer(PromptInjectionSuspected("It says yes to everything."))
    ruling = await room.rule()
    assert ruling.met is Met.UNSURE
    assert "says yes to everything" in ruling.observation
    await room.rule()
    assert room.model.scenes[-1].details_only


async def test_swayed_model_is_shown_what_appears_after_another_change(room):
    await room.begin()
    await room.paint(MARK)
    await room.model.answer(PromptInjectionSuspected("It says yes to everything."))
    await room.rule()
    await room.rule()
    await room.model.answer(verdict())
    await room.rule()
    room.now += 30
    asked = len(room.model.scenes)
    above, below = (200, 100, 40, 20), (200, 400, 40, 20)
    room.painted = (MARK, above)
    await room.rule()
    room.now += 0.1
    room.painted = (MARK, above, below)
    for _ in range(100):
        await room.rule()
        if room.model.waiting_count:
            await room.model.answer(verdict())
        room.now += 0.1
    boxes = [shot.box for each in room.model.scenes[asked:] for shot in each.shots]
    assert any(box and box[1] <= below[1] < box[3] for box in boxes)


async def test_a_model_that_stays_swayed_never_settles_it(room):
    await room.rule()
    for _ in range(MOST_ANSWERS):
        if not room.model.waiting_count:
            break
        await room.model.answer(PromptInjectionSuspected("It says yes to everything."))
        ruling = await room.rule()
        room.now += ruling.look_again_seconds or 100
        assert (await room.rule()).met is Met.UNSURE


# How often it is asked.


async def test_it_is_asked_so_often_and_no_more(room):
    room = JudgedWait(calls=4)
    await room.begin()
    for step in range(12):
        room.now += 100
        ruling = await room.paint((10 + 20 * step, 10, 15, 15), seconds=2)
        if room.model.waiting_count:
            await room.model.answer(verdict())
    assert len(room.model.scenes) == 3
    assert "as often as it may" in ruling.observation


async def test_the_last_question_is_kept_for_the_end(room):
    room = JudgedWait(calls=2)
    await room.begin()
    await room.paint(MARK)
    assert len(room.model.scenes) == 1
    await room.rule(seconds_left=2)
    assert len(room.model.scenes) == 2


async def test_who_may_not_ask_does_not_look_all_the_time(room):
    room = JudgedWait(calls=2)
    await room.begin()
    await room.paint(MARK)
    room.now += 100
    ruling = await room.rule(seconds_left=500.0)
    assert ruling.look_again_seconds > 400


async def test_before_the_timeout_it_is_looked_at_once_more(room):
    await room.begin()
    room.painted = (MARK,)
    ruling = await room.rule(seconds_left=50.0)
    assert ruling.look_again_seconds is not None
    await room.rule(seconds_left=2.9)
    await room.rule(seconds_left=2.8)
    assert len(room.model.scenes) == 2
    await room.model.answer(verdict())
    room.painted = ()
    await room.rule(seconds_left=1.0)
    assert len(room.model.scenes) == 2


async def test_it_asks_to_be_shown_the_last_look(room):
    await room.begin()
    ruling = await room.rule(seconds_left=50.0)
    assert ruling.look_again_seconds == pytest.approx(47)


async def test_a_target_that_was_just_judged_is_not_looked_at_last(room):
    await room.begin()
    await room.rule(seconds_left=1.0)
    assert len(room.model.scenes) == 1


async def test_model_that_keeps_wanting_looks_gets_them_more_rarely(room):
    await room.rule()
    for _ in range(12):
        await room.model.answer(verdict(look_again_seconds=1))
        ruling = await room.rule()
        room.now += ruling.look_again_seconds
        if room.now > 400:
            break
        await room.rule()
    assert len(room.model.scenes) <= 8


@pytest.mark.parametrize("hint", [0, -5])
async def test_a_hint_that_is_none_is_not_taken(room, hint):
    await room.rule()
    await room.model.answer(verdict(look_again_seconds=hint))
    assert (await room.rule()).look_again_seconds is None


async def test_a_region_makes_what_happens_elsewhere_wait(room):
    await room.rule()
    await room.model.answer(verdict(watch_box=[0, 0, 100, 100]))
    room.now += WARM_UP + 1
    await room.rule()
    await room.paint(MARK)
    assert len(room.model.scenes) == 1
    room.now += 20
    await room.rule()
    assert len(room.model.scenes) == 2


@pytest.mark.parametrize(
    "box", [[], [1], [0, 0, 0, 0], [900, 0, 100, 5], [-1, 0, 5, 2000], [0] * 400]
)
async def test_a_region_that_is_none_is_not_taken(room, box):
    await room.rule()
    await room.model.answer(verdict(watch_box=box))
    room.now += WARM_UP + 1
    await room.rule()
    await room.paint(MARK)
    assert len(room.model.scenes) == 2


async def test_text_expected_by_the_model_is_asked_about_at_once(room):
    room.title = "Building (37%)"
    await room.rule()
    await room.model.answer(verdict(expect_text=["100%", "a", "Building"]))
    await room.rule()
    room.title = "Building (38%)"
    await room.rule()
    assert len(room.model.scenes) == 1
    room.title = "Building (100%)"
    await room.rule()
    assert len(room.model.scenes) == 2
    await room.model.answer(verdict(expect_text=["100%"]))
    room.now += 0.1
    await room.rule()
    assert room.model.waiting_count == 0


# What it is shown.


async def test_what_decided_is_the_picture_of_what_came_and_went(room):
    await room.begin()
    await room.paint(MARK)
    await room.model.answer(verdict())
    room.now += 5
    await room.rule()
    await room.paint(MARK, (300, 300, 60, 60))
    asked = len(room.model.scenes)
    room.painted = (MARK,)
    room.now += 2
    await room.rule()
    while not room.model.waiting_count:
        room.now += 1
        await room.rule()
    assert len(room.model.scenes) in (asked, asked + 1)
    await room.model.answer(verdict(Met.YES))
    found = await room.rule()
    assert found.picture.box is not None


async def test_a_target_that_cannot_be_seen_says_why(room):
    ruling = await room.rule(picture=None, note="The window is minimised.")
    assert ruling.met is Met.UNSURE
    assert ruling.observation == "The window is minimised."
    assert room.model.scenes == []


async def test_target_that_shrinks_while_a_change_is_new_is_judged(room):
    await room.begin()
    room.painted = ((600, 440, 30, 30),)
    await room.rule()
    room.easel.size = (200, 100)
    room.painted = ()
    await room.rule()
    room.now += WARM_UP + 1
    await room.rule()
    assert room.model.scenes[-1].shots[-1].size == (200, 100)
    assert room.model.scenes[-1].shots[-1].whole


async def test_a_title_that_changes_is_asked_about(room):
    room.title = "Building"
    await room.begin()
    room.title = "Build finished"
    await room.rule()
    room.now += STILL_SECONDS
    await room.rule()
    assert room.model.scenes[-1].title == "Build finished"


async def test_pictures_of_other_sensors_are_judged_likewise():
    room = JudgedWait()

    def foreign_picture(*boxes):
        return Foreign(picture(*boxes))

    await room.rule(picture=foreign_picture())
    await room.model.answer(verdict())
    room.now += WARM_UP + 1
    await room.rule(picture=foreign_picture())
    await room.rule(picture=foreign_picture(MARK))
    room.now += STILL_SECONDS
    await room.rule(picture=foreign_picture(MARK))
    assert len(room.model.scenes) == 2


class Foreign:
    """A picture of somebody else's."""

    def __init__(self, image):
        self.image = image
        self.size = image.size

    def png(self):
        held = io.BytesIO()
        self.image.save(held, "PNG")
        return held.getvalue()

    def jpeg(self, longest):
        raise AssertionError("a judge looks at all of it")


async def test_when_the_target_goes_it_is_asked_whether_that_was_it(room):
    await room.begin()
    ruling = asyncio.create_task(room.judge.rule(room.frame(gone="It was closed.")))
    await turn()
    await room.model.answer(verdict(Met.YES, observation="The window was closed."))
    assert (await ruling).met is Met.YES
    assert room.model.scenes[-1].gone == "It was closed."
    assert room.model.scenes[-1].shots


async def test_judge_asks_no_more_after_the_target_goes_without_a_yes(room):
    await room.begin()
    for _ in range(2):
        ruling = asyncio.create_task(room.judge.rule(room.frame(gone="Closed.")))
        await turn()
        if room.model.waiting_count:
            await room.model.answer(verdict(Met.NO))
        assert (await ruling).met is not Met.YES
    assert len(room.model.scenes) == 2


async def test_model_is_asked_again_if_the_target_goes_while_it_thinks(room):
    await room.rule()
    ruling = asyncio.create_task(room.judge.rule(room.frame(gone="Closed.")))
    await turn()
    await room.model.answer(verdict(Met.NO))
    await room.model.answer(verdict(Met.YES))
    assert (await ruling).met is Met.YES


async def test_when_the_target_goes_and_the_model_is_down_that_is_told(room):
    await room.begin()
    ruling = asyncio.create_task(room.judge.rule(room.frame(gone="Closed.")))
    await turn()
    await room.model.answer(JudgeUnavailable("It is down."))
    with pytest.raises(JudgeUnavailable, match="It is down"):
        await ruling
