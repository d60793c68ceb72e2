"""How often the judge of text is right on conditions as agents word them."""

from tests.plugins.terminal.replay import score


def test_most_conditions_are_settled_and_hardly_any_falsely():
    total = score("tuning")
    wrong = "\n".join(total.entries.get("falsely", []))
    assert total.share("falsely") <= 0.01, f"{total}\n{wrong}"
    assert total.share("right") >= 0.75, total
