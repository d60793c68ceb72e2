"""Which conditions are read off a screen on this machine, and which are refused."""

from __future__ import annotations

import pytest

from taskmem_hookspecs import ConditionUnclear, Judge, Target
from taskmem_vision.gemini.keys import KEYS
from taskmem_vision.reading import hooks as screen_text_hooks
from taskmem_vision.reading.hooks import wait_judge

SCREEN = Target(scheme="screen", name="")
WINDOW = Target(scheme="window", name="Editor")
QUOTED = 'shows "Done"'


class Reader:
    name = "played"

    async def read(self, png):
        return ""


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for variable in (*KEYS, "TASKMEM_GEMINI_CALLS_PER_DAY"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(params=[True, False], ids=["with a reader", "without"])
def reader(request, monkeypatch):
    found = Reader() if request.param else None
    monkeypatch.setattr(screen_text_hooks, "_reader", lambda: found)
    return found


def test_text_that_is_quoted_is_read(reader):
    if reader is None:
        with pytest.raises(ConditionUnclear, match="install tesseract-ocr"):
            wait_judge(SCREEN, QUOTED)
        return
    for target in (SCREEN, WINDOW):
        judge = wait_judge(target, QUOTED)
        assert isinstance(judge, Judge)
        assert judge.name == "screen-text:played"


def test_a_title_takes_no_reader(reader):
    judge = wait_judge(WINDOW, 'the title contains "Done"')
    assert judge is not None


def test_what_names_no_text_is_refused_with_what_would_help(reader):
    with pytest.raises(ConditionUnclear) as refused:
        wait_judge(SCREEN, "the chart looks good")
    assert str(refused.value) == (
        'Its text could be read, if you quote it: shows "Download complete".'
    )


def test_where_gemini_looks_at_pictures_only_titles_are_read(reader, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")
    assert wait_judge(SCREEN, QUOTED) is None
    assert wait_judge(WINDOW, QUOTED).name == "screen-text:title"


def test_where_gemini_is_never_asked_text_is_read_as_without_a_key(reader, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")
    monkeypatch.setenv("TASKMEM_GEMINI_CALLS_PER_DAY", "0")
    for target in (SCREEN, WINDOW):
        if reader is None:
            with pytest.raises(ConditionUnclear, match="install tesseract-ocr"):
                wait_judge(target, QUOTED)
        else:
            assert wait_judge(target, QUOTED).name == "screen-text:played"


def test_terminals_are_left_to_others(reader):
    assert wait_judge(Target(scheme="pty", name="build"), QUOTED) is None
