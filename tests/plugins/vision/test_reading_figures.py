"""The figures for free English with a reader."""

from __future__ import annotations

import pytest

from tests.plugins.vision.read_aloud import play


@pytest.mark.timeout(120)
def test_a_reader_that_is_right_in_95_percent_reaches_the_goals():
    played = play()
    assert played.share("right") >= 0.8, str(played)
    assert played.share("falsely") <= 0.005, str(played)
    assert played.mean_questions <= 2.5, str(played)
