"""What a reader was asked, and what it cost, as a person reads it."""

from __future__ import annotations

from typing import Any, Final

_THOUSAND: Final = 1000
_FEW: Final = 100
"""Tokens below this are shown as they are."""
_CENT_TENTH: Final = 0.001


def describe_reader(row: Any) -> str:  # noqa: ANN401 - JSON
    """Write a row of `readers` in `taskmem status --json` on one line."""
    state = row["state"]
    if state == "off":
        return f"{row['name']}: {row['detail']}"
    asked, limit = row["asked"], row["limit"]
    count = f"{asked}" if limit is None else f"{asked} of {limit}"
    one = asked == 1 and limit in (None, 1)
    model = f" ({row['model']})" if row["model"] else ""
    said = (
        f"{row['name']}{model}: {count} question{'' if one else 's'} today, "
        f"{_amount(row['tokens_in'])} tokens in, {_amount(row['tokens_out'])} out, "
        f"{_cost(row['cost_usd'])}"
    )
    return said if state == "ready" else f"{said}; {state}: {row['detail']}"


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
