"""Look for a history that breaks an invariant, and make it short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.simulation.drawing import LENGTH, Operation, draw_operations
from tests.simulation.history import Outcome, play_history
from tests.simulation.rules import Rules


class Failure(NamedTuple):
    """A history that breaks an invariant, in full and made short."""

    seed: int
    whole: Outcome
    operations: tuple[Operation, ...]
    """The fewest operations found that break the same invariant."""
    short: Outcome
    store: str

    def __str__(self) -> str:
        """Return what a person needs to repeat it."""
        assert self.short.broken is not None
        lines = (f"  {number}. {line}" for number, line in enumerate(self.short.lines, 1))
        return "\n".join(
            (
                f"{self.short.broken.rule} is broken: {self.short.broken.why}",
                f"after these operations, shortened from {self.whole.operations}:",
                *lines,
                f"Repeat it: python -m tests.simulation --store {self.store} --seed {self.seed}",
            )
        )


def list_histories(first: int, operations: int, length: int = LENGTH) -> Iterator[tuple[int, int]]:
    """Yield seeds, from the first on, and how many operations each has, until there are enough."""
    for number, done in enumerate(range(0, operations, length)):
        yield first + number, min(length, operations - done)


def play_seeds(
    first: int, operations: int, rules: Rules, length: int = LENGTH, store: str = "sqlite"
) -> Iterator[tuple[int, Outcome]]:
    """Play one history after another, until that many operations are done."""
    for seed, count in list_histories(first, operations, length):
        yield seed, play_history(seed, draw_operations(seed, count), rules, store)


def shorten(
    seed: int, whole: Outcome, rules: Rules, length: int = LENGTH, store: str = "sqlite"
) -> Failure:
    """Leave out operations for as long as the same invariant stays broken.

    Each operation has a seed of its own, so those that are left do what they did.
    """
    assert whole.broken is not None
    kept: list[Operation] = draw_operations(seed, length)[: whole.operations]
    short, size = whole, max(1, len(kept) // 2)
    while True:
        start = len(kept) - size
        smaller = False
        while start > -size:
            tried = kept[: max(start, 0)] + kept[max(start, 0) + size :]
            outcome = play_history(seed, tried, rules, store)
            if _is_same(outcome, whole):
                kept, short, smaller = tried[: outcome.operations], outcome, True
            start -= size
        if size == 1 and not smaller:
            return Failure(seed, whole, tuple(kept), short, store)
        size = max(1, size // 2)


def _is_same(outcome: Outcome, whole: Outcome) -> bool:
    broken, wanted = outcome.broken, whole.broken
    return broken is not None and wanted is not None and broken.rule == wanted.rule
