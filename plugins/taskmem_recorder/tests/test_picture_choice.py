"""When the screen shows something worth a picture."""

from __future__ import annotations

from collections.abc import Callable

from taskmem_recorder.changes import (
    BEATS,
    MOST_PATIENCE,
    PICTURE_GAP,
    STILL_SECONDS,
    Block,
    PictureChoice,
)

LINE = frozenset((column, 3) for column in range(5))
DIALOG = frozenset((column, row) for column in range(20, 26) for row in range(10, 14))
VIDEO = frozenset((column, row) for column in range(8, 16) for row in range(4, 10))
DAY = 8 * 3600.0


class Watched:
    """A screen that is looked at once a second, and what changes on it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.choice = PictureChoice()
        self.taken: list[float] = []
        self.look()
        self.run(10)
        self.taken.clear()

    def look(self, changed: frozenset[Block] = frozenset()) -> None:
        self.choice.observe_changes(self.now, changed)
        if self.choice.is_due(self.now):
            self.taken.append(self.now)
            self.choice.record_picture(self.now)

    def run(
        self, seconds: float, moves: Callable[[float], frozenset[Block]] = lambda _: frozenset()
    ) -> None:
        """Let time pass; `moves` returns what changes at a time."""
        end = self.now + seconds
        while self.now < end:
            self.now += 1.0
            self.look(moves(self.now))


def test_what_stands_still_is_no_picture() -> None:
    screen = Watched()
    screen.run(DAY)
    assert screen.taken == []


def test_a_change_is_a_picture_once_it_stands_still() -> None:
    screen = Watched()
    screen.look(DIALOG)
    assert screen.taken == []
    screen.run(5)
    assert len(screen.taken) == 1
    assert screen.taken[0] >= 10 + STILL_SECONDS


def test_another_window_in_front_is_a_picture() -> None:
    screen = Watched()
    screen.choice.observe_front(screen.now, (1, "Mail"))
    screen.run(5)
    assert len(screen.taken) == 1
    screen.choice.observe_front(screen.now, (1, "Mail"))
    screen.run(5)
    assert len(screen.taken) == 1


def test_a_change_that_goes_on_is_not_waited_for_long() -> None:
    screen = Watched()
    began = screen.now
    screen.run(8, lambda now: frozenset([(int(now) * 3 % 40, int(now) % 20)]) | LINE)
    assert screen.taken
    assert screen.taken[0] <= began + MOST_PATIENCE + 1


def test_two_pictures_are_apart() -> None:
    screen = Watched()
    for blocks in (LINE, DIALOG, VIDEO):
        screen.look(blocks)
        screen.now += 1.0
        screen.look()
    gaps = [b - a for a, b in zip(screen.taken, screen.taken[1:], strict=False)]
    assert all(gap >= PICTURE_GAP for gap in gaps)


def test_a_video_all_day_is_few_pictures() -> None:
    screen = Watched()
    screen.run(DAY, lambda _: VIDEO)
    assert 1 <= len(screen.taken) <= DAY / BEATS[-1] + len(BEATS) + 2


def test_a_dialog_beside_a_video_is_a_picture() -> None:
    screen = Watched()
    screen.run(30, lambda _: VIDEO)
    before = len(screen.taken)
    screen.look(VIDEO | DIALOG)
    screen.run(3, lambda _: VIDEO)
    assert len(screen.taken) == before + 1


def test_a_video_that_stops_is_a_picture() -> None:
    screen = Watched()
    screen.run(30, lambda _: VIDEO)
    before = len(screen.taken)
    screen.run(6)
    assert len(screen.taken) == before + 1
