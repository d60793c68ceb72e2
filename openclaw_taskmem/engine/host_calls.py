"""Record the tool calls that the hooks of a host without a gateway report.

The tasks of such a host have no run, and need none: nobody leases or continues them. Their calls
are kept by a run that is never open (`current_run.name_record`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from openclaw_taskmem.domain.changes import continuation
from openclaw_taskmem.domain.effects import checkpoints
from openclaw_taskmem.domain.effects.checkpoints import CallEndEntry, CallStartEntry
from openclaw_taskmem.domain.effects.side_effects import Effect, is_shell, judge_call
from openclaw_taskmem.domain.runs.machine import add_to_record, begin_record
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.engine import ledger
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.ledger import FileActivity
from openclaw_taskmem.engine.run_guards import list_own_tasks
from openclaw_taskmem.engine.run_history import find_record
from taskmem_hookspecs import Change, Checkpoint, Run, Task, TaskFacts, TaskStatus


def record_call(
    context: Context, session_key: str, entry: CallEndEntry, deed: FileActivity, folder: str | None
) -> None:
    """Write the checkpoints and files of a call that has ended, for the session's latest task.

    `folder` is the agent's working directory; None: unknown. Of a call that only reads, nothing is
    kept, nor of one that is harmless and of which nobody tells how it ended.
    """
    own = list_own_tasks(context, session_key, None, (TaskStatus.ACTIVE,))
    task = continuation.find_open_task(own, session_key, None)
    if task is None:
        return
    used = ledger.find_used_folders(context, _take_record(context, task, folder), deed)

    def write(facts: TaskFacts, now: datetime) -> Decision[None]:
        if facts.task.status is not TaskStatus.ACTIVE:
            return Change(), None
        run = _take_record(context, facts.task, folder, ended=entry.ok is not None)
        more = ledger.build_call_change(context, facts, run, deed, used, now=now)
        effect = judge_call(entry.tool, entry.about, entry.method, changed=bool(more.ledger))
        tells = is_shell(entry.tool) and entry.ok is not None
        if effect is Effect.NOTHING and not (tells or more.ledger):
            return Change(folders=more.folders), None
        told = entry.model_copy(
            update={"effect": effect, "step": compute_progress(facts.task).current}
        )
        return more.model_copy(
            update={"runs": (run,), "checkpoints": _build_checkpoints(run, told, now)}
        ), None

    context.update_task(task.task_id, write)


def _take_record(context: Context, task: Task, folder: str | None, *, ended: bool = False) -> Run:
    """Return the record of a task's calls with one more, begun if there is none."""
    now = context.clock.now()
    run = find_record(context, task.task_id) or begin_record(task, now)
    return add_to_record(run, folder, now, ended=ended)


def _build_checkpoints(
    run: Run, entry: CallEndEntry, now: datetime
) -> tuple[Checkpoint, Checkpoint]:
    shared = {name: getattr(entry, name) for name in CallStartEntry.model_fields if name != "kind"}
    began = now - timedelta(milliseconds=entry.milliseconds)
    last = run.progress.checkpoints
    return (
        checkpoints.build_checkpoint(run.run_id, last - 1, CallStartEntry(**shared), began),
        checkpoints.build_checkpoint(run.run_id, last, entry, now),
    )
