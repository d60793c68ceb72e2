"""Which conditions are judged by rules on windows and screens, which are refused."""

from __future__ import annotations

import re
from functools import cache
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskmem_terminal.hooks
import taskmem_vision.hooks
from openclaw_taskmem.daemon.judges import add_forms, refuse_unjudged
from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.domain.conditions.verdicts import FORMS
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import ConditionUnclear, Judge, Target
from taskmem_hookspecs.testing import ScriptedReader
from taskmem_vision import screen_text_hooks
from taskmem_vision.ocr import OcrPage
from taskmem_vision.screen_text_hooks import wait_judge
from tests.plugins.vision.conditions import make_condition, text

SCREEN = Target(scheme="screen", name="")
WINDOW = Target(scheme="window", name="Editor")
FREE = "the chart looks good"
DONE, CLOSES, QUIET = text("Done"), {"exit": "any"}, {"quiet": 30}


class Engine:
    async def read(self, picture, *, numbers=False):
        return OcrPage("", "")


@pytest.fixture(params=[True, False], ids=["with an engine", "without"])
def engine(request, monkeypatch):
    found = Engine() if request.param else None
    monkeypatch.setattr(screen_text_hooks, "_get_engine", lambda: found)
    return found


@pytest.mark.parametrize("target", [SCREEN, WINDOW], ids=str)
def test_text_is_judged_where_an_engine_reads_it(engine, target):
    judge = wait_judge(target, make_condition(DONE, FREE), None)
    assert isinstance(judge, Judge)
    assert (judge.name, judge.sides) == ("rules", (0,) if engine else ())


def test_what_reads_text_is_advised_where_nothing_does(engine):
    """Also where other sides are free English, and a reader may look."""
    plugin_host = PluginHost(entries=[], extra=[("screen", screen_text_hooks)])
    for reader in (None, ScriptedReader()):
        found = plugin_host.collect_judges(WINDOW, make_condition(DONE, FREE), reader)
        advised = [said for said in found.advice if "install tesseract-ocr" in said]
        assert len(advised) == (engine is None)
    assert not plugin_host.collect_judges(WINDOW, make_condition(QUIET), None).advice


@pytest.mark.parametrize("target", [SCREEN, WINDOW], ids=str)
def test_picture_reader_takes_the_text_that_no_engine_reads(engine, target):
    condition = make_condition(QUIET, DONE)
    reader = ScriptedReader()
    assert wait_judge(target, condition, None).sides == ((0, 1) if engine else (0,))
    asked = taskmem_vision.hooks.wait_judge(target, condition, reader)
    assert asked is None if engine else asked.sides == (1,)


def test_blind_reader_cannot_judge_text_without_an_engine(engine):
    blind, condition = ScriptedReader(sees_pictures=False), make_condition(DONE)
    assert taskmem_vision.hooks.wait_judge(WINDOW, condition, blind) is None


def test_silence_and_the_end_take_no_engine(engine):
    assert wait_judge(WINDOW, make_condition(QUIET, CLOSES), None).sides == (0, 1)


def test_free_english_is_left_to_readers(engine):
    assert wait_judge(WINDOW, make_condition(FREE), None) is None


def test_a_form_that_the_target_cannot_have_refuses_its_side(engine):
    for target, form in ((SCREEN, CLOSES), (WINDOW, {"exit": "failure"})):
        with pytest.raises(ConditionUnclear, match=r"[Qq]uote what") as refused:
            wait_judge(target, make_condition(QUIET, form), ScriptedReader())
        assert refused.value.sides == (1,)


def test_terminals_are_left_to_others(engine):
    target = Target(scheme="pty", name="build")
    assert wait_judge(target, make_condition(DONE), None) is None


# --- refusals --------------------------------------------------------------------


TARGETS = [SCREEN, WINDOW, *(Target(scheme="pty", name=name) for name in ("job", "file:/log"))]
READERS = [None, ScriptedReader(), ScriptedReader(sees_pictures=False)]
SENTENCES = [
    *(re.sub(r"\bN\b", "3", form) for form in FORMS),
    *("the build has finished", "the tests pass", FREE, '"x" appears', '"\u2713" appears or exits'),
]


@cache
def make_plugin_host():
    modules = (taskmem_terminal.hooks, screen_text_hooks, taskmem_vision.hooks)
    return PluginHost(entries=[], extra=[(each.__name__, each) for each in modules])


def find_refusal(target, sentence, reader):
    """Return why a wait would be refused; None: it would not."""
    plugin_host = make_plugin_host()
    condition = parse_condition(sentence, target.scheme)
    judges = plugin_host.collect_judges(target, condition, reader)
    if judges.refusal is not None:
        return add_forms(plugin_host, target, condition, judges.refusal, reader)
    try:
        refuse_unjudged(plugin_host, target, condition, judges, reader)
    except ConditionUnclear as refusal:
        return refusal
    return None


EXAMPLE = re.compile(r"(?:\"[^\"]+\"|/[^/]+/i?) appears|quiet for \d+ s")
"""A form as the sentence of a refusal may show it."""


def list_offers(refusal, sentence):
    """Return what a refusal offers to be sent in place of a sentence."""
    told = str(refusal).replace(sentence, "")
    words = {
        *refusal.details["forms"],
        refusal.details.get("suggestion", ""),
        *EXAMPLE.findall(told),
    }
    return {re.sub(r"\bN\b", "3", each) for each in words - {"", "plain English"}}


QUOTED = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=12)
SIDES = st.one_of(
    st.sampled_from(SENTENCES),
    QUOTED.map(lambda text: f'"{text}" appears'),
    st.builds("{} shows '{}' at last".format, st.sampled_from(["it", "the log"]), QUOTED),
    st.text(max_size=30),
)


@given(
    target=st.sampled_from(TARGETS),
    reader=st.sampled_from(READERS),
    reads=st.booleans(),
    sentence=st.lists(SIDES, min_size=1, max_size=3).map(" or ".join),
)
def test_what_a_refusal_offers_is_taken_when_sent_back(target, reader, reads, sentence):
    with patch.object(screen_text_hooks, "_get_engine", lambda: Engine() if reads else None):
        refusal = find_refusal(target, sentence, reader)
        if refusal is not None:
            offers = list_offers(refusal, sentence)
            assert sentence not in offers
            assert [each for each in offers if find_refusal(target, each, reader)] == []


@pytest.mark.parametrize(
    ("sentence", "form"),
    [
        ("the build has finished", None),
        ("the job is done", None),
        ("it finishes", None),
        ("the tests pass", None),
        ("it closes", "exits"),
        ("the window is closed", "exits"),
        ("exits", "exits"),
        ("the program exits", "exits"),
        ("fails", "fails"),
    ],
)
def test_work_that_ends_on_a_window_is_not_its_end(sentence, form):
    (side,) = parse_condition(sentence, "window").sides
    assert (str(side) if side.forms else None) == form
