"""Parse durations as models write them. Source: docs/tools.md, "How arguments are read"."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

_SECONDS: Final = {"ms": 0.001, "s": 1, "min": 60, "h": 3_600, "d": 86_400}
_UNITS: Final = {
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
_SMALLER_UNITS: Final = {"d": "h", "h": "min"}
_PERIOD: Final = re.compile(r"p([0-9]+d)?(?:t|\Z)")
"""The beginning of a duration of ISO 8601, in which P1M is a month."""
_PART: Final = re.compile(r"([0-9]+(?:,[0-9]+)*)((?:\.[0-9]+)?)\s*([a-z]*)[\s,]*(?:and\s+)?")
_THOUSANDS: Final = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+")
"""A number with commas that has one meaning, as in conditions."""


class TwoMeanings(Exception):
    """A duration has two meanings; `str()` says both."""


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration: `300`, `1,800`, `5m`, `1 h 30 min`, `PT5M`; None: none.

    Raises:
        TwoMeanings: A part behind another has no unit, there are several durations, or a comma
            stands for a point.
    """
    bare = text.lower()
    if period := _PERIOD.match(bare):
        bare = (period[1] or "") + bare[period.end() :]
    parts = _PART.findall(bare)
    if not parts or _PART.sub("", bare) or any(unit not in _UNITS for *_, unit in parts):
        return None
    units = [_UNITS[unit] for *_, unit in parts]
    sizes = [
        float(whole.replace(",", "") + fraction) * _SECONDS[unit]
        for (whole, fraction, _), unit in zip(parts, units, strict=True)
    ]
    total = sum(sizes, 0.0)
    seconds = int(total) if total.is_integer() else total
    for whole, *_ in parts:
        if "," in whole and not _THOUSANDS.fullmatch(whole):
            raise TwoMeanings(f"{whole.replace(',', '.', 1)} or {whole.replace(',', ' and ')}")
    falls = all(_SECONDS[large] > _SECONDS[small] for large, small in pairwise(units))
    is_whole = len(parts) == 1 or all(unit for *_, unit in parts)
    if falls and is_whole:
        return seconds
    last, smaller = parts[-1], _SMALLER_UNITS.get(units[-2])
    if falls and smaller is not None and not last[2]:
        raise TwoMeanings(f"{text.strip()} s or {text.strip()} {smaller}")
    raise TwoMeanings(f"one time of {seconds:,} s, or {len(parts)} times")
