"""What a model was asked, and what it cost, as a person reads it."""

from __future__ import annotations

from typing import Any, Final

_THOUSAND: Final = 1000
_FEW: Final = 100
"""Tokens below this are shown as they are."""
_CENT_TENTH: Final = 0.001


def sentence(row: Any, today: str) -> str:  # noqa: ANN401 - JSON
    """Return a row of `models` in `taskmem status --json` on one line.

    Args:
        row: A `ModelUsage`, as JSON.
        today: The day in UTC, as `2026-02-16`.
    """
    calls, allowed = row["calls"], row["calls_allowed"]
    asked = f"{calls}" if allowed is None else f"{calls} of {allowed}"
    one = calls == 1 and allowed in (None, 1)
    when = "today" if row["day"] == today else f"on {row['day']} (UTC)"
    return (
        f"{row['model']}: {asked} question{'' if one else 's'} {when}, "
        f"{_amount(row['tokens_in'])} tokens in, {_amount(row['tokens_out'])} out, "
        f"{_cost(row['cost_dollars'])}"
    )


def _amount(tokens: int) -> str:
    if tokens < _FEW:
        return str(tokens)
    thousands = round(tokens / _THOUSAND, 1)
    if thousands < _THOUSAND:
        return f"{thousands:.1f} k"
    return f"{thousands / _THOUSAND:.1f} M"


def _cost(dollars: float | None) -> str:
    if dollars is None:
        return "cost unknown"
    if dollars == 0:
        return "no cost yet"
    if dollars < _CENT_TENTH:
        return f"less than ${_CENT_TENTH}"
    return f"about ${dollars:.3f}" if dollars < 1 else f"about ${dollars:.2f}"
