from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

import taskmem_vision.hooks
from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.plugin_host import plugin_host
from taskmem_hookspecs import Judge, Reader, Sensor, Target, hookimpl
from taskmem_hookspecs.testing import ScriptedReader
from taskmem_vision.picture_judge import PictureJudge
from tests.plugins.vision.frames import frame

PTY = Target(scheme="pty", name="build")
SCREEN = Target(scheme="screen", name="")
FREE = "the report looks complete"
NO = {
    "observation": "Nothing yet.",
    "met": "no",
    "confidence": 0.9,
    "expect_text": None,
    "look_again_seconds": None,
}


def judge_of(words, target=PTY, reader=None):
    reader = ScriptedReader(lambda _: NO) if reader is None else reader
    return taskmem_vision.hooks.wait_judge(target, parse_condition(words), reader)


def test_gemini_is_provided_as_a_reader():
    reader = taskmem_vision.hooks.reader()
    assert isinstance(reader, Reader)
    assert reader.name == "gemini"


def test_free_english_on_a_terminal_is_read():
    judge = judge_of(FREE)
    assert isinstance(judge, Judge)
    assert (judge.name, judge.sides) == ("scripted", (0,))


@pytest.mark.parametrize("scheme", ["window", "screen"])
def test_free_english_on_what_is_seen_is_judged_by_pictures(scheme):
    judge = judge_of(FREE, Target(scheme=scheme, name="x"))
    assert isinstance(judge, PictureJudge)
    assert (judge.name, judge.sides) == ("scripted", (0,))


def test_waits_on_pictures_share_their_questions_to_one_reader():
    reader, other = ScriptedReader(), ScriptedReader()
    one, two, three = (judge_of(FREE, SCREEN, each) for each in (reader, reader, other))
    assert one._asker is two._asker is not three._asker


async def test_reader_is_asked_only_the_free_side_but_sees_the_whole():
    reader = ScriptedReader(lambda _: NO)
    judge = judge_of(f'"DONE" appears or {FREE}', reader=reader)
    assert judge.sides == (1,)
    await judge.rule(frame(0, "work"))
    (question,) = reader.asked
    assert f'"DONE" appears or {FREE}' in question.parts[0]
    assert f"Judge only this part of it: “{FREE}”" in question.parts[0]


@pytest.mark.parametrize(
    ("words", "target", "reader"),
    [
        ('"DONE" appears', PTY, ScriptedReader()),
        (FREE, SCREEN, ScriptedReader(sees_pictures=False)),
        (FREE, Target(scheme="mail", name=""), ScriptedReader()),
    ],
)
def test_judge_declines_what_needs_no_reader_or_is_unreadable(words, target, reader):
    assert judge_of(words, target, reader) is None


def test_without_a_reader_there_is_no_judge():
    assert taskmem_vision.hooks.wait_judge(PTY, parse_condition(FREE), None) is None


def test_other_targets_are_left_to_others():
    assert taskmem_vision.hooks.wait_sensor(Target(scheme="mail", name="")) is None


@pytest.mark.parametrize("scheme", ["window", "screen"])
def test_what_can_be_seen_is_watched(scheme):
    sensor = taskmem_vision.hooks.wait_sensor(Target(scheme=scheme, name="x"))
    assert isinstance(sensor, Sensor)


# --- order and weight ---------------------------------------------------------


def asked_in_order(entries):
    loaded, plugins = plugin_host.load_plugins(entries, ())
    assert [plugin.state for plugin in plugins] == ["on"] * len(plugins)
    return [impl.plugin_name for impl in reversed(loaded.hook.wait_judge.get_hookimpls())]


def test_the_rules_of_the_terminal_are_asked_first():
    ours = [e for e in plugin_host.find_entry_points() if e.name in ("terminal", "vision")]
    assert asked_in_order(ours) == ["terminal", "vision"]


def test_an_ordinary_plugin_is_asked_before_both(monkeypatch):
    other = ModuleType("zz_other")
    other.wait_judge = hookimpl(lambda target: None)
    monkeypatch.setitem(sys.modules, "zz_other", other)
    ours = [e for e in plugin_host.find_entry_points() if e.name in ("terminal", "vision")]
    theirs = EntryPoint("zz", "zz_other", "openclaw_taskmem")
    assert asked_in_order([*ours, theirs]) == ["zz", "terminal", "vision"]


LIGHT = """
import json, sys
import taskmem_vision.hooks
others = set(sys.modules) - {"taskmem_vision.hooks"}
after_import = [name for name in others if name.startswith("taskmem_vision.")]
from taskmem_hookspecs import Condition, Side, Target
from taskmem_hookspecs.testing import ScriptedReader
told = taskmem_vision.hooks.reader().status()
free = Condition(sentence="so it is", sides=(Side(words="so it is"),))
pty = Target(scheme="pty", name="a")
assert taskmem_vision.hooks.wait_judge(pty, free, ScriptedReader()) is not None
heavy = ("google.", "httpx", "PIL", "numpy", "requests")
print(json.dumps([after_import, [n for n in sys.modules if n.startswith(heavy)]]))
"""


def test_neither_the_plugin_nor_a_judge_imports_the_sdk():
    environ = {**os.environ, "GEMINI_API_KEY": "a-key"}
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], env=environ, capture_output=True, check=True
    )
    assert json.loads(done.stdout) == [[], []]
