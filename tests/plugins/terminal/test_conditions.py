"""How often the judge of text is right on conditions as agents word them."""

import pytest

from tests.plugins.terminal.replay import score


@pytest.mark.parametrize("name", ["tuning", "practice"])
def test_most_conditions_are_settled_and_hardly_any_falsely(name):
    total = score(name)
    wrong = "\n".join(total.entries.get("falsely", []))
    assert total.share("falsely") <= 0.01, f"{total}\n{wrong}"
    assert total.share("right") >= 0.75, total
