"""How often waits on recorded terminals are understood, and resolved rightly."""

import pytest

from tests.plugins.terminal.generated import score_generated
from tests.plugins.terminal.replay import entries, score, score_questions, situations
from tests.support.long_tests import choose_count

SITUATIONS = choose_count("TASKMEM_SITUATIONS", 6, 100)
"""Of a hundred generated ones, so many are judged."""


def test_generated_conditions_are_understood_and_judged_rightly():
    total = score_generated(seed=1, share=SITUATIONS / 100)
    wrong = total.list("falsely", "missed", "refused")
    assert total.verdicts.total() >= 40 * SITUATIONS
    assert total.share("refused") <= 0.005, wrong
    assert total.share("falsely") == 0, wrong
    assert total.share("right") >= 0.99, wrong


def test_waits_that_a_model_worded_are_judged_rightly():
    total = score(situations())
    wrong = total.list("falsely", "missed", "refused")
    assert total.verdicts.total() >= 100
    assert total.share("right") >= 0.95, wrong
    assert total.share("falsely") <= 0.01, wrong


@pytest.mark.parametrize("name", ["tuning", "held_out", "practice"])
def test_free_english_is_refused_or_judged_rightly(name):
    total = score(entries(name))
    wrong = total.list("falsely", "missed")
    assert total.verdicts["falsely"] <= 1, wrong
    assert total.verdicts["missed"] <= 1, wrong


def test_questions_of_real_programs_are_seen():
    total = score_questions(entries("questions"))
    wrong = total.list("falsely", "missed")
    assert total.verdicts.total() >= 350
    assert total.share("right") >= 0.975, wrong
    assert total.share("falsely") <= 0.005, wrong
