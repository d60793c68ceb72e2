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
from tests.simulation.history import play_history
from tests.simulation.machine import Machine
from tests.simulation.mirror import Commit
from tests.simulation.operations import draw_operations
from tests.simulation.rules import Rules
from tests.simulation.rules_of_service import ANSWER_RULES, PLAY_RULES, REST_RULES
from tests.simulation.search import play_seeds, replay, shorten

ROOT = Path(__file__).parents[2]
OPERATIONS = 120
pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("seed", [1, 1_001])
def test_the_daemon_keeps_every_invariant(seed: int) -> None:
    words = ("-m", "tests.simulation", "--seed", str(seed), "--operations", str(OPERATIONS))
    environ = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, *words], check=False, capture_output=True, cwd=ROOT, env=environ, text=True
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert f"{OPERATIONS:,} operations" in done.stdout


def test_a_seed_is_the_same_history_each_time() -> None:
    operations = draw_operations(7, 40)
    assert play_history(7, operations, invariants.ALL) == play_history(
        7, operations, invariants.ALL
    )


def test_every_invariant_has_a_name_and_a_sentence() -> None:
    rules = (*invariants.COMMIT_RULES, *ANSWER_RULES, *PLAY_RULES, *REST_RULES)
    assert len({rule.__name__ for rule in rules}) == len(rules) >= 40
    assert all((rule.__doc__ or "").partition("\n")[0].endswith(".") for rule in rules)


def no_task_is_ever_paused(_: Machine, commit: Commit) -> Iterator[str]:
    """A rule that the daemon does not keep."""
    for task in commit.change.tasks:
        if task.status is TaskStatus.PAUSED:
            yield f"{task.name} is paused"


def test_what_breaks_a_rule_is_found_and_shortened() -> None:
    rules = Rules((no_task_is_ever_paused,))
    found = ((seed, one) for seed, one in play_seeds(1, 2_000, rules, 100) if one.broken)
    seed, whole = next(found)
    failure = shorten(seed, whole, rules, 100)
    assert replay(seed, failure.operations, rules) == failure.short
    assert failure.short.broken == replay(seed, failure.operations, rules).broken
    assert 2 <= len(failure.operations) <= 4
    assert failure.operations[0].kind == "register"
    assert "no_task_is_ever_paused is broken" in str(failure)
    assert f"--seed {seed}" in str(failure)
