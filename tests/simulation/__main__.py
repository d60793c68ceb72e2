"""Run the simulation by hand: `python -m tests.simulation --seed N --operations M`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulation import invariants
from tests.simulation.history import Outcome, play_history
from tests.simulation.operations import draw_operations
from tests.simulation.search import LENGTH, list_histories, shorten

REPORT_SECONDS = 10.0


def main() -> int:
    """Play histories, and print the first that breaks an invariant."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first history's; 1")
    parser.add_argument("--operations", type=int, default=LENGTH, help=f"in all; {LENGTH}")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 1")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of texts follows from it.
        os.execve(  # noqa: S606 - itself
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    done = commits = deaths = 0
    simulated = spent = said = 0.0
    for seed, outcome, seconds in play(given.seed, given.operations, given.jobs):
        done, commits = done + outcome.operations, commits + outcome.commits
        simulated, deaths = simulated + outcome.seconds, deaths + outcome.deaths
        spent += seconds
        if outcome.broken is not None:
            print(f"Seed {seed} breaks {outcome.broken.rule}; it is shortened.", flush=True)
            print(shorten(seed, outcome, invariants.ALL))
            return 1
        if spent - said > REPORT_SECONDS * given.jobs or done >= given.operations:
            said = spent
            print(
                f"{done:,} operations to seed {seed}, {done / spent:,.0f} a second of CPU; "
                f"{commits:,} commits, {deaths:,} crashes, {simulated / 86_400:,.1f} days",
                flush=True,
            )
    return 0


def play(first: int, operations: int, jobs: int) -> Iterator[tuple[int, Outcome, float]]:
    """Play histories in order of their seeds; yield also the CPU time that each took."""
    histories = list_histories(first, operations)
    if jobs == 1:
        yield from map(play_one, histories)
        return
    with ProcessPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(play_one, histories)
        finally:
            pool.shutdown(cancel_futures=True)


def play_one(history: tuple[int, int]) -> tuple[int, Outcome, float]:
    """Play one history, in whichever process."""
    seed, count = history
    began = time.process_time()
    outcome = play_history(seed, draw_operations(seed, count), invariants.ALL)
    return seed, outcome, time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
