"""Which conditions are judged by rules on windows and screens, which are refused."""

from __future__ import annotations

import pytest

from taskmem_hookspecs import ConditionUnclear, Judge, Target
from taskmem_vision.reading import hooks as screen_hooks
from taskmem_vision.reading.hooks import wait_judge
from taskmem_vision.reading.page import Page
from tests.plugins.vision.conditions import make_condition, text

SCREEN = Target(scheme="screen", name="")
WINDOW = Target(scheme="window", name="Editor")
DONE, CLOSES, QUIET = text("Done"), {"exit": "any"}, {"quiet": 30}


class Engine:
    name = "played"

    async def read(self, picture, *, numbers=False):
        return Page("", "")


@pytest.fixture(params=[True, False], ids=["with an engine", "without"])
def engine(request, monkeypatch):
    found = Engine() if request.param else None
    monkeypatch.setattr(screen_hooks, "_engine", lambda: found)
    return found


@pytest.mark.parametrize("target", [SCREEN, WINDOW], ids=str)
def test_text_is_judged_where_an_engine_reads_it(engine, target):
    if engine is None:
        with pytest.raises(ConditionUnclear, match="install tesseract-ocr") as refused:
            wait_judge(target, make_condition(DONE), None)
        assert refused.value.sides == ()
        return
    judge = wait_judge(target, make_condition(DONE), None)
    assert isinstance(judge, Judge)
    assert (judge.name, judge.sides) == ("rules", (0,))


class Reader:
    def __init__(self, *, sees_pictures):
        self.sees_pictures = sees_pictures


def test_a_reader_that_sees_pictures_tells_what_no_engine_reads(engine):
    judges = [
        wait_judge(target, make_condition(DONE), Reader(sees_pictures=True))
        for target in (SCREEN, WINDOW)
    ]
    if engine is None:
        screen, window = judges
        assert (screen, window.sides) == (None, ())
        with pytest.raises(ConditionUnclear, match="install tesseract-ocr"):
            wait_judge(WINDOW, make_condition(DONE), Reader(sees_pictures=False))
    else:
        assert [judge.sides for judge in judges] == [(0,), (0,)]


def test_silence_and_the_end_take_no_engine(engine):
    assert wait_judge(WINDOW, make_condition(QUIET, CLOSES), None).sides == (0, 1)


def test_free_english_is_left_to_readers(engine):
    assert wait_judge(WINDOW, make_condition("the chart looks good"), None) is None


def test_a_form_that_the_target_cannot_have_refuses_its_side(engine):
    for target, form in ((SCREEN, CLOSES), (WINDOW, {"exit": "failure"})):
        with pytest.raises(ConditionUnclear, match="quote what") as refused:
            wait_judge(target, make_condition(QUIET, form), None)
        assert refused.value.sides == (1,)


def test_terminals_are_left_to_others(engine):
    target = Target(scheme="pty", name="build")
    assert wait_judge(target, make_condition(DONE), None) is None
