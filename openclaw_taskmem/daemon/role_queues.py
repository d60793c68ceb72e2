"""Watch the queues of roles, and judge whether a role can claim a task.

Commits signal their changes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import Final

from openclaw_taskmem.domain.conditions import targets
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.runs import find_claimable
from openclaw_taskmem.plugin_host.plugin_host import Judges
from taskmem_hookspecs import Clock, Condition, Frame, Met, Ruling, Target, Task

ALONE_SECONDS: Final = 60.0
"""Maximum interval between two reads of a queue without a signal."""
SHARED_SECONDS: Final = 5.0
"""Maximum interval between two reads of a queue if other daemons write to the database."""
_PLACE: Final = "now"
"""The only place of a queue: all queued runs count, whenever they came."""


class Queues:
    """Implements `Sensor` for queues, and provides their judge."""

    def __init__(self, clock: Clock, context: Callable[[], Context]) -> None:
        """Create a sensor; `context` returns the daemon's context once there is one."""
        self.clock: Final = clock
        self._context = context
        self._watched: set[Queue] = set()

    async def watch(self, target: Target) -> Queue:
        """Watch a queue; an empty one exists as well."""
        queue = Queue(target.name, self)
        self._watched.add(queue)
        return queue

    def note_changes(self, roles: Collection[str | None], queued: Collection[str | None]) -> None:
        """Signal that a commit touched runs of these roles; for any thread.

        None stands for runs that any role may claim. `queued`: those roles for which a run is
        queued now; the others matter only to queues that were not empty.
        """
        for queue in tuple(self._watched):
            if not {queue.role, None}.isdisjoint(roles):
                queue.note_change(queued=not {queue.role, None}.isdisjoint(queued))

    @staticmethod
    def find_judges(target: Target, condition: Condition) -> Judges:
        """Return the judge of the only condition on a queue, or a refusal of any other."""
        refusal = targets.refuse_queue_condition(condition)
        found = () if refusal else (_QueueJudge(target.name),)
        return Judges(found, (), refusal)

    def read_first(self, role: str) -> Task | None:
        """Return the first task that a role can claim; runs on the queues' loop."""
        return find_claimable(self._context(), role)

    @property
    def recheck_seconds(self) -> float:
        """How many seconds a read stays valid without a signal."""
        return SHARED_SECONDS if self._context().store.is_shared else ALONE_SECONDS

    def forget_queue(self, queue: Queue) -> None:
        """Stop signalling to a queue."""
        self._watched.discard(queue)


class Queue:
    """Implements `Watch` for the queue of one role."""

    def __init__(self, role: str, queues: Queues) -> None:
        """Create a watch, on the event loop on which it is used."""
        self.role: Final = role
        self._queues = queues
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._read_at = float("-inf")
        """When the queue was last read and empty, by the monotonic clock."""
        self._found = False
        """True if the last read found something."""

    def note_change(self, *, queued: bool) -> None:
        """Signal a change; for any thread. `queued`: whether a run is queued now."""
        with contextlib.suppress(RuntimeError):
            # The loop may be closed.
            self._loop.call_soon_threadsafe(self._wake_if_queued, queued)

    def _wake_if_queued(self, queued: bool) -> None:  # noqa: FBT001 - the loop gives no names
        if queued or self._found:
            self._read_at = float("-inf")
            self._changed.set()

    async def here(self) -> Frame:
        """Return a frame of what is queued now."""
        return await self.look(_PLACE, _PLACE)

    async def end(self) -> str:
        """Return the only place."""
        return _PLACE

    async def look(self, place: str, start: str) -> Frame:
        """Return a frame whose text names the first task to claim; empty if there is none."""
        del place, start
        clock, text = self._queues.clock, ""
        now = clock.monotonic()
        if now - self._read_at >= self._queues.recheck_seconds:
            task = self._queues.read_first(self.role)
            self._found = task is not None
            # A task found may be claimed any moment, so read again next time.
            self._read_at = now if task is None else float("-inf")
            text = targets.describe_queued_task(task, self.role) if task else ""
        return Frame(seen_at=clock.now(), place=_PLACE, text=text)

    async def wait_for_change(self) -> None:
        """Return when a commit has changed this queue."""
        await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        """Stop receiving signals."""
        self._queues.forget_queue(self)


class _QueueJudge:
    """Implements `Judge` for the queue of one role."""

    name = "rules"

    def __init__(self, role: str) -> None:
        self._role = role

    async def rule(self, frame: Frame) -> Ruling:
        """Return yes if the frame names a task."""
        if frame.text:
            return Ruling(met=Met.YES, observation=frame.text)
        return Ruling(met=Met.NO, observation=f"Nothing is queued for {self._role}.")
