from __future__ import annotations

from datetime import date

import pytest

from taskmem_vision.gemini import compute_cost_dollars

DAY = date(2026, 11, 22)
MILLION = 1_000_000


def cost(model, day=DAY, tokens_in=MILLION, tokens_out=MILLION):
    return compute_cost_dollars(model, day, tokens_in=tokens_in, tokens_out=tokens_out)


@pytest.mark.parametrize(
    ("model", "tokens_in", "tokens_out"),
    [("gemini-3.5-flash-lite", 0.30, 2.50), ("gemini-3.8-flash", 0.75, 3.75)],
)
def test_input_and_output_tokens_are_priced_separately(model, tokens_in, tokens_out):
    assert cost(model, tokens_out=0) == pytest.approx(tokens_in)
    assert cost(model, tokens_in=0) == pytest.approx(tokens_out)
    assert cost(model) == pytest.approx(tokens_in + tokens_out)


@pytest.mark.parametrize(("day", "dollars"), [(date(2026, 12, 31), 4.5), (date(2027, 1, 1), 9.0)])
def test_a_price_changes_on_its_day(day, dollars):
    assert cost("gemini-3.8-flash", day) == pytest.approx(dollars)


@pytest.mark.parametrize("model", ["models/gemini-3.8-flash", "gemini-3.8-flash-9-8"])
def test_a_version_of_a_model_costs_what_the_model_does(model):
    assert cost(model) == cost("gemini-3.8-flash")


@pytest.mark.parametrize(
    "model", ["gemini-3.8-flash-lite", "gemini-3.8-flash-", "gemini-3.8", "my-gemini-3.8-flash"]
)
def test_a_price_that_is_not_known_is_not_guessed(model):
    assert cost(model) is None
    assert cost(model, tokens_in=0, tokens_out=0) is None
