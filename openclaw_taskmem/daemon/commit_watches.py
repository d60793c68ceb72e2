"""Watch what this daemon's commits change, and judge it by the forms of a condition.

Commits signal their changes. In a database that daemons share, it is also read at intervals.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Final

from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.plugin_host.plugin_host import Judges
from taskmem_hookspecs import (
    Clock,
    Condition,
    ConditionUnclear,
    Frame,
    Met,
    Ruling,
    Target,
    TargetGone,
    TargetNotFound,
)
from taskmem_hookspecs.conditions import Form

ALONE_SECONDS: Final = 60.0
"""Longest interval between two looks without a signal."""
SHARED_SECONDS: Final = 5.0
"""The same if other daemons write to the database."""


class CommitSensor(ABC):
    """Implements `Sensor` for what is in the store, and provides its judge."""

    def __init__(self, clock: Clock, context: Callable[[], Context]) -> None:
        """Create a sensor; `context` returns the daemon's context once there is one."""
        self.clock: Final = clock
        self._context = context
        self._watched: set[CommitWatch] = set()

    @staticmethod
    @abstractmethod
    def refuse_condition(condition: Condition) -> ConditionUnclear | None:
        """Return why nobody can tell a condition; None: it can be told."""

    @staticmethod
    @abstractmethod
    def is_met(form: Form, frame: Frame) -> bool:
        """Return whether a form holds at a look."""

    @classmethod
    def find_judges(cls, target: Target, condition: Condition) -> Judges:
        """Return the judge of a condition, or a refusal."""
        del target
        refusal = cls.refuse_condition(condition)
        judge = FormJudge(condition, cls.is_met)
        return Judges(() if refusal else (judge,), (), refusal)

    @abstractmethod
    def look(self, name: str, start: str | None) -> Frame:
        """Return how what has that name stands; runs on the event loop of its watch.

        `start`: the place from which a change counts; None: none does.

        Raises:
            TargetGone: Nothing has that name.
        """

    async def watch(self, target: Target) -> CommitWatch:
        """Watch what is there, also what has ended."""
        try:
            self.look(target.name, None)
        except TargetGone as missing:
            raise TargetNotFound(str(missing)) from missing
        watch = CommitWatch(target.name, self)
        self._watched.add(watch)
        return watch

    def note_changes(self, names: Collection[str] | None) -> None:
        """Signal that a commit touched what has these names, or any (None); for any thread."""
        for watch in tuple(self._watched):
            if names is None or watch.name in names:
                watch.note_change()

    @property
    def rest_seconds(self) -> float:
        """For how many seconds a look stays valid without a signal."""
        return SHARED_SECONDS if self._context().store.is_shared else ALONE_SECONDS

    def forget_watch(self, watch: CommitWatch) -> None:
        """Stop signalling to a watch."""
        self._watched.discard(watch)


class CommitWatch:
    """Implements `Watch` and `TellingWatch` for one name."""

    def __init__(self, name: str, sensor: CommitSensor) -> None:
        """Create a watch, on the event loop on which it is used."""
        self.name: Final = name
        self._sensor = sensor
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    @property
    def rest_seconds(self) -> float:
        """Return for how long it need not be looked at, unless something changes."""
        return self._sensor.rest_seconds

    def note_change(self) -> None:
        """Signal a change; for any thread."""
        with contextlib.suppress(RuntimeError):
            # The loop may be closed.
            self._loop.call_soon_threadsafe(self._changed.set)

    async def here(self) -> Frame:
        """Return a frame of how it stands now."""
        return self._sensor.look(self.name, None)

    async def end(self) -> str:
        """Return the present place."""
        return self._sensor.look(self.name, None).place

    async def look(self, place: str, start: str) -> Frame:
        """Return a frame of how it stands; its place differs from `start` if it changed."""
        del place
        return self._sensor.look(self.name, start)

    async def wait_for_change(self) -> None:
        """Return when a commit has touched it."""
        await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        """Stop receiving signals."""
        self._sensor.forget_watch(self)


class FormJudge:
    """Implements `Judge` for a condition of forms, each of which holds or not at a look."""

    name = "rules"

    def __init__(self, condition: Condition, is_met: Callable[[Form, Frame], bool]) -> None:
        """Judge a condition; `is_met` decides about one form."""
        self._sides = [side.forms for side in condition.sides]
        self._is_met = is_met

    async def rule(self, frame: Frame) -> Ruling:
        """Decide whether all forms of a side hold."""
        holds = any(all(self._is_met(each, frame) for each in forms) for forms in self._sides)
        return Ruling(met=Met.YES if holds else Met.NO, observation=frame.note or frame.gone or "")
