"""Test any `Sensor` against the contract: a suite for its author to subclass."""
# ruff: noqa: S101, D102 - pytest explains assertions; names say what is tested

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from taskmem_hookspecs.errors import TargetGone, TargetNotFound
from taskmem_hookspecs.watching import Frame, Sensor, Target, Watch

FIRST_LINE: Final = "built 1 of 2"
SECOND_LINE: Final = "built 2 of 2"
PATIENCE: Final = 10.0
"""Seconds until what happened must be seen."""
GAP: Final = 0.02
"""Seconds between two looks."""
REFUSAL_SECONDS: Final = 2.0
"""Seconds in which a call that is cancelled must end."""


class SensorSuite:
    """Subclass it in your tests and implement its four abstract methods.

    The targets have text. Each test makes one target, on a suite of its own.
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
    def make_missing(self, tmp_path: Path) -> Target:
        """Return a target that does not exist."""

    def remove(self, tmp_path: Path) -> bool | None:
        """Have that target go away for good, and return True; None: skip this test."""

    def test_it_plays_the_part(self, tmp_path: Path) -> None:
        assert isinstance(self.make_sensor(tmp_path), Sensor)

    def test_what_is_missing_is_refused_in_a_sentence(self, tmp_path: Path) -> None:
        async def run() -> None:
            for _ in range(2):
                with pytest.raises(TargetNotFound) as raised:
                    await self.make_sensor(tmp_path).watch(self.make_missing(tmp_path))
                assert_sentence(str(raised.value))

        asyncio.run(run())

    def test_what_comes_after_a_wait_began_is_shown(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with self._watch(tmp_path) as (watch, place):
                self.show(tmp_path, FIRST_LINE)
                await look_until_shown(watch, place, place, FIRST_LINE)

        asyncio.run(run())

    def test_a_look_from_the_same_place_shows_the_same(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with self._watch(tmp_path) as (watch, place):
                self.show(tmp_path, FIRST_LINE)
                await look_until_shown(watch, place, place, FIRST_LINE)
                await look_until_shown(watch, place, place, FIRST_LINE)

        asyncio.run(run())

    def test_a_place_means_the_same_after_a_restart(self, tmp_path: Path) -> None:
        async def run() -> None:
            target = self.make_target(tmp_path)
            async with self._watch(tmp_path, target) as (watch, start):
                self.show(tmp_path, FIRST_LINE)
                place = (await look_until_shown(watch, start, start, FIRST_LINE)).place
            self.show(tmp_path, SECOND_LINE)
            async with self._watch(tmp_path, target) as (watch, _):
                await look_until_shown(watch, place, start, SECOND_LINE)

        asyncio.run(run())

    def test_what_comes_after_the_end_is_shown(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with self._watch(tmp_path) as (watch, place):
                self.show(tmp_path, FIRST_LINE)
                await look_until_shown(watch, place, place, FIRST_LINE)
                end = await watch.end()
                assert_place(end)
                self.show(tmp_path, SECOND_LINE)
                await look_until_shown(watch, end, end, SECOND_LINE)

        asyncio.run(run())

    def test_two_waits_read_from_places_of_their_own(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with self._watch(tmp_path) as (watch, early):
                self.show(tmp_path, FIRST_LINE)
                late = (await look_until_shown(watch, early, early, FIRST_LINE)).place
                self.show(tmp_path, SECOND_LINE)
                await look_until_shown(watch, late, late, SECOND_LINE)
                await look_until_shown(watch, early, early, SECOND_LINE)

        asyncio.run(run())

    def test_waiting_for_a_change_can_be_given_up(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with self._watch(tmp_path) as (watch, place):
                waiting = asyncio.create_task(watch.wait_for_change())
                await asyncio.sleep(GAP)
                waiting.cancel()
                done, _ = await asyncio.wait([waiting], timeout=REFUSAL_SECONDS)
                assert done, "wait_for_change goes on after it was cancelled"
                assert_sound(await watch.look(place, place))

        asyncio.run(run())

    def test_what_goes_away_says_so_in_a_sentence(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with self._watch(tmp_path) as (watch, place):
                if not self.remove(tmp_path):
                    pytest.skip("give `remove` to try it")
                try:
                    frame = await look_until(watch, place, place, lambda f: bool(f.gone))
                    assert_sentence(str(frame.gone))
                except TargetGone as gone:
                    assert_sentence(str(gone))

        asyncio.run(run())

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
            assert_sound(here)
            yield found, here.place
        finally:
            await found.close()


async def look_until_shown(watch: Watch, place: str, start: str, text: str) -> Frame:
    """Look on from a place until the text was shown; return that frame."""
    return await look_until(watch, place, start, lambda frame: text in (frame.text or ""))


async def look_until(watch: Watch, place: str, start: str, holds: Callable[[Frame], bool]) -> Frame:
    """Look on from a place until a frame is as wanted; return it."""
    frame = None
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                frame = await watch.look(place, start)
                assert_sound(frame)
                if holds(frame):
                    return frame
                place = frame.place
                await asyncio.sleep(GAP)
    except TimeoutError:
        raise AssertionError(f"was not seen within {PATIENCE:g} s; last: {frame}") from None


def assert_sound(frame: object) -> None:
    """Check that it is a frame whose fields are valid."""
    assert isinstance(frame, Frame)
    Frame.model_validate(dict(frame))
    assert_place(frame.place)


def assert_place(place: object) -> None:
    """Check that a place is a text that can be stored with a wait."""
    assert isinstance(place, str)
    assert "\x00" not in place, "a database may refuse NUL"
    assert "\x1e" not in place, "U+001E separates two places where they are stored"
    place.encode()


def assert_sentence(text: str) -> None:
    """Check that a text for people says something, on one line."""
    assert text.strip(), "it says nothing"
    assert len(text.splitlines()) == 1
