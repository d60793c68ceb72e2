"""Watch tasks for those who wait for them, and judge how they stand.

Commits signal their changes. Of a database that daemons share, a task is also read at intervals.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import Final

from openclaw_taskmem.domain.conditions import task_states
from openclaw_taskmem.engine import lookup
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.plugin_host.plugin_host import Judges
from taskmem_hookspecs import (
    Clock,
    Condition,
    Frame,
    Met,
    Ruling,
    Target,
    TargetGone,
    TargetNotFound,
    Task,
    TaskFacts,
    TaskNotFound,
)
from taskmem_hookspecs.conditions import State

ALONE_SECONDS: Final = 60.0
"""Longest interval between two looks at a task without a signal."""
SHARED_SECONDS: Final = 5.0
"""The same if other daemons write to the database."""


class TaskSensor:
    """Implements `Sensor` for tasks, and provides their judge."""

    def __init__(self, clock: Clock, context: Callable[[], Context]) -> None:
        """Create a sensor; `context` returns the daemon's context once there is one."""
        self.clock: Final = clock
        self._context = context
        self._watched: set[TaskWatch] = set()

    async def watch(self, target: Target) -> TaskWatch:
        """Watch a task, also one that has ended."""
        try:
            self.read_task(target.name)
        except TaskNotFound as missing:
            raise TargetNotFound(str(missing)) from missing
        watch = TaskWatch(target.name, self)
        self._watched.add(watch)
        return watch

    def note_changes(self, task_ids: Collection[str]) -> None:
        """Signal that a commit touched these tasks, or their runs; for any thread."""
        for watch in tuple(self._watched):
            if watch.task_id in task_ids:
                watch.note_change()

    @staticmethod
    def find_judges(target: Target, condition: Condition) -> Judges:
        """Return the judge of a condition on a task, or a refusal."""
        del target
        refusal = task_states.refuse_condition(condition)
        return Judges(() if refusal else (_TaskJudge(condition),), (), refusal)

    def read_task(self, task_id: str) -> TaskFacts:
        """Return a task; runs on the tasks' loop.

        Raises:
            TaskNotFound: No task has that id.
        """
        return self._context().store.read_task(task_id)

    def find_failure(self, task: Task) -> str:
        """Return why a task failed; empty: it has not, or nobody said."""
        return lookup.find_failure(self._context(), task, None)

    @property
    def rest_seconds(self) -> float:
        """For how many seconds a look stays valid without a signal."""
        return SHARED_SECONDS if self._context().store.is_shared else ALONE_SECONDS

    def forget_watch(self, watch: TaskWatch) -> None:
        """Stop signalling to a watch."""
        self._watched.discard(watch)


class TaskWatch:
    """Implements `Watch` and `TellingWatch` for one task."""

    def __init__(self, task_id: str, sensor: TaskSensor) -> None:
        """Create a watch, on the event loop on which it is used."""
        self.task_id: Final = task_id
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
        """Return a frame of how the task stands now."""
        return self._look(None)

    async def end(self) -> str:
        """Return the present place."""
        return self._look(None).place

    async def look(self, place: str, start: str) -> Frame:
        """Return a frame of how the task stands; its place differs from `start` if it changed."""
        del place
        return self._look(start)

    async def wait_for_change(self) -> None:
        """Return when a commit has touched the task."""
        await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        """Stop receiving signals."""
        self._sensor.forget_watch(self)

    def _look(self, start: str | None) -> Frame:
        try:
            facts = self._sensor.read_task(self.task_id)
        except TaskNotFound as missing:
            raise TargetGone(str(missing)) from missing
        task, run = facts.task, facts.run
        place = f"{task.status} {task.updated_at.isoformat()}"
        if run is not None:
            place = f"{place} {run.state} {run.changed_at.isoformat()}"
        states = task_states.list_states(task, run)
        if start is not None and place != start:
            states |= {State.CHANGED}
        note = task_states.describe_state(task, run, self._sensor.find_failure(task))
        return Frame(
            seen_at=self._sensor.clock.now(),
            place=place,
            states=states,
            numbers=task_states.list_steps(task),
            note=note,
            gone=note if task.status.terminal else None,
        )


class _TaskJudge:
    """Implements `Judge` for a condition on a task."""

    name = "rules"

    def __init__(self, condition: Condition) -> None:
        self._sides = [side.forms for side in condition.sides]

    async def rule(self, frame: Frame) -> Ruling:
        """Decide whether all forms of a side hold."""
        holds = any(all(task_states.is_met(e, frame) for e in forms) for forms in self._sides)
        return Ruling(met=Met.YES if holds else Met.NO, observation=frame.note or frame.gone or "")
