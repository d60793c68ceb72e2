"""The tasks of this home, for sources of `memory_recall` that follow them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence

from openclaw_taskmem.engine.scoped_store import ScopedStore
from taskmem_hookspecs import (
    EventQuery,
    LedgerEntry,
    Message,
    PlanRevision,
    Task,
    TaskChanges,
    TaskNotFound,
    TaskQuery,
    TaskRecord,
)


class StoredHistory:
    """The `TaskHistory` of a store, without implicit tasks and those of other homes."""

    def __init__(self, store: ScopedStore) -> None:
        self._store = store
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()

    def find_end(self) -> int:
        """Return the id of the newest event; 0: there is none."""
        newest = self._store.find_events(EventQuery(limit=1))
        return newest[-1].event_id if newest else 0

    def list_changes(self, after: int, limit: int) -> TaskChanges:
        """Return the tasks that the next `limit` events after an event id are about."""
        read = self._store.find_events(EventQuery(after=after, limit=limit))
        named = dict.fromkeys(event.task_id for event in reversed(read) if event.task_id)
        own = [task_id for task_id in reversed(named) if self._find_own_task(task_id)]
        return TaskChanges(task_ids=tuple(own), place=read[-1].event_id if read else after)

    def list_tasks(self, after: str, limit: int) -> Sequence[Task]:
        """Return at most `limit` tasks with ids greater than `after`, in order of id."""
        query = TaskQuery(after=after, limit=limit, implicit=False)
        return [task for task in self._store.find_tasks(query) if self._store.serves(task.home)]

    def read_task(self, task_id: str) -> TaskRecord | None:
        """Return a task; None: the home has no such task."""
        task = self._find_own_task(task_id)
        if task is None:
            return None
        return TaskRecord(
            task=task,
            revisions=tuple(self._store.read_records(PlanRevision, task_id)),
            made=tuple(self._store.read_records(LedgerEntry, task_id)),
        )

    def read_messages(self, task_id: str, limit: int | None = None) -> Sequence[Message]:
        """Return the newest messages of a task, oldest first; `limit` None: all."""
        return self._store.read_records(Message, task_id, limit)

    async def wait_for_changes(self, after: int) -> None:
        """Return once the log may have an event after that id, on any event loop."""
        changed = asyncio.Event()
        with self._lock:
            self._waiting[changed] = asyncio.get_running_loop()
        try:
            # Looked at only now, so that no commit is missed between the look and the wait.
            if await asyncio.to_thread(self.find_end) <= after:
                await changed.wait()
        finally:
            with self._lock:
                del self._waiting[changed]

    def note_commit(self) -> None:
        """Wake all that wait for changes, in the thread that committed."""
        if not self._waiting:
            return
        with self._lock:
            waiting = [*self._waiting.items()]
        for changed, loop in waiting:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(changed.set)

    def _find_own_task(self, task_id: str) -> Task | None:
        with contextlib.suppress(TaskNotFound):
            task = self._store.read_task(task_id).task
            return task if self._store.serves(task.home) and not task.implicit else None
        return None
