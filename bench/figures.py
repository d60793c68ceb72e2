"""What a benchmark answers: figures, and the table that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import nan
from statistics import median

TENTHS = 10
"""Slices of a run that a ratio is also taken of, to show how far it swings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of the table."""

    what: str
    median: float
    worst: float
    worst_is: str
    """How the worst was found: `p99`, `max` …"""
    unit: str
    limit: float | None = None
    """What the median may be at most; None: shown for comparison."""
    samples: int

    @property
    def is_met(self) -> bool:
        """Whether the median is within the limit."""
        return self.limit is None or self.median <= self.limit


def millis(what: str, seconds: Sequence[float], limit: float | None = None) -> Figure:
    """Return a figure of durations, in milliseconds."""
    many = len(seconds) >= 100
    return Figure(
        what=what,
        median=1000 * median(seconds),
        worst=1000 * (percentile(seconds, 0.99) if many else max(seconds)),
        worst_is="p99" if many else "max",
        unit="ms",
        limit=limit,
        samples=len(seconds),
    )


def amount(
    what: str,
    values: Sequence[float],
    unit: str,
    limit: float | None = None,
    middle: Callable[[Sequence[float]], float] = median,
) -> Figure:
    """Return a figure of which less is better."""
    return Figure(
        what=what,
        median=middle(values) if values else nan,
        worst=max(values, default=nan),
        worst_is="max",
        unit=unit,
        limit=limit,
        samples=len(values),
    )


def count_of(what: str, count: int, samples: int, limit: float | None = 0) -> Figure:
    """Return a figure of what must not happen, or may so often at most."""
    return replace(amount(what, [count], "", limit), samples=samples)


def rate(what: str, values: Sequence[float], unit: str) -> Figure:
    """Return a figure of which more is better."""
    return Figure(
        what=what,
        median=median(values),
        worst=min(values),
        worst_is="min",
        unit=unit,
        samples=len(values),
    )


def ratio(
    what: str, ours: Sequence[float], theirs: Sequence[float], limit: float | None = None
) -> Figure:
    """Return the ratio of two medians whose samples were taken in turns.

    The worst is that of the worst tenth of the run.
    """
    size = len(ours) // TENTHS
    slices = [slice(i * size, (i + 1) * size) for i in range(TENTHS)]
    return Figure(
        what=what,
        median=median(ours) / median(theirs),
        worst=max(median(ours[part]) / median(theirs[part]) for part in slices),
        worst_is="worst tenth",
        unit="x",
        limit=limit,
        samples=len(ours),
    )


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value that a share of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def sample_in_turns(count: int, **ways: Callable[[int], float]) -> dict[str, list[float]]:
    """Sample several ways one after the other, again and again, each going first."""
    samples: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(count):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            samples[name].append(ways[name](number))
    return samples


def format_header() -> str:
    """Return the head of the table."""
    return (
        "| what | median | worst | at most | | samples |\n| --- | ---: | ---: | ---: | --- | ---: |"
    )


def format_row(figure: Figure) -> str:
    """Return one figure as a row of the table."""
    unit = "x" if figure.unit == "x" else f" {figure.unit}"
    limit = "" if figure.limit is None else f"{figure.limit:g}{unit}"
    met = "" if figure.limit is None else "met" if figure.is_met else "**missed**"
    return (
        f"| {figure.what} | {_format_short(figure.median)}{unit} "
        f"| {_format_short(figure.worst)}{unit} ({figure.worst_is}) "
        f"| {limit} | {met} | {figure.samples:,} |"
    )


def _format_short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"
