"""A reader: it answers, refuses, fails, or takes its time, and knows how often it was asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from openclaw_taskmem.daemon.readers import BOOKMARK
from openclaw_taskmem.domain.reader_budget import Days, load_days
from taskmem_hookspecs import NoAnswer, Question, Reader, Reading
from taskmem_hookspecs.readers import (
    ReaderRefused,
    ReaderStatus,
    ReaderUnavailable,
    Readiness,
)

if TYPE_CHECKING:
    from tests.simulation.machine import Machine

HOUR: Final = 3_600.0
GRACE: Final = 60.0
"""Seconds in which a question may still be on its way when a reader refuses another."""


class ScriptedReader(Reader):
    """The only reader there is."""

    name = "scripted"
    model = "script-1"
    sees_pictures = False
    calls_per_day = 6

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.mood = "answers"
        self.asked: dict[object, int] = {}
        """By day: how often it was asked."""
        self.refused_at: float | None = None
        """When it refused the daemon that runs, by the monotonic clock."""
        self.uncounted: list[str] = []
        self.pestered: list[str] = []

    def status(self) -> ReaderStatus:
        return ReaderStatus(readiness=Readiness.READY, detail="It is there.")

    def read_days(self) -> Days:
        """Return what the store says that it was asked."""
        mark = self._machine.mirror.bookmarks.get(BOOKMARK)
        return load_days(mark.value if mark else None)

    async def read(self, question: Question) -> Reading:
        del question
        self._note_question()
        if self.mood == "slow":
            await asyncio.sleep(5)
        elif self.mood == "hangs":
            await asyncio.sleep(1_000)
        elif self.mood == "fails":
            raise ReaderUnavailable("It is busy.", 30.0)
        elif self.mood == "says nothing":
            raise NoAnswer("It was blocked.", tokens_in=7)
        elif self.mood == "refuses":
            self.refused_at = self._machine.clock.monotonic()
            raise ReaderRefused("The key is refused.")
        return Reading(answer="{}", reader=self.name, model=self.model, tokens_in=9, tokens_out=1)

    def _note_question(self) -> None:
        machine, clock = self._machine, self._machine.clock
        day = clock.now().date()
        self.asked[day] = self.asked.get(day, 0) + 1
        spent = self.read_days().get(day, {}).get(self.name)
        counted = (spent.asked if spent else 0) + machine.uncounted
        if clock.jumps == 0 and counted < self.asked[day]:
            self.uncounted.append(
                f"it was asked {self.asked[day]} times, and {counted} are counted"
            )
        if self.refused_at is not None:
            passed = clock.monotonic() - self.refused_at
            if GRACE < passed < HOUR:
                self.pestered.append(f"it was asked again {passed:.0f} s after it had refused")
