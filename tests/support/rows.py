"""Rows of every table: some to write, and all that a store holds, to compare them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from taskmem_hookspecs import (
    Change,
    EventQuery,
    Message,
    RunQuery,
    RunState,
    TaskQuery,
    TaskStore,
    WaitQuery,
    WakeQuery,
)
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

MOST = 100_000


def read_rows(store: TaskStore) -> dict[str, Any]:
    """Return the rows of all tables that calls write, by table."""
    tasks = [*store.find_tasks(TaskQuery(implicit=False))]
    tasks += store.find_tasks(TaskQuery(implicit=True))
    return {
        "tasks": tasks,
        "messages": [m for task in tasks for m in store.read_records(Message, task.task_id)],
        "runs": store.find_runs(RunQuery()),
        "waits": store.find_waits(WaitQuery()),
        "wakes": store.find_wakes(WakeQuery()),
        "events": store.find_events(EventQuery()),
    }


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
