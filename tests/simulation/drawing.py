"""Draw the operations of a history from a deck, so that nearly each has every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from random import Random
from typing import Any, Final, NamedTuple

from tests.simulation import looks, operations


class Operation(NamedTuple):
    """One thing that happens, and the seed of all that is left to chance in it."""

    kind: str
    seed: int


KINDS: Final[Mapping[Callable[[Any, Random], str], int]] = {
    operations.register: 10,
    operations.update: 40,
    operations.revise: 6,
    operations.wait: 12,
    operations.refine_wait: 5,
    operations.cancel_wait: 5,
    operations.hand_around: 16,
    operations.step_ends: 8,
    operations.worker_ends: 3,
    operations.machine_reboots: 1,
    operations.ask_reader: 8,
    operations.reader_changes: 3,
    operations.evidence_changes: 4,
    operations.gateway_connects: 3,
    operations.turn_goes_on: 40,
    operations.target_shows: 16,
    operations.time_passes: 8,
    operations.something_is_due: 2,
    operations.agent_meets_what_is_due: 8,
    operations.long_time_passes: 1,
    operations.clock_jumps: 2,
    operations.gateway_changes: 6,
    operations.dies: 4,
    operations.store_fails: 3,
    looks.look: 16,
    looks.person_looks: 6,
    looks.gateway_asks: 14,
}
"""What happens, and how often in each `LENGTH` operations."""
BY_NAME: Final = {kind.__name__: kind for kind in KINDS}
LENGTH: Final = sum(KINDS.values())
"""Operations of one history. Short ones are fast, and explain themselves."""


BEGINNING: Final = ("gateway_connects", "register", "register")
"""With what a history begins: without a task, most calls are refused."""


def draw_operations(seed: int, count: int) -> list[Operation]:
    """Choose what happens in a history; fewer operations are the first of more."""
    choose = Random(seed)
    drawn = [Operation(name, choose.getrandbits(32)) for name in BEGINNING]
    while len(drawn) < count:
        deck = list(chain.from_iterable([name] * KINDS[kind] for name, kind in BY_NAME.items()))
        choose.shuffle(deck)
        drawn += (Operation(name, choose.getrandbits(32)) for name in deck)
    return drawn[:count]
