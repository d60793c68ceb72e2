"""Cancel the open waits of a task that ends."""

from __future__ import annotations

from datetime import datetime

from openclaw_taskmem.domain.changes.waits import WaitFacts, close_wait
from taskmem_hookspecs import Change, Task, TaskFacts, WaitOutcome, WaitStatus


def cancel_open_waits(facts: TaskFacts, task: Task, change: Change, now: datetime) -> Change:
    """Add to the change that ends a task the end of its open waits.

    `facts` is the task before it, and `task` its row in the change, on which the waits' thread
    entries are counted.
    """
    after = facts.model_copy(update={"task": task})
    for wait in facts.waits:
        outcome = WaitOutcome(
            status=WaitStatus.CANCELLED,
            observation=f"Its task is {task.status}.",
            elapsed_seconds=max(0.0, (now - wait.armed_at).total_seconds()),
        )
        ended = close_wait(WaitFacts(wait=wait, task=after), outcome, wake_id="", now=now)
        if ended.empty:
            continue
        closed = {each.wait_id: each for each in ended.waits}
        known = tuple(closed.get(each.wait_id, each) for each in after.waits)
        after = after.model_copy(update={"task": ended.tasks[0], "waits": known})
        more = {
            name: (*getattr(change, name), *getattr(ended, name))
            for name in ("waits", "messages", "events")
        }
        change = change.model_copy(update=more)
    rows = (after.task if row.task_id == task.task_id else row for row in change.tasks)
    return change.model_copy(update={"tasks": tuple(rows)})
