"""What Gemini's makers charge for tokens, where it is known."""

from __future__ import annotations

import re
from datetime import date
from typing import Final, NamedTuple

_MILLION: Final = 1_000_000


class _Price(NamedTuple):
    """Dollars for a million tokens; thoughts are charged like what is written."""

    until: date
    """The last day on which it holds."""
    tokens_in: float
    tokens_out: float


# Source: the price page of the Gemini API, ai.google.dev/gemini-api/docs/pricing, as of
# 2026-10-07, with the price that it announces for 2027.
_PRICES: Final = {
    "gemini-3.5-flash-lite": (_Price(date.max, 0.30, 2.50),),
    "gemini-3.8-flash": (_Price(date(2026, 12, 31), 0.75, 3.75), _Price(date.max, 1.50, 7.50)),
}
# Behind a name, the number or the date of a version costs nothing; a word such as
# "lite" or "image" makes it another model.
_VERSION: Final = re.compile(r"(?:-\d+)*")


def compute_cost_dollars(model: str, day: date, *, tokens_in: int, tokens_out: int) -> float | None:
    """Return what tokens cost on a day; None: the model's price is not known."""
    name = model.removeprefix("models/")
    for known, prices in _PRICES.items():
        if name.startswith(known) and _VERSION.fullmatch(name, len(known)):
            price = next(each for each in prices if day <= each.until)
            paid = tokens_in * price.tokens_in + tokens_out * price.tokens_out
            return paid / _MILLION
    return None
