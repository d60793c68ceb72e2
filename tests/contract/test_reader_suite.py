"""The suite for readers, tried on the scripted one and on ones that break a rule."""

from __future__ import annotations

import pytest

from taskmem_hookspecs import ReaderRefused, ReaderUnavailable
from taskmem_hookspecs.testing import ReaderSuite, ScriptedReader


class TestScriptedReader(ReaderSuite):
    def make_reader(self, tmp_path):
        return ScriptedReader()

    def make_failing(self, tmp_path):
        return ScriptedReader(lambda _: ReaderUnavailable("It is away."))

    def make_refusing(self, tmp_path):
        return ScriptedReader(lambda _: ReaderRefused("The key is wrong."))


@pytest.mark.parametrize(
    ("rule", "made"),
    [
        ("test_it_has_a_name_that_a_setting_can_hold", ScriptedReader(name="None!")),
        ("test_it_has_a_name_that_a_setting_can_hold", ScriptedReader(name="none")),
        ("test_its_limit_is_a_number_or_none", ScriptedReader(calls_per_day=-1)),
        ("test_a_question_that_confirms_is_answered_too", ScriptedReader(lambda _: " ")),
    ],
)
def test_who_breaks_a_rule_fails_it(tmp_path, rule, made):
    suite = type("Suite", (ReaderSuite,), {"make_reader": lambda *_: made})()
    with pytest.raises(AssertionError):
        getattr(suite, rule)(tmp_path)
