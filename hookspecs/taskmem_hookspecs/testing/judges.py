"""Test any `Judge` against the contract: a suite for its author to subclass."""
# ruff: noqa: S101, D102 - pytest explains assertions; names say what is tested

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from taskmem_hookspecs.testing.clock import DAWN
from taskmem_hookspecs.watching import Frame, Judge, Met, Ruling


class JudgeSuite:
    """Subclass it in your tests and implement its three abstract methods."""

    @abstractmethod
    def make_judge(self, tmp_path: Path) -> Judge:
        """Return a new judge, always for the same condition, as after a restart of the daemon."""

    @abstractmethod
    def make_met(self, tmp_path: Path) -> Sequence[Frame]:
        """Return frames in order; at the last of them the condition holds."""

    @abstractmethod
    def make_unmet(self, tmp_path: Path) -> Sequence[Frame]:
        """Return frames in order; at none of them the condition holds."""

    def test_it_plays_the_part(self, tmp_path: Path) -> None:
        judge = self.make_judge(tmp_path)
        assert isinstance(judge, Judge)
        assert judge.name.strip()
        assert len(judge.name.splitlines()) == 1

    def test_its_sides_are_numbers_of_sides(self, tmp_path: Path) -> None:
        sides = getattr(self.make_judge(tmp_path), "sides", ())
        assert all(isinstance(side, int) and side >= 0 for side in sides)

    def test_what_holds_is_met(self, tmp_path: Path) -> None:
        rulings = rule(self.make_judge(tmp_path), self.make_met(tmp_path))
        assert rulings[-1].met is Met.YES, rulings[-1].observation
        assert rulings[-1].observation.strip(), "the ruling says nothing"

    def test_what_does_not_hold_is_not_met(self, tmp_path: Path) -> None:
        for ruling in rule(self.make_judge(tmp_path), self.make_unmet(tmp_path)):
            assert ruling.met is not Met.YES, ruling.observation

    def test_a_target_that_shows_nothing_does_not_meet_it(self, tmp_path: Path) -> None:
        empty = (Frame(seen_at=DAWN, place=""), Frame(seen_at=DAWN, place="", text="", tail=""))
        for frame in empty:
            [ruling] = rule(self.make_judge(tmp_path), [frame])
            assert ruling.met is not Met.YES, ruling.observation

    def test_the_end_of_a_target_is_judged(self, tmp_path: Path) -> None:
        *_, last = self.make_unmet(tmp_path)
        rule(self.make_judge(tmp_path), [last.model_copy(update={"gone": "It was closed."})])

    def test_a_frame_may_be_shown_again(self, tmp_path: Path) -> None:
        frames = self.make_unmet(tmp_path)
        for ruling in rule(self.make_judge(tmp_path), [*frames, *frames]):
            assert ruling.met is not Met.YES, ruling.observation

    def test_two_waits_are_judged_apart(self, tmp_path: Path) -> None:
        first, second = self.make_judge(tmp_path), self.make_judge(tmp_path)
        assert rule(first, self.make_met(tmp_path))[-1].met is Met.YES
        for ruling in rule(second, self.make_unmet(tmp_path)):
            assert ruling.met is not Met.YES, ruling.observation


def rule(judge: Judge, frames: Sequence[Frame]) -> Sequence[Ruling]:
    """Show frames to a judge, and return its rulings, whose fields must be valid."""

    async def show() -> list[Ruling]:
        return [await judge.rule(frame) for frame in frames]

    rulings = asyncio.run(show())
    for ruling in rulings:
        assert isinstance(ruling, Ruling)
        Ruling.model_validate(dict(ruling))
    return rulings
