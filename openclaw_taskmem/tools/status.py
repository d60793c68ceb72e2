"""The tool that reports the state of a task and its run.

Source: docs/origins.md, "Resuming by the user's word".
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.changes import run_calls, task_update
from openclaw_taskmem.domain.effects.checkpoints import PastCall
from openclaw_taskmem.domain.tasks import ledger, thread
from openclaw_taskmem.domain.tasks.plan import compute_progress, describe_progress
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import format_count, format_duration, format_iso
from openclaw_taskmem.domain.wakes import packet
from openclaw_taskmem.engine import task_standing as engine
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.run_history import HistoryPosition
from openclaw_taskmem.engine.task_standing import TaskOverview
from openclaw_taskmem.tools import forms
from openclaw_taskmem.tools.tool import Answer
from taskmem_hookspecs import InvalidArguments, LedgerEntry, Message, Run, Task

MOST_LINES: Final = 30
"""Lines of `do_not_redo` and of `unknown_outcome` in the answer of `task_status`, at most."""
_PLACE: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,9})\.([0-9]{1,9})")


def task_status(context: Context, form: forms.TaskStatusForm, caller: Caller) -> Answer:
    """Report the state of a task and its run."""
    place = _parse_position(form.before)
    standing = engine.read_overview(context, form.task_id, caller, place)
    task, run = standing.task, standing.run
    if place is not None:
        return {
            "task_id": task.task_id,
            "name": task.name,
            "status": task.status,
            **_describe_history(standing),
            "message": "Older calls, the newest first.",
        }
    current = compute_progress(task).current
    newest = context.store.read_records(Message, task.task_id, thread.READ)
    since = (run.started_at if run else None) or task.created_at
    ended = (run.ended_at if run else None) or standing.now
    elapsed = max((ended - since).total_seconds(), 0.0)
    calls = run.progress.calls if run and run_calls.has_visible_calls(run) else None
    took = f"after {format_duration(elapsed)}"
    if calls is not None:
        took = f"{format_count(calls, 'tool call')} in {format_duration(elapsed)}"
    return {
        "task_id": task.task_id,
        "name": task.name,
        "status": task.status,
        "implicit": task.implicit,
        "metadata": dict(task.metadata),
        "run": None if run is None else describe_run(run),
        "step": None if current is None else current + 1,
        "steps": _describe_steps(task, run),
        "plan_progress": describe_progress(task),
        "tool_calls": calls,
        **_describe_past_work(standing),
        **_describe_history(standing),
        "budget_left": None if standing.budget is None else standing.budget.left,
        "elapsed_seconds": round(elapsed, 3),
        **ledger.describe_ledger(
            context.store.read_records(LedgerEntry, task.task_id), ledger.MOST_ENTRIES
        ),
        "message": (
            f"{_describe_state(task, run)}, {took}. "
            f"{task_update.describe_next_step(task, newest, run)}"
        ),
    }


def describe_run(run: Run) -> dict[str, JsonValue]:
    """Return a run as tools show it."""
    return {
        "run_id": run.run_id,
        "state": run.state,
        "why": run.why,
        **({"question": run.dialogue.question} if run.dialogue.question is not None else {}),
        "role": run.owner.role if run.owner else run.role,
        "session_key": run.session_key,
        "token": run.token,
        "tries": run.limits.tries,
        "checkpoints": run.progress.checkpoints,
    }


def _describe_steps(task: Task, run: Run | None) -> list[JsonValue]:
    failed = run.budget.failed_steps if run else ()
    current = compute_progress(task).current

    def state(index: int) -> str:
        if index in task.done:
            return "done"
        if index in failed:
            return "failed"
        return "running" if index == current else "pending"

    return [
        {"step": step.index + 1, "text": step.text, "state": state(step.index)}
        for step in task.steps
    ]


def _describe_past_work(standing: TaskOverview) -> Answer:
    """Return all that is needed to go on with a task, besides the plan."""
    past = standing.past
    done, cut = (
        packet.list_done_calls(past.calls),
        packet.list_cut_calls(past.calls),
    )
    more = max(len(done) - MOST_LINES, 0) + past.unread
    return {
        "original_request": standing.task.original_request,
        "last_response": past.last_response,
        "conversation": [{"role": line.role, "text": line.text} for line in past.messages],
        "still_running": [
            {
                "kind": each.kind,
                "name": each.name,
                "about": scrub(each.about),
                "since": format_iso(each.since),
            }
            for each in standing.still_running
        ],
        "do_not_redo": [*done[:MOST_LINES]],
        **({"past_more": more} if more else {}),
        "unknown_outcome": [*cut[-MOST_LINES:]],
    }


def _describe_history(standing: TaskOverview) -> Answer:
    more = standing.page.more
    given = None if more is None else f"{more.run}.{more.before or 0}.{more.left}"
    arguments: Answer = {"task_id": standing.task.task_id, "before": given}
    return {
        "tool_history": [_describe_call(call) for call in standing.page.calls],
        "more": None if more is None else {"left": more.left, "arguments": arguments},
    }


def _describe_call(call: PastCall) -> dict[str, JsonValue]:
    return {
        "tool": call.tool,
        "about": call.about,
        "outcome": "unknown" if call.ok is None else "ok" if call.ok else "failed",
        "exit_code": call.exit_code,
        "at": format_iso(call.at),
    }


def _parse_position(before: str | None) -> HistoryPosition | None:
    """Return the position at which a page of the history begins; None: at the newest call.

    Raises:
        InvalidArguments: It is not a position from `more`.
    """
    if before is None:
        return None
    match = _PLACE.fullmatch(before)
    if match is None:
        raise InvalidArguments(
            "before must be as the answer's more.arguments gave it; leave it out to "
            "begin with the newest calls."
        )
    run, number, left = map(int, match.groups())
    return HistoryPosition(run=run, before=number or None, left=left)


def _describe_state(task: Task, run: Run | None) -> str:
    if run is None:
        return f"The task is {task.status}, and nobody holds it"
    why = f" ({run.why})" if run.why else ""
    return f"The task is {task.status}, its run {run.state}{why}"
