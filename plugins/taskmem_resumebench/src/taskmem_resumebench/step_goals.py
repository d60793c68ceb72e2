"""Describe how a run meets what was asked of resuming: steps, kills, times and sizes.

Source: docs/origins.md, "A benchmark of resuming".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import mean, median

from pydantic import JsonValue

from taskmem_resumebench.figures import find_percentile
from taskmem_resumebench.interrupted_run import Outcome


def describe_goals(
    five: Sequence[Outcome],
    ten: Sequence[Outcome],
    killed: Outcome,
    checkpoint_bytes: Sequence[int],
) -> dict[str, JsonValue]:
    """Return the figures that were asked for.

    Args:
        five: Tasks of five steps.
        ten: Tasks of ten steps.
        killed: A task during which the agent was killed three times.
        checkpoint_bytes: The size of each checkpoint.
    """
    every = [*five, *ten, killed]
    return {
        "five_steps": _describe_completion(five),
        "ten_steps": _describe_completion(ten),
        "kills": killed.interruptions,
        "resumes": killed.resumed if killed.success else 0,
        "checkpoint_bytes": {
            "median": round(median(checkpoint_bytes)),
            "largest": max(checkpoint_bytes),
        },
        "metrics": {
            "tasks": len(every),
            "completed": sum(each.success for each in every),
            "failed": sum(not each.success for each in every),
            "mean_steps": round(mean(each.judgement.needed for each in every), 2),
            "mean_resumes": round(mean(each.resumed for each in every), 2),
        },
    }


def describe_times(outcomes: Sequence[Outcome]) -> dict[str, JsonValue]:
    """Return how long these tasks and their steps took."""
    times = [seconds for each in outcomes for seconds in each.step_seconds]
    return {
        "step_seconds": {"median": round(median(times), 4), "p95": find_percentile(times, 95)},
        "task_seconds": round(mean(each.seconds for each in outcomes), 3),
    }


def read_checkpoint_sizes(database: Path) -> list[int]:
    """Return the size in bytes of each checkpoint in a home's database."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as found:
        rows = found.execute("SELECT length(CAST(body AS BLOB)) FROM checkpoints").fetchall()
    return [int(size) for (size,) in rows]


def _describe_completion(outcomes: Sequence[Outcome]) -> JsonValue:
    complete = sum(each.success for each in outcomes)
    return {
        "tasks": len(outcomes),
        "completed": complete,
        "completion_rate": round(complete / len(outcomes), 4),
    }
