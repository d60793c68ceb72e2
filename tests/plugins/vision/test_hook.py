from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

import taskmem_vision
from openclaw_taskmem.seams import manager
from taskmem_hookspecs import ConditionUnclear, Judge, Met, Sensor, Target, hookimpl
from taskmem_vision.gemini.keys import KEYS
from taskmem_vision.judges.picture_judge import PictureJudge
from tests.plugins.vision.fake_gemini import FakeGemini, shows
from tests.plugins.vision.frames import frame

PTY = Target(scheme="pty", name="build")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for variable in (*KEYS, "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    taskmem_vision._gemini.cache_clear()
    yield
    taskmem_vision._gemini.cache_clear()


@pytest.mark.parametrize("variable", KEYS)
def test_with_a_key_a_terminal_is_judged(monkeypatch, variable):
    monkeypatch.setenv(variable, "a-key")
    judge = taskmem_vision.wait_judge(PTY, "the build is done")
    assert isinstance(judge, Judge)


def test_all_waits_share_one_client(monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")
    one, two = (taskmem_vision.wait_judge(PTY, when) for when in ("one", "two"))
    assert one is not two
    assert one._gemini is two._gemini


def test_the_model_is_the_one_that_is_set(monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")
    monkeypatch.setenv("TASKMEM_GEMINI_MODEL", "gemini-9-flash")
    assert taskmem_vision.wait_judge(PTY, "done").name == "gemini:gemini-9-flash"


@pytest.mark.parametrize("key", [None, "", " "])
def test_without_a_key_it_says_what_would_help(monkeypatch, key):
    if key is not None:
        monkeypatch.setenv("GEMINI_API_KEY", key)
    with pytest.raises(ConditionUnclear) as caught:
        taskmem_vision.wait_judge(PTY, "done")
    assert str(caught.value) == (
        "A model could judge it: set GEMINI_API_KEY (or GOOGLE_API_KEY) and restart "
        "the daemon."
    )


@pytest.mark.parametrize("scheme", ["window", "screen"])
def test_with_a_key_what_is_seen_is_judged_by_pictures(monkeypatch, scheme):
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")
    judge = taskmem_vision.wait_judge(Target(scheme=scheme, name=""), "done")
    assert isinstance(judge, PictureJudge)


def test_other_targets_are_left_to_others():
    assert taskmem_vision.wait_judge(Target(scheme="mail", name=""), "done") is None
    assert taskmem_vision.wait_sensor(Target(scheme="mail", name="")) is None


@pytest.mark.parametrize("scheme", ["window", "screen"])
def test_what_can_be_seen_is_watched(scheme):
    sensor = taskmem_vision.wait_sensor(Target(scheme=scheme, name="x"))
    assert isinstance(sensor, Sensor)


@pytest.mark.parametrize("scheme", ["pty", "screen"])
def test_where_no_question_is_allowed_it_says_what_would_help(monkeypatch, scheme):
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")
    monkeypatch.setenv("TASKMEM_GEMINI_CALLS_PER_DAY", "0")
    with pytest.raises(ConditionUnclear) as caught:
        taskmem_vision.wait_judge(Target(scheme=scheme, name=""), "done")
    assert str(caught.value) == (
        "A model could judge it: set TASKMEM_GEMINI_CALLS_PER_DAY higher than 0 and "
        "restart the daemon."
    )


async def test_what_the_judge_asks_is_told_of_the_model_that_is_set(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("TASKMEM_HOME", str(tmp_path))
    monkeypatch.setenv("TASKMEM_GEMINI_CALLS_PER_DAY", "7")
    monkeypatch.setenv("TASKMEM_GEMINI_MODEL", "gemini-9-flash")
    assert list(taskmem_vision.model_usage()) == []
    with FakeGemini() as server:
        for variable, value in server.environ.items():
            monkeypatch.setenv(variable, value)
        judge = taskmem_vision.wait_judge(PTY, "the build is done")
        await judge.rule(frame(0, "work"))
    (row,) = taskmem_vision.model_usage()
    assert (row.model, row.calls, row.calls_allowed) == ("gemini-9-flash", 1, 7)


async def test_the_judge_asks_whom_the_environment_names(monkeypatch):
    with FakeGemini(shows("DONE")) as server:
        for variable, value in server.environ.items():
            monkeypatch.setenv(variable, value)
        judge = taskmem_vision.wait_judge(PTY, "the build is done")
        assert (await judge.rule(frame(0, "work"))).met is Met.NO
        assert (await judge.rule(frame(1, "DONE", exit_status=0))).met is Met.YES


# --- order and weight ---------------------------------------------------------


def asked_in_order(entries):
    loaded, plugins = manager.load(entries, ())
    assert [plugin.state for plugin in plugins] == ["on"] * len(plugins)
    return [
        impl.plugin_name for impl in reversed(loaded.hook.wait_judge.get_hookimpls())
    ]


def test_the_rules_of_the_terminal_are_asked_first():
    ours = [e for e in manager.found() if e.name in ("terminal", "vision")]
    assert asked_in_order(ours) == ["terminal", "vision"]


def test_an_ordinary_plugin_is_asked_before_both(monkeypatch):
    other = ModuleType("zz_other")
    other.wait_judge = hookimpl(lambda target: None)
    monkeypatch.setitem(sys.modules, "zz_other", other)
    ours = [e for e in manager.found() if e.name in ("terminal", "vision")]
    theirs = EntryPoint("zz", "zz_other", "openclaw_taskmem")
    assert asked_in_order([*ours, theirs]) == ["zz", "terminal", "vision"]


LIGHT = """
import json, sys
import taskmem_vision
after_import = [name for name in sys.modules if name.startswith("taskmem_vision.")]
from taskmem_hookspecs import Target
assert taskmem_vision.wait_judge(Target(scheme="pty", name="a"), "done") is not None
assert list(taskmem_vision.model_usage()) == []
heavy = ("google.", "httpx", "PIL", "numpy", "requests")
print(json.dumps([after_import, [n for n in sys.modules if n.startswith(heavy)]]))
"""


def test_neither_the_plugin_nor_a_judge_imports_the_sdk():
    environ = {**os.environ, "GEMINI_API_KEY": "a-key"}
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], env=environ, capture_output=True, check=True
    )
    assert json.loads(done.stdout) == [[], []]
