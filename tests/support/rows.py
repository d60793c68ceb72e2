"""Everything that a store holds, to be compared before and after a call."""

from __future__ import annotations

from typing import Any

from taskmem_hookspecs import TaskStore

MOST = 100_000


def read_rows(store: TaskStore) -> dict[str, Any]:
    """Return the rows of all tables that calls write, by table."""
    tasks = [*store.list_tasks(None, MOST)]
    tasks += store.list_tasks(None, MOST, implicit=True)
    return {
        "tasks": tasks,
        "messages": [m for task in tasks for m in store.read_thread(task.task_id)],
        "runs": store.list_runs(None, None, MOST),
        "waits": store.list_waits(None, None, MOST),
        "wakes": store.list_wakes(None, None, MOST),
        "events": store.list_events(0, MOST),
    }
