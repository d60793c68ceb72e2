"""The tasks of this home, for sources of `memory_recall` that search them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from openclaw_taskmem.engine.scoped_store import ScopedStore
from taskmem_hookspecs import (
    LedgerEntry,
    Message,
    PlanRevision,
    Task,
    TaskNotFound,
    TextMatches,
    TextQuery,
)


class StoredHistory:
    """The `TaskHistory` of a store, without implicit tasks and those of other homes."""

    def __init__(self, store: ScopedStore) -> None:
        self._store = store

    def find_texts(self, query: TextQuery) -> Mapping[str, TextMatches]:
        """Return for each pattern of a query the texts that have it."""
        return self._store.find_texts(query)

    def read_task(self, task_id: str) -> Task | None:
        """Return a task; None: the home has no such task."""
        with contextlib.suppress(TaskNotFound):
            task = self._store.read_task(task_id).task
            return task if self._store.serves(task.home) and not task.implicit else None
        return None

    def list_other_texts(self, task_id: str) -> Sequence[str]:
        """Return the replaced steps of a task, and the paths that it made."""
        revisions = self._store.read_records(PlanRevision, task_id)
        made = self._store.read_records(LedgerEntry, task_id)
        steps = (step for revision in revisions for step in revision.old_plan)
        return [*dict.fromkeys(steps), *(entry.path for entry in made)]

    def read_message(self, task_id: str, message_id: int) -> Message | None:
        """Return a message of a task; None: there is no such message."""
        newest = self._store.read_records(Message, task_id, 1, before=message_id + 1)
        return next((each for each in newest if each.message_id == message_id), None)
