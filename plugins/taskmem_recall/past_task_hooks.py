"""The hooks of past tasks, a source that can be switched off alone."""

from __future__ import annotations

from taskmem_hookspecs import Clock, RecallSource, TaskHistory, hookimpl
from taskmem_recall.past_tasks import PastTasks


@hookimpl
def recall_source(history: TaskHistory, clock: Clock) -> RecallSource:
    """Return the past tasks of the home."""
    return PastTasks(history, clock)
