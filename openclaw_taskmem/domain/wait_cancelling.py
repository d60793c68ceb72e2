"""Cancel the open waits of a task together with it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from openclaw_taskmem.domain.waits import WaitFacts, close_wait
from taskmem_hookspecs import Change, TaskFacts, TaskStatus, WaitOutcome, WaitStatus

_REASON: Final = "Its task was cancelled."


def cancel_open_waits(facts: TaskFacts, change: Change, now: datetime) -> Change:
    """Add to the change that cancels a task the end of its open waits; another stays as it is.

    The task's row in `change` is the one on which the waits' thread entries are counted.
    """
    task = next(iter(change.tasks), facts.task)
    if task.status is not TaskStatus.CANCELLED or facts.task.status is TaskStatus.CANCELLED:
        return change
    after = facts.model_copy(update={"task": task})
    for wait in facts.waits:
        outcome = WaitOutcome(
            status=WaitStatus.CANCELLED,
            observation=_REASON,
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
        change = change.model_copy(update={**more, "tasks": ended.tasks})
    return change
