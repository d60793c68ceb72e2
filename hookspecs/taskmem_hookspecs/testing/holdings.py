"""All that a store holds, to compare it with what another holds."""

from __future__ import annotations

from taskmem_hookspecs.roles import TaskStore
from taskmem_hookspecs.value import Value

ALL = 1_000_000
"""More than any test writes."""


def everything(store: TaskStore) -> dict[str, list[Value]]:
    """Return all rows of a store, but for its bookmarks."""
    tasks = store.list_tasks(None, ALL, implicit=None)
    runs = store.list_runs(None, None, ALL)
    return {
        "tasks": list(tasks),
        "messages": [m for task in tasks for m in store.read_thread(task.task_id)],
        "revisions": [r for task in tasks for r in store.read_revisions(task.task_id)],
        "waits": list(store.list_waits(None, None, ALL)),
        "wakes": list(store.list_wakes(None, None, ALL)),
        "runs": list(runs),
        "checkpoints": [c for r in runs for c in store.read_checkpoints(r.run_id, ALL)],
        "artifacts": [a for t in tasks for a in store.read_task(t.task_id).artifacts],
        "ledger": [e for t in tasks for e in store.read_ledger(t.task_id)],
        "folders": [f for t in tasks for f in store.read_folders(t.task_id)],
        "events": list(store.list_events(0, ALL)),
    }
