"""Run the simulation by hand: `python -m tests.simulation --seed N --operations M`."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice

from tests.simulation import invariants
from tests.simulation.database import STORES
from tests.simulation.drawing import LENGTH, draw_operations
from tests.simulation.history import Outcome, play_history
from tests.simulation.search import list_histories, shorten

REPORT_SECONDS = 10.0


def main() -> int:
    """Play histories, and print the first that breaks an invariant."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first history's; 1")
    parser.add_argument("--operations", type=int, help=f"in all; {LENGTH}, or any number")
    parser.add_argument("--seconds", type=float, default=math.inf, help="time for all; no limit")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 1")
    parser.add_argument("--store", choices=STORES, default="sqlite", help="sqlite, or memory")
    given = parser.parse_args()
    if given.operations is None:
        given.operations = LENGTH if math.isinf(given.seconds) else sys.maxsize
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of texts follows from it.
        os.execve(  # noqa: S606 - itself
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    began, said, tally = time.monotonic(), 0.0, Tally()
    for seed, outcome, seconds in play(given.seed, given.operations, given.jobs, given.store):
        tally.add(seed, outcome, seconds)
        if outcome.broken is not None:
            print(f"Seed {seed} breaks {outcome.broken.rule}; it is shortened.", flush=True)
            print(shorten(seed, outcome, invariants.ALL, store=given.store))
            return 1
        passed = time.monotonic() - began
        if passed > given.seconds:
            break
        if passed - said > REPORT_SECONDS:
            said = passed
            print(tally, flush=True)
    print(tally)
    return 0


@dataclass
class Tally:
    """What was played so far."""

    seed: int = 0
    operations: int = 0
    commits: int = 0
    deaths: int = 0
    simulated: float = 0.0
    spent: float = 0.0

    def add(self, seed: int, outcome: Outcome, spent: float) -> None:
        """Count one more history."""
        self.seed = seed
        self.operations += outcome.operations
        self.commits += outcome.commits
        self.deaths += outcome.deaths
        self.simulated += outcome.seconds
        self.spent += spent

    def __str__(self) -> str:
        """Return what a person reads meanwhile."""
        rate, days = self.operations / max(self.spent, 0.001), self.simulated / 86_400
        return (
            f"{self.operations:,} operations to seed {self.seed}, {rate:,.0f} a second of CPU; "
            f"{self.commits:,} commits, {self.deaths:,} crashes, {days:,.1f} days"
        )


def play(
    first: int, operations: int, jobs: int, store: str
) -> Iterator[tuple[int, Outcome, float]]:
    """Play histories in order of their seeds; yield also the CPU time that each took."""
    histories = ((*each, store) for each in list_histories(first, operations))
    if jobs == 1:
        yield from map(play_one, histories)
        return
    with ProcessPoolExecutor(jobs) as pool:
        while some := list(islice(histories, jobs * 4)):
            yield from pool.map(play_one, some)


def play_one(history: tuple[int, int, str]) -> tuple[int, Outcome, float]:
    """Play one history, in whichever process."""
    seed, count, store = history
    began = time.process_time()
    outcome = play_history(seed, draw_operations(seed, count), invariants.ALL, store)
    return seed, outcome, time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
