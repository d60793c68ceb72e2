"""Read all rows of a store, to compare two stores, and its next due times."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from taskmem_hookspecs.evidence import LedgerEntry, WorkFolder
from taskmem_hookspecs.model import Bookmark, Message, PlanRevision, Task, Wait, Wake
from taskmem_hookspecs.queries import FOREVER, EventQuery, RunQuery, TaskQuery, WaitQuery, WakeQuery
from taskmem_hookspecs.roles import TaskStore
from taskmem_hookspecs.runs import Checkpoint, Run
from taskmem_hookspecs.value import Value

ALL = 1_000_000
"""A limit larger than any test's number of rows."""


_IDS = {Task: "task_id", Wait: "wait_id", Wake: "wake_id", Run: "run_id"}


def extract_ids(rows: Iterable[Task | Wait | Wake | Run]) -> list[str]:
    """Return the ids of rows, in the same order."""
    return [getattr(row, _IDS[type(row)]) for row in rows]


def read_all_rows(store: TaskStore) -> dict[str, list[Value]]:
    """Return all rows of a store, except its bookmarks."""
    tasks = store.find_tasks(TaskQuery())
    runs = store.find_runs(RunQuery())
    return {
        "tasks": list(tasks),
        "messages": [m for task in tasks for m in store.read_records(Message, task.task_id)],
        "revisions": [r for task in tasks for r in store.read_records(PlanRevision, task.task_id)],
        "waits": list(store.find_waits(WaitQuery())),
        "wakes": list(store.find_wakes(WakeQuery())),
        "runs": list(runs),
        "checkpoints": [c for r in runs for c in store.read_records(Checkpoint, r.run_id, ALL)],
        "artifacts": [a for t in tasks for a in store.read_task(t.task_id).artifacts],
        "ledger": [e for t in tasks for e in store.read_records(LedgerEntry, t.task_id)],
        "folders": [f for t in tasks for f in store.read_records(WorkFolder, t.task_id)],
        "events": list(store.find_events(EventQuery())),
    }


def find_next_stuck_due(store: TaskStore, home: str | None = None) -> datetime | None:
    """Return the earliest `stuck_due_at` of an active task; None if there is none."""
    found = store.find_tasks(TaskQuery(due_by=FOREVER, limit=1, home=home))
    return next((task.stuck_due_at for task in found), None)


def find_next_wake_due(store: TaskStore, home: str | None = None) -> datetime | None:
    """Return the earliest `due_at` of a wake; None if there is none."""
    found = store.find_wakes(WakeQuery(due_by=FOREVER, limit=1, home=home))
    return next((wake.due_at for wake in found), None)


def find_next_lapse(store: TaskStore, home: str | None = None) -> datetime | None:
    """Return the earliest `lease_until` of a run; None if there is none."""
    found = store.find_runs(RunQuery(lapsed_by=FOREVER, limit=1, home=home))
    return next((run.lease_until for run in found), None)


def read_bookmark(store: TaskStore, name: str) -> str | None:
    """Return the value of a bookmark; None if it was never set."""
    return next((b.value for b in store.read_records(Bookmark, name)), None)
