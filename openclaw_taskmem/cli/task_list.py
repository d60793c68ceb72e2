"""Format the tasks of a home as rows, those that wait for somebody first."""

from __future__ import annotations

from typing import Any, Final

from openclaw_taskmem.cli.detail_text import format_line

WAITS: Final = {
    "claim": "queued for {role} since {since}",
    "review": "for your review since {since}",
    "word": "for your word since {since}",
}
"""What a task waits for, in words for people; a question is printed itself."""


def merge_waiting_first(waiting: Any, others: Any, limit: int) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Merge two answers of `task_list`: tasks that wait, then the others.

    `limit`: number of tasks, at most.
    """
    first = waiting["tasks"]
    known = {task["task_id"] for task in first}
    rest = [task for task in others["tasks"] if task["task_id"] not in known]
    tasks = [*first, *rest][:limit]
    if not first:
        message = others["message"]
    elif len(tasks) == len(first):
        message = waiting["message"]
    else:
        message = (
            f"{len(tasks)} tasks, what waits the longest first, then the latest of the "
            "others. See one with: taskmem show ID"
        )
    return {**others, "tasks": tasks, "message": message}


def format_task_rows(found: Any) -> list[list[str]]:  # noqa: ANN401 - JSON
    """Return a row for each task in an answer of `task_list`."""
    return [
        [
            task["task_id"],
            task["status"],
            task["last_update"],
            f"{task['plan_steps']} step{'' if task['plan_steps'] == 1 else 's'}",
            format_line(f"{task['name']}{_describe_wait(task)}", 240),
        ]
        for task in found["tasks"]
    ]


def _describe_wait(task: Any) -> str:  # noqa: ANN401 - JSON
    """Return what a task waits for, as shown in its row; empty: nothing."""
    if "question" in task:
        return f" (asks: {task['question']})"
    waits = task.get("waits_for")
    if waits is None or waits["what"] not in WAITS:
        return ""
    day, _, clock = waits["since"].partition("T")
    since = f"{day} {clock[:5]} UTC"
    role = waits.get("role") or "anybody"
    return f" ({WAITS[waits['what']].format(role=role, since=since)})"
