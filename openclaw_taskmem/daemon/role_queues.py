"""The queues of roles, watched: commits say when one has changed.

The store is read when a commit has queued a run for that role, or has touched one
where one was queued, and now and then besides: what a session that is gone has left
becomes the role's by time alone, and another daemon on the same database tells nobody
here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import Final

from openclaw_taskmem.domain import queues as rules
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.role_queues import find_claimable
from openclaw_taskmem.plugin_host import validation
from taskmem_hookspecs import Clock, Condition, Frame, Met, Ruling, Target, Task

ALONE_SECONDS: Final = 60.0
"""Between two looks at a queue of which no commit told, at most."""
SHARED_SECONDS: Final = 5.0
"""The same where other daemons write to the database."""
_PLACE: Final = "now"
"""A queue has no places: what is queued counts, whenever it came."""


class Queues:
    """Plays `Sensor` for the queues, and finds who judges them."""

    def __init__(self, clock: Clock, context: Callable[[], Context]) -> None:
        """Take where the queues are, once there is a call that asks for one."""
        self.clock: Final = clock
        self._context = context
        self._watched: set[Queue] = set()

    async def watch(self, target: Target) -> Queue:
        """Begin to watch a queue; it is there, also while it is empty."""
        queue = Queue(target.name, self)
        self._watched.add(queue)
        return queue

    def note_changes(self, roles: Collection[str | None], queued: Collection[str | None]) -> None:
        """Take note that a commit touched runs of roles; called from any thread.

        None among them: one that any role may claim. `queued`: those of them for which
        one is queued now; any other matters only where something was queued before.
        """
        for queue in tuple(self._watched):
            if not {queue.role, None}.isdisjoint(roles):
                queue.note_change(queued=not {queue.role, None}.isdisjoint(queued))

    @staticmethod
    def find_judges(target: Target, condition: Condition) -> validation.Judges:
        """Return who judges a condition on a queue: there is but one condition."""
        refusal = rules.refuse_condition(condition)
        found = () if refusal else (QueueJudge(target.name),)
        return validation.Judges(found, (), refusal)

    def read_first(self, role: str) -> Task | None:
        """Return what a role could claim now; called on the lane of the queues."""
        return find_claimable(self._context(), role)

    @property
    def recheck_seconds(self) -> float:
        """How many seconds a look counts that no commit has ended."""
        return SHARED_SECONDS if self._context().store.is_shared else ALONE_SECONDS

    def forget_queue(self, queue: Queue) -> None:
        """Tell a watch of no commit any more."""
        self._watched.discard(queue)


class Queue:
    """Plays `Watch` for one role's queue."""

    def __init__(self, role: str, queues: Queues) -> None:
        """Take whose it is; made on the lane on which it is asked."""
        self.role: Final = role
        self._queues = queues
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._read_at = float("-inf")
        """By the monotonic clock: when the queue was read, and was empty."""
        self._found = False
        """Whether something was queued when it was read last."""

    def note_change(self, *, queued: bool) -> None:
        """Take note of what is queued, or is not any more; called from any thread."""
        with contextlib.suppress(RuntimeError):
            # The lane may have ended.
            self._loop.call_soon_threadsafe(self._wake_if_queued, queued)

    def _wake_if_queued(self, queued: bool) -> None:  # noqa: FBT001 - the loop gives no names
        if queued or self._found:
            self._read_at = float("-inf")
            self._news.set()

    async def here(self) -> Frame:
        """Return what is queued now."""
        return await self.look(_PLACE, _PLACE)

    async def end(self) -> str:
        """Return the place that all of it has."""
        return _PLACE

    async def look(self, place: str, start: str) -> Frame:
        """Return what is queued, as the sentence that tells a role of it."""
        del place, start
        clock, text = self._queues.clock, ""
        now = clock.monotonic()
        if now - self._read_at >= self._queues.recheck_seconds:
            task = self._queues.read_first(self.role)
            self._found = task is not None
            # What was found may be claimed in a moment, and is looked for again.
            self._read_at = now if task is None else float("-inf")
            text = rules.describe_queued(task, self.role) if task else ""
        return Frame(seen_at=clock.now(), place=_PLACE, text=text)

    async def wait_for_change(self) -> None:
        """Return when a commit has changed what is queued here."""
        await self._news.wait()
        self._news.clear()

    async def close(self) -> None:
        """Hear of no commit any more."""
        self._queues.forget_queue(self)


class QueueJudge:
    """Plays `Judge` for one role's queue."""

    name = "rules"

    def __init__(self, role: str) -> None:
        """Take whose queue it is."""
        self._role = role

    async def rule(self, frame: Frame) -> Ruling:
        """Return whether anything is queued."""
        if frame.text:
            return Ruling(met=Met.YES, observation=frame.text)
        return Ruling(met=Met.NO, observation=rules.describe_empty(self._role))
