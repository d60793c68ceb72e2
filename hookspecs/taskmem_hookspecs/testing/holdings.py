"""All that a store holds, to compare it with what another holds."""

from __future__ import annotations

from taskmem_hookspecs.model import Value
from taskmem_hookspecs.roles import TaskStore

ALL = 1_000_000
"""More than any test writes."""


def everything(store: TaskStore) -> dict[str, list[Value]]:
    """Return all rows of a store, but for its bookmarks."""
    tasks = store.list_tasks(None, ALL)
    return {
        "tasks": list(tasks),
        "messages": [m for task in tasks for m in store.read_thread(task.task_id)],
        "revisions": [r for task in tasks for r in store.read_revisions(task.task_id)],
        "waits": list(store.list_waits(None, None, ALL)),
        "wakes": list(store.list_wakes(None, None, ALL)),
        "events": list(store.list_events(0, ALL)),
    }
