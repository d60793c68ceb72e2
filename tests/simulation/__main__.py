"""Run the simulation by hand: `python -m tests.simulation --seed N --operations M`."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.simulation import invariants
from tests.simulation.search import LENGTH, play_seeds, shorten

REPORT_SECONDS = 10.0


def main() -> int:
    """Play histories, and print the first that breaks an invariant."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first history's; 1")
    parser.add_argument("--operations", type=int, default=LENGTH, help=f"in all; {LENGTH}")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of texts follows from it.
        os.execve(  # noqa: S606 - itself
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    done = commits = deaths = 0
    simulated, began, said = 0.0, time.process_time(), time.process_time()
    for seed, outcome in play_seeds(given.seed, given.operations, invariants.ALL):
        done, commits = done + len(outcome.lines), commits + outcome.commits
        simulated, deaths = simulated + outcome.seconds, deaths + outcome.deaths
        if outcome.broken is not None:
            print(f"Seed {seed} breaks {outcome.broken.rule}; it is shortened.", flush=True)
            print(shorten(seed, outcome, invariants.ALL))
            return 1
        now = time.process_time()
        if now - said > REPORT_SECONDS or done >= given.operations:
            said = now
            print(
                f"{done:,} operations to seed {seed}, {done / (now - began):,.0f} a second of CPU; "
                f"{commits:,} commits, {deaths:,} crashes, {simulated / 86_400:,.1f} days",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
