"""What only `./check --long` runs, and how often things are repeated without it."""

from __future__ import annotations

import os

import pytest

LENGTH = "TESTS_LENGTH"
"""The variable that says how long this run's repetitions are: `long`, or anything else."""


def choose_length(*, is_long: bool) -> None:
    """Let this run and its workers be a long one, or leave that to the environment."""
    if is_long:
        os.environ[LENGTH] = "long"


def choose_count(name: str, quick: int, long: int) -> int:
    """Return how often something is repeated: as the variable says, or by the run's length."""
    usual = long if os.environ.get(LENGTH) == "long" else quick
    return int(os.environ.get(name, usual))


def leave_out_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is marked `long`, unless `--long` or `-m` asks for it."""
    if config.getoption("--long") or "long" in config.getoption("markexpr"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
