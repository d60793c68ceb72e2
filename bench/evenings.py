"""Patience: evenings played through the real engine with a clock that is turned."""

from __future__ import annotations

from collections.abc import Iterator

from figures import Figure, count_of

from openclaw_taskmem.domain.runs import POLICY
from tests.support.evenings import Player, evenings, loops

COUNTED = {
    "nudges": "wrong nudges",
    "failures": "wrong failures",
    "consents": "consents assumed",
    "otherwise": "other ends than written",
}


def run_evenings() -> Iterator[Figure | str]:
    """Evenings of a user: is an agent that waits left alone, and is a loop ended?"""
    found = [Player(evening).play() for evening in evenings()]
    for name, what in COUNTED.items():
        wrong = [each for seen in found for each in getattr(seen, name)]
        yield count_of(f"{len(found)} evenings: {what}", len(wrong), len(found))
        yield from wrong
    for evening in loops():
        seen = Player(evening).play()
        what = f"rounds until a loop is ended and told once ({evening.name})"
        yield count_of(what, seen.told, 1, POLICY.max_rounds)
        yield from seen.wrong
