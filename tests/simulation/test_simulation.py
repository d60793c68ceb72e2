"""The simulation finds what breaks an invariant, repeats it, and makes it short."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskmem_hookspecs import TaskStatus
from tests.simulation import invariants
from tests.simulation.drawing import LENGTH, Operation, draw_operations
from tests.simulation.found import FOUND
from tests.simulation.history import play_history
from tests.simulation.machine import Machine
from tests.simulation.mirror import Commit
from tests.simulation.rules import Rules
from tests.simulation.rules_of_service import (
    ANSWER_RULES,
    DROP_RULES,
    PLAY_RULES,
    REST_RULES,
)
from tests.simulation.search import play_seeds, shorten
from tests.support.long_tests import choose_count

ROOT = Path(__file__).parents[2]
OPERATIONS = 120
SECONDS = choose_count("TASKMEM_SIMULATION_SECONDS", 0, 120)
"""For how long each store is simulated; 0: for a few operations."""
pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(("store", "seed"), [("sqlite", 1), ("memory", 1_001)])
def test_the_daemon_keeps_every_invariant(store: str, seed: int) -> None:
    most = ("--seconds", str(SECONDS)) if SECONDS else ("--operations", str(OPERATIONS))
    play_in_a_process("--store", store, "--seed", str(seed), *most)


@pytest.mark.parametrize("seed", FOUND)
def test_what_a_seed_found_stays_mended(seed: int) -> None:
    operations = [Operation(*each) for each in FOUND[seed]]
    assert play_history(seed, operations, invariants.ALL, "memory").broken is None


def play_in_a_process(*words: str) -> None:
    """Play histories as the command does: with a seed for hashes that is always the same."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *words],
        check=False,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert " operations to seed" in done.stdout


def test_a_seed_is_the_same_history_each_time() -> None:
    operations = draw_operations(3_002, LENGTH)
    first, again = (play_history(3_002, operations, invariants.ALL, "memory") for _ in range(2))
    assert first == again


def test_every_invariant_has_a_name_and_a_sentence() -> None:
    of_commits = {rule for group in invariants.COMMIT_RULES.values() for rule in group}
    rules = (*of_commits, *ANSWER_RULES, *PLAY_RULES, *REST_RULES, *DROP_RULES)
    assert len({rule.__name__ for rule in rules}) == len(rules) >= 55
    assert all((rule.__doc__ or "").partition("\n")[0].endswith(".") for rule in rules)


def no_task_is_ever_paused(_: Machine, commit: Commit) -> Iterator[str]:
    """A rule that the daemon does not keep."""
    for task in commit.change.tasks:
        if task.status is TaskStatus.PAUSED:
            yield f"{task.name} is paused"


def test_what_breaks_a_rule_is_found_and_shortened() -> None:
    rules = Rules({"tasks": (no_task_is_ever_paused,)})
    played = play_seeds(1, 2_000, rules, 100, "memory")
    seed, whole = next((seed, outcome) for seed, outcome in played if outcome.broken)
    failure = shorten(seed, whole, rules, 100, "memory")
    assert play_history(seed, failure.operations, rules, "memory") == failure.short
    assert 2 <= len(failure.operations) <= 4
    assert "register" in {operation.kind for operation in failure.operations}
    assert "no_task_is_ever_paused is broken" in str(failure)
    assert f"--store memory --seed {seed}" in str(failure)
