"""Compute the cost of a call from known prices."""

from __future__ import annotations

import re
from datetime import date
from typing import Final, NamedTuple

_MILLION: Final = 1_000_000


class _Price(NamedTuple):
    """Dollars for a million tokens; thoughts cost the same as output."""

    until: date
    """Last day of this price."""
    tokens_in: float
    tokens_out: float


# Prices as of 2026-10-07, with the one that is announced for 2027.
# Source: https://ai.google.dev/gemini-api/docs/pricing
_PRICES: Final = {
    "gemini-3.5-flash-lite": (_Price(date.max, 0.30, 2.50),),
    "gemini-3.8-flash": (_Price(date(2026, 12, 31), 0.75, 3.75), _Price(date.max, 1.50, 7.50)),
}
# A version number or date after the name does not change the price; a word such as "lite" or
# "image" means another model.
_VERSION: Final = re.compile(r"(?:-\d+)*")


def compute_cost_dollars(model: str, day: date, *, tokens_in: int, tokens_out: int) -> float | None:
    """Return the cost of tokens on a day; None: the model's price is unknown."""
    name = model.removeprefix("models/")
    for known, prices in _PRICES.items():
        if name.startswith(known) and _VERSION.fullmatch(name, len(known)):
            price = next(each for each in prices if day <= each.until)
            paid = tokens_in * price.tokens_in + tokens_out * price.tokens_out
            return paid / _MILLION
    return None
