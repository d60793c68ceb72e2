"""Patience: scenarios played through the real engine with a clock that is turned."""

from __future__ import annotations

from collections.abc import Iterator

from figures import Figure, count_of

from openclaw_taskmem.domain.runs.policy import POLICY
from tests.support.scenarios import Player, loops, scenarios

COUNTED = {
    "reminders": "wrong reminders",
    "failures": "wrong failures",
    "consents": "consents assumed",
    "otherwise": "other ends than written",
}


def run_scenarios() -> Iterator[Figure | str]:
    """Scenarios of a user: is an agent that waits left alone, and is a loop ended?"""
    found = [Player(scenario).play() for scenario in scenarios()]
    for name, what in COUNTED.items():
        wrong = [each for seen in found for each in getattr(seen, name)]
        yield count_of(f"{len(found)} scenarios: {what}", len(wrong), len(found))
        yield from wrong
    for scenario in loops():
        seen = Player(scenario).play()
        what = f"rounds until a loop is ended and told once ({scenario.name})"
        yield count_of(what, seen.told, 1, POLICY.max_rounds)
        yield from seen.wrong
