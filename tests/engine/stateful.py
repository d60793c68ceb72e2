"""Playing a state machine on every kind of store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from taskmem_hookspecs import TaskStore
from tests.support.long_tests import choose_count

EXAMPLES: Final = {
    "memory": (choose_count("TASKMEM_GAMES", 60, 600), 40),
    "sqlite": (choose_count("TASKMEM_GAMES_ON_SQL", 3, 60), 30),
    "postgresql": (choose_count("TASKMEM_GAMES_ON_SQL", 2, 30), 30),
}
"""How many games are played on each kind of store, and the steps of each: few where
each step costs much, for the rules are the same."""

stores = pytest.mark.parametrize("new_store", EXAMPLES, indirect=True)
patience = pytest.mark.timeout(900)
"""More than the five minutes in which a game that breaks a rule is shortened, to be told."""


class NewStore:
    """Gives an empty store for each game."""

    def __init__(self, kind: str, make: Callable[[], TaskStore]) -> None:
        self.kind = kind
        self._make = make

    def __call__(self) -> TaskStore:
        return self._make()


def play(machine: Callable[[NewStore], RuleBasedStateMachine], new_store: NewStore) -> None:
    """Let chance play, and fail with the shortest game that breaks a rule."""
    games, steps = EXAMPLES[new_store.kind]
    run_state_machine_as_test(
        lambda: machine(new_store),
        settings=settings(max_examples=games, stateful_step_count=steps, deadline=None),
    )
