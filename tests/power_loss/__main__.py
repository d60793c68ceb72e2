"""Kill, cut the power and fail at every write: `python -m tests.power_loss --tasks N --cuts M`."""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from tests.power_loss import faulted_starts
from tests.power_loss.faults import FAULTS, FaultedCalls
from tests.power_loss.recovery import Recording
from tests.power_loss.scenario import RecordedDaemon, record_script
from tests.support.daemons import short_home


def main() -> int:
    """Record the script, check every kill and many cuts, and print how many there were."""
    parser = argparse.ArgumentParser(prog="python -m tests.power_loss", description=__doc__)
    parser.add_argument("--tasks", type=int, default=3, help="in the script; 3")
    parser.add_argument("--cuts", type=int, default=4, help="power cuts after each write; 4")
    parser.add_argument("--seed", type=int, default=1, help="of what a cut takes; 1")
    given = parser.parse_args()
    recording = Recording(*record_script(given.tasks))
    report(f"{len(recording.operations):,} operations, {len(recording.answers):,} answers")
    report(f"{recording.check_kills():,} kills; all of it is there")
    choose = Random(given.seed)  # noqa: S311 - no secret
    report(f"{recording.check_cuts(choose, times=given.cuts):,} power cuts; all of it is there")
    failed = fail_calls()
    report(f"{failed:,} calls during which an operation failed; all that was answered is there")
    starts = faulted_starts.fail_starts(every=1)
    report(f"{starts.total():,} starts during which an operation failed; each next one serves")
    return 0


def fail_calls() -> int:
    """Let each operation of a daemon at work fail; return how many did."""
    with short_home() as home:
        daemon = RecordedDaemon(home)
        with daemon.serve():
            calls = FaultedCalls(daemon)
            calls.run(FAULTS)
            daemon.process.kill()
        calls.check_all()
    return calls.failed


def report(line: str) -> None:
    """Print a line, with the CPU time that was spent so far."""
    print(f"{line} ({time.process_time():.0f} s)", flush=True)  # noqa: T201 - run by hand


if __name__ == "__main__":
    sys.exit(main())
