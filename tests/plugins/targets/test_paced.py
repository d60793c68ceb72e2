"""The pace of looks at what tells of nothing."""

import asyncio
from datetime import UTC, datetime

import pytest

from taskmem_hookspecs import Frame
from taskmem_hookspecs.conditions import State
from taskmem_targets import paced
from taskmem_targets.paced import PacedWatch, compute_rest


@pytest.mark.parametrize(
    ("age", "duration", "rest"),
    [(0, 0, 5), (100, 1, 5), (300, 1, 15), (1200, 1, 60), (86_400, 1, 60), (0, 20, 20)],
)
def test_the_rest_grows_with_the_age_of_a_wait(age: float, duration: float, rest: float):
    assert compute_rest(age, duration, 5) == rest


def test_a_wait_that_begins_has_it_looked_at_anew():
    count = 0

    async def find() -> Frame:
        nonlocal count
        count += 1
        return Frame(seen_at=datetime.now(UTC), place=str(count))

    async def run() -> list[str]:
        watched = PacedWatch(find, 3600)
        first = await watched.end()
        again = await watched.end()
        watched._found_at -= 10
        later = await watched.end()
        await watched.close()
        return [first, again, later]

    assert asyncio.run(run()) == ["1", "1", "2"]


def test_a_wait_that_begins_later_leaves_the_pace_as_it_is(monkeypatch: pytest.MonkeyPatch):
    ages: list[float] = []

    def note_age(age: float, _duration: float, _shortest: float) -> float:
        ages.append(age)
        return 3600

    async def find() -> Frame:
        return Frame(seen_at=datetime.now(UTC), place="1")

    async def run() -> None:
        watched = PacedWatch(find, 5)
        await watched.here()
        watched._began -= 1000
        watched._found_at -= 10
        await watched.here()
        await asyncio.sleep(0)
        await watched.close()

    monkeypatch.setattr(paced, "compute_rest", note_age)
    asyncio.run(run())
    assert len(ages) == 2
    assert ages[1] >= 1000


def test_a_wait_that_began_before_a_finding_counts_from_it():
    places = ["1", "1", "2"]

    async def find() -> Frame:
        return Frame(seen_at=datetime.now(UTC), place=places.pop(0))

    async def run() -> list[bool]:
        watched = PacedWatch(find, 3600)
        changed: list[bool] = []
        for _ in range(3):
            watched._found_at -= 10
            await watched.here()
            changed.append(State.CHANGED in (await watched.look("", "")).states)
        await watched.close()
        return changed

    assert asyncio.run(run()) == [False, False, True]


def test_a_look_that_goes_on_is_given_up_when_it_is_closed():
    ends: list[str] = []

    async def find() -> Frame:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("given up")
        raise AssertionError

    async def run() -> Frame:
        watched = PacedWatch(find, 3600)
        await asyncio.sleep(0)
        frame = await watched.look("", "")
        await watched.close()
        return frame

    assert asyncio.run(run()).note == "It has not answered yet."
    assert ends == ["given up"]


def test_a_look_that_fails_is_told_and_ends_no_later_look():
    frame = Frame(seen_at=datetime.now(UTC), place="1")
    answers = [RuntimeError("broken"), frame]

    async def find() -> Frame:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run() -> str:
        watched = PacedWatch(find, 0.05)
        with pytest.raises(RuntimeError, match="broken"):
            await watched.here()
        with pytest.raises(RuntimeError, match="broken"):
            await watched.look("", "")
        await asyncio.wait_for(watched.wait_for_change(), 10)
        await asyncio.wait_for(watched.wait_for_change(), 10)
        found = await watched.look("", "")
        await watched.close()
        return found.place

    assert asyncio.run(run()) == "1"
