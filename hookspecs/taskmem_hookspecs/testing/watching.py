"""Test what watches targets and judges them against the contract: two suites to subclass."""
# ruff: noqa: S101, D102 - pytest explains assertions; names say what is tested

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from shutil import copy
from typing import Final

import pytest

from taskmem_hookspecs.errors import NotAllowed, TargetGone, TargetNotFound
from taskmem_hookspecs.testing import DAWN
from taskmem_hookspecs.watching import Frame, Judge, Met, Ruling, Sensor, Target, Watch

# --- wait_sensor -----------------------------------------------------------


_FIRST_LINE: Final = "built 1 of 2"
_SECOND_LINE: Final = "built 2 of 2"
PATIENCE: Final = 10.0
"""Seconds until what happened must be seen."""
_LOOK_GAP: Final = 0.02
"""Seconds between two looks."""
REFUSAL_SECONDS: Final = 2.0
"""Seconds in which a call that is cancelled must end."""


class SensorSuite:
    """Subclass it in your tests and implement its four abstract methods.

    The targets have text; where they show something else, override `is_shown`, too. Each test
    makes one target, on a suite of its own.
    """

    @abstractmethod
    def make_sensor(self, tmp_path: Path) -> Sensor:
        """Return a new sensor, as after a restart of the daemon."""

    @abstractmethod
    def make_target(self, tmp_path: Path) -> Target:
        """Make something that can be watched, and return its target."""

    @abstractmethod
    def show(self, tmp_path: Path, text: str) -> None:
        """Have that target show one more line, or this text instead of the one before."""

    @abstractmethod
    def make_missing(self, tmp_path: Path) -> Target | None:
        """Return a target that does not exist; None: what is not there is waited for."""

    def remove(self, tmp_path: Path) -> bool | None:
        """Have that target go away for good, and return True; None: skip this test."""

    def is_shown(self, frame: Frame, text: str) -> bool:
        """Return whether a frame shows what `show` was called with, if not as it is, then how."""
        return text in (frame.text or "")

    def test_it_plays_the_part(self, tmp_path: Path) -> None:
        assert isinstance(self.make_sensor(tmp_path), Sensor)

    def test_what_is_missing_is_refused_in_a_sentence(self, tmp_path: Path) -> None:
        missing = self.make_missing(tmp_path)
        if missing is None:
            pytest.skip("what is not there is waited for")

        async def run() -> None:
            for _ in range(2):
                with pytest.raises(TargetNotFound) as raised:
                    await self.make_sensor(tmp_path).watch(missing)
                _assert_sentence(str(raised.value))

        asyncio.run(run())

    def test_what_comes_after_a_wait_began_is_shown(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with self._watch(tmp_path) as (watch, place):
                self.show(tmp_path, _FIRST_LINE)
                await self._look_until_shown(watch, place, place, _FIRST_LINE)

        asyncio.run(run())

    def test_a_look_from_the_same_place_shows_the_same(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with self._watch(tmp_path) as (watch, place):
                self.show(tmp_path, _FIRST_LINE)
                await self._look_until_shown(watch, place, place, _FIRST_LINE)
                await self._look_until_shown(watch, place, place, _FIRST_LINE)

        asyncio.run(run())

    def test_a_place_means_the_same_after_a_restart(self, tmp_path: Path) -> None:
        async def run() -> None:
            target = self.make_target(tmp_path)
            async with self._watch(tmp_path, target) as (watch, start):
                self.show(tmp_path, _FIRST_LINE)
                place = (await self._look_until_shown(watch, start, start, _FIRST_LINE)).place
            self.show(tmp_path, _SECOND_LINE)
            async with self._watch(tmp_path, target) as (watch, _):
                await self._look_until_shown(watch, place, start, _SECOND_LINE)

        asyncio.run(run())

    def test_what_comes_after_the_end_is_shown(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with self._watch(tmp_path) as (watch, place):
                self.show(tmp_path, _FIRST_LINE)
                await self._look_until_shown(watch, place, place, _FIRST_LINE)
                end = await watch.end()
                _assert_place(end)
                self.show(tmp_path, _SECOND_LINE)
                await self._look_until_shown(watch, end, end, _SECOND_LINE)

        asyncio.run(run())

    def test_two_waits_read_from_places_of_their_own(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with self._watch(tmp_path) as (watch, early):
                self.show(tmp_path, _FIRST_LINE)
                late = (await self._look_until_shown(watch, early, early, _FIRST_LINE)).place
                self.show(tmp_path, _SECOND_LINE)
                await self._look_until_shown(watch, late, late, _SECOND_LINE)
                await self._look_until_shown(watch, early, early, _SECOND_LINE)

        asyncio.run(run())

    def test_waiting_for_a_change_can_be_given_up(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with self._watch(tmp_path) as (watch, place):
                waiting = asyncio.create_task(watch.wait_for_change())
                await asyncio.sleep(_LOOK_GAP)
                waiting.cancel()
                done, _ = await asyncio.wait([waiting], timeout=REFUSAL_SECONDS)
                assert done, "wait_for_change goes on after it was cancelled"
                _assert_frame(await watch.look(place, place))

        asyncio.run(run())

    def test_what_goes_away_says_so_in_a_sentence(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with self._watch(tmp_path) as (watch, place):
                if not self.remove(tmp_path):
                    pytest.skip("give `remove` to try it")
                try:
                    frame = await _look_until(watch, place, place, lambda f: bool(f.gone))
                    _assert_sentence(str(frame.gone))
                except TargetGone as gone:
                    _assert_sentence(str(gone))

        asyncio.run(run())

    def test_an_agent_sees_no_file_outside_its_folders(self, tmp_path: Path) -> None:
        target, path = self._make_file(tmp_path)
        inside = tmp_path / "inside"
        inside.mkdir()
        (inside / "link").symlink_to(path)
        for place in (path, inside / "link", tmp_path / "missing"):
            name = target.name.replace(str(path), str(place))
            self._assert_hidden(tmp_path, target, name, (str(inside),))

    def test_a_file_with_secrets_is_shown_to_nobody(self, tmp_path: Path) -> None:
        target, path = self._make_file(tmp_path)
        secret = path.with_name(".env")
        copy(path, secret)
        (tmp_path / "link").symlink_to(secret)
        for place in (secret, tmp_path / "link"):
            name = target.name.replace(str(path), str(place))
            self._assert_hidden(tmp_path, target, name, None)
            self._assert_hidden(tmp_path, target, name, (str(tmp_path),))

    def test_a_link_that_comes_later_shows_no_secret(self, tmp_path: Path) -> None:
        async def run() -> None:
            target, path = self._make_file(tmp_path)
            secret = path.with_name(".env")
            secret.write_text(f"{_SECOND_LINE}\n")
            async with self._watch(tmp_path, target) as (watch, place):
                path.unlink()
                path.symlink_to(secret)
                for look in (watch.here, lambda: watch.look(place, place)):
                    with suppress(NotAllowed, TargetGone):
                        assert _SECOND_LINE not in str(await look()), "a secret is shown"

        asyncio.run(run())

    def _make_file(self, tmp_path: Path) -> tuple[Target, Path]:
        """Make a target that is named by the path of a file; return it and the path."""
        target = self.make_target(tmp_path)
        _, root, name = target.name.partition(str(tmp_path))
        path = Path(f"{root}{name}")
        if not root or not path.is_file():
            pytest.skip("its targets are not named by paths")
        return target, path

    def _assert_hidden(
        self, tmp_path: Path, target: Target, name: str, within: tuple[str, ...] | None
    ) -> None:
        """Check that a target of this name is refused, before anything is said of it."""

        async def run() -> None:
            other = target.model_copy(update={"name": name, "within": within})
            with pytest.raises(NotAllowed) as raised:
                await self.make_sensor(tmp_path).watch(other)
            _assert_sentence(str(raised.value))

        asyncio.run(run())

    async def _look_until_shown(self, watch: Watch, place: str, start: str, text: str) -> Frame:
        """Look on from a place until the text was shown; return that frame."""
        return await _look_until(watch, place, start, lambda frame: self.is_shown(frame, text))

    @asynccontextmanager
    async def _watch(
        self, tmp_path: Path, target: Target | None = None
    ) -> AsyncGenerator[tuple[Watch, str]]:
        """Watch a target with a new sensor; yield the watch, and where a wait begins."""
        sensor = self.make_sensor(tmp_path)
        found = await sensor.watch(target or self.make_target(tmp_path))
        if isinstance(found, Target):
            found = await sensor.watch(found)
        assert isinstance(found, Watch)
        try:
            here = await found.here()
            _assert_frame(here)
            yield found, here.place
        finally:
            await found.close()


async def _look_until(
    watch: Watch, place: str, start: str, holds: Callable[[Frame], bool]
) -> Frame:
    """Look on from a place until a frame is as wanted; return it."""
    frame = None
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                frame = await watch.look(place, start)
                _assert_frame(frame)
                if holds(frame):
                    return frame
                place = frame.place
                await asyncio.sleep(_LOOK_GAP)
    except TimeoutError:
        raise AssertionError(f"was not seen within {PATIENCE:g} s; last: {frame}") from None


def _assert_frame(frame: object) -> None:
    """Check that it is a frame whose fields are valid."""
    assert isinstance(frame, Frame)
    Frame.model_validate(dict(frame))
    _assert_place(frame.place)


def _assert_place(place: object) -> None:
    """Check that a place is a text that can be stored with a wait."""
    assert isinstance(place, str)
    assert "\x00" not in place, "a database may refuse NUL"
    assert "\x1e" not in place, "U+001E separates two places where they are stored"
    place.encode()


def _assert_sentence(text: str) -> None:
    """Check that a text for people says something, on one line."""
    assert text.strip(), "it says nothing"
    assert len(text.splitlines()) == 1


# --- wait_judge ------------------------------------------------------------


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
        rulings = _rule_all(self.make_judge(tmp_path), self.make_met(tmp_path))
        assert rulings[-1].met is Met.YES, rulings[-1].observation
        assert rulings[-1].observation.strip(), "the ruling says nothing"

    def test_what_does_not_hold_is_not_met(self, tmp_path: Path) -> None:
        for ruling in _rule_all(self.make_judge(tmp_path), self.make_unmet(tmp_path)):
            assert ruling.met is not Met.YES, ruling.observation

    def test_a_target_that_shows_nothing_does_not_meet_it(self, tmp_path: Path) -> None:
        empty = (Frame(seen_at=DAWN, place=""), Frame(seen_at=DAWN, place="", text="", tail=""))
        for frame in empty:
            [ruling] = _rule_all(self.make_judge(tmp_path), [frame])
            assert ruling.met is not Met.YES, ruling.observation

    def test_the_end_of_a_target_is_judged(self, tmp_path: Path) -> None:
        *_, last = self.make_unmet(tmp_path)
        _rule_all(self.make_judge(tmp_path), [last.model_copy(update={"gone": "It was closed."})])

    def test_a_frame_may_be_shown_again(self, tmp_path: Path) -> None:
        frames = self.make_unmet(tmp_path)
        for ruling in _rule_all(self.make_judge(tmp_path), [*frames, *frames]):
            assert ruling.met is not Met.YES, ruling.observation

    def test_two_waits_are_judged_apart(self, tmp_path: Path) -> None:
        first, second = self.make_judge(tmp_path), self.make_judge(tmp_path)
        assert _rule_all(first, self.make_met(tmp_path))[-1].met is Met.YES
        for ruling in _rule_all(second, self.make_unmet(tmp_path)):
            assert ruling.met is not Met.YES, ruling.observation


def _rule_all(judge: Judge, frames: Sequence[Frame]) -> Sequence[Ruling]:
    """Show frames to a judge, and return its rulings, whose fields must be valid."""

    async def show() -> list[Ruling]:
        return [await judge.rule(frame) for frame in frames]

    rulings = asyncio.run(show())
    for ruling in rulings:
        assert isinstance(ruling, Ruling)
        Ruling.model_validate(dict(ruling))
    return rulings
