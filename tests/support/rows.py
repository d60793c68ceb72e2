"""Rows of every table: some to write, and all that a store holds, to compare them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from taskmem_hookspecs import (
    Bookmark,
    Change,
    Checkpoint,
    EventQuery,
    LedgerEntry,
    Message,
    PlanRevision,
    Run,
    RunQuery,
    RunState,
    Task,
    TaskQuery,
    TaskStore,
    Value,
    Wait,
    WaitQuery,
    Wake,
    WakeQuery,
    WorkFolder,
)
from taskmem_hookspecs.roles import FOREVER
from taskmem_hookspecs.testing import (
    a_checkpoint,
    a_folder,
    a_message,
    a_revision,
    a_run,
    a_task,
    a_wait,
    a_wake,
    an_artifact,
    an_entry,
    an_event,
)


def rows_of_task(number: int, due: datetime) -> Change:
    """Return one row of each table, due at an instant, all of one task."""
    own = {"task_id": f"task_{number}"}
    run = {"run_id": f"run_{number}"}
    return Change(
        tasks=(a_task(**own, stuck_due_at=due),),
        runs=(
            a_run(**own, **run, state=RunState.RUNNING, session_key=f"s{number}", lease_until=due),
        ),
        waits=(a_wait(**own, wait_id=f"wait_{number}"),),
        wakes=(a_wake(**own, wake_id=f"wake_{number}", due_at=due),),
        artifacts=(an_artifact(**own, artifact_id=f"artifact_{number}"),),
        checkpoints=(a_checkpoint(**run),),
        messages=(a_message(**own),),
        revisions=(a_revision(**own),),
        events=(an_event(**own),),
        ledger=(an_entry(**own),),
        folders=(a_folder(**own),),
    )


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
