"""Sum up how tasks went. Source: docs/origins.md, "A benchmark of resuming"."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

from taskmem_hookspecs.model import TaskStatus, Value


class TaskFigures(NamedTuple):
    """The figures of one task."""

    status: TaskStatus
    steps: int
    resumes: int
    """How often it was taken up again."""
    seconds: float | None = None
    """From its registration to its completion; None: not completed, or not measured."""


class TaskMetrics(Value):
    """The figures of several tasks."""

    tasks: int
    completed: int
    failed: int
    mean_steps: float | None = None
    mean_resumes: float | None = None
    mean_seconds: float | None = None
    """None: of no task is it known."""


def compute_metrics(figures: Sequence[TaskFigures]) -> TaskMetrics:
    """Return the figures of several tasks, to two decimals."""
    times = [each.seconds for each in figures if each.seconds is not None]
    return TaskMetrics(
        tasks=len(figures),
        completed=sum(each.status is TaskStatus.COMPLETED for each in figures),
        failed=sum(each.status is TaskStatus.FAILED for each in figures),
        mean_steps=round(mean(each.steps for each in figures), 2) if figures else None,
        mean_resumes=round(mean(each.resumes for each in figures), 2) if figures else None,
        mean_seconds=round(mean(times), 2) if times else None,
    )
