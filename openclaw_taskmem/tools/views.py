"""Convert the overview to JSON, for the command line and the page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from statistics import mean
from typing import Final, cast

from pydantic import JsonValue

from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.retention import describe_dropped
from openclaw_taskmem.domain.runs.current_run import OPEN_STATES
from openclaw_taskmem.domain.tasks import ledger
from openclaw_taskmem.domain.tasks.lifecycle import OPEN_STATUSES
from openclaw_taskmem.domain.tasks.proofs import list_proofs
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import format_iso_millis, to_epoch
from openclaw_taskmem.domain.views import timeline
from openclaw_taskmem.domain.views.overview import TaskLine
from openclaw_taskmem.engine import lookup
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.overview import Overview, read_line
from openclaw_taskmem.engine.recall import list_activity
from openclaw_taskmem.engine.run_history import find_last_runs, find_runs
from openclaw_taskmem.engine.run_recovery import list_unheard
from openclaw_taskmem.engine.wakes import Holds, count_hostless, hold_nothing
from openclaw_taskmem.tools.tool import Answer
from taskmem_hookspecs import (
    Event,
    EventQuery,
    InvalidArguments,
    LedgerEntry,
    Message,
    PlanRevision,
    Run,
    RunQuery,
    Task,
    TaskQuery,
    TaskStatus,
    Value,
    Wait,
    WaitQuery,
    WaitStatus,
    Wake,
    WakeQuery,
    WakeState,
)


def describe_overview(found: Overview) -> Answer:
    """Return the overview, its tasks by section."""
    return {
        "now": format_iso_millis(found.now),
        "sections": {
            section.value: [_describe_line(line) for line in lines]
            for section, lines in found.sections.items()
        },
        "unlisted": found.unlisted,
        "unlisted_failed": found.unlisted_failed,
        "all_ended": found.all_ended,
        "loss": found.loss,
    }


def describe_list(lines: Sequence[TaskLine], now: datetime) -> Answer:
    """Return a list of tasks."""
    return {
        "now": format_iso_millis(now),
        "tasks": [_describe_line(line) for line in lines],
    }


def _describe_line(line: TaskLine) -> JsonValue:
    return cast("JsonValue", line.model_dump(mode="json"))


# --- lists and single rows -----------------------------------------------------------------


View = dict[str, JsonValue]
PAGE_BYTES: Final = 256 * 1024
"""Bytes of JSON for the messages of a thread in one answer."""
DEFAULT_ROWS: Final = 1000
"""Rows in a list by default."""
MOST_ROWS: Final = 1_000_000
"""Rows that a list may be asked for."""

FindTransport = Callable[[str | None, str | None], str | None]
"""Returns the name of the transport that reaches a host's session; None: none does."""
WaitExtras = Callable[[Wait], View]
"""Returns the fields of a wait that are not in its row, such as its pictures."""


def summarize_store(context: Context) -> View:
    """Return how many rows of each kind there are, by state, and the database's size."""
    found, newest = context.store.count(), context.store.find_events(EventQuery(limit=1))
    return {
        "tasks": {state.value: number for state, number in found.tasks.items()},
        "waits": {state.value: number for state, number in found.waits.items()},
        "wakes": _count_wakes(context, found.wakes),
        "runs": {state.value: number for state, number in found.runs.items()},
        "hostless": count_hostless(context),
        "unheard": [run.task_id for run in list_unheard(context)],
        "events": newest[0].event_id if newest else 0,
        "activity": [*list_activity(context)],
        "plugins": len([p for p in context.plugin_host.plugins if p.state == "on"]),
        "keeps": {
            "bytes": context.live.storage.taken,
            "most_bytes": context.policies.retention.most_bytes,
            "days": context.policies.retention.days,
            "full": context.live.storage.full,
            "shared": context.live.storage.shared,
            "dropped": describe_dropped(context.live.storage.dropped),
        },
    }


def list_sessions(context: Context, find_transport: FindTransport) -> list[JsonValue]:
    """Return the sessions of MCP hosts that are connected, and by what their wakes go out."""
    return [
        {
            "session_key": key,
            "host": host,
            "who": callers.describe_agent(context.sessions, host, key),
            "transport": find_transport(host, key),
        }
        for key, host in context.plugin_host.sessions.list_sessions()
    ]


def describe_metrics(context: Context) -> View:
    """Return how this home's tasks went that were not dropped yet."""
    counted: Counter[TaskStatus] = Counter()
    steps: list[int] = []
    resumes: list[int] = []
    seconds: list[float] = []
    after = ""
    while batch := context.store.find_tasks(
        TaskQuery(implicit=False, after=after, limit=DEFAULT_ROWS)
    ):
        after = batch[-1].task_id
        last_runs = find_last_runs(context, [task.task_id for task in batch])
        for task in batch:
            counted[task.status] += 1
            steps.append(len(task.plan))
            # Each claim after the first takes a task up again.
            resumes.append(max(last.token - 1, 0) if (last := last_runs.get(task.task_id)) else 0)
            if task.status is TaskStatus.COMPLETED:
                seconds.append((task.updated_at - task.created_at).total_seconds())
    ended = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)
    return {
        "tasks": len(steps),
        **{status.value: counted[status] for status in ended},
        "open": sum(counted[status] for status in OPEN_STATUSES),
        "mean_steps": round(mean(steps), 2) if steps else None,
        "mean_resumes": round(mean(resumes), 2) if resumes else None,
        "mean_seconds": round(mean(seconds), 2) if seconds else None,
    }


def _count_wakes(context: Context, found: Mapping[WakeState, int]) -> View:
    """Return how many wakes there are, by state.

    `planned` are due later; `kept` are those that no transport reaches; `due` excludes both.
    """
    now = context.clock.now()
    query = WakeQuery(states=(WakeState.DUE,), limit=DEFAULT_ROWS)
    open_ = context.store.whole.find_wakes(query)
    kept = sum(wake.due_at is None for wake in open_)
    planned = sum(wake.due_at is not None and wake.due_at > now for wake in open_)
    counted: View = {state.value: number for state, number in found.items()}
    due = max(0, found[WakeState.DUE] - planned - kept)
    return {**counted, "due": due, "planned": planned, "kept": kept}


def count_unsent(context: Context) -> int:
    """Return how many due wakes of this home have a failed delivery, and not only wait."""
    due = context.store.find_wakes(WakeQuery(states=(WakeState.DUE,), limit=DEFAULT_ROWS))
    return sum(wake.last_error is not None and wake.note is None for wake in due)


def show_by_id(
    context: Context, any_id: str, extras: WaitExtras | None = None, before: int | None = None
) -> View:
    """Return a task or a wait with all that belongs to it, or a wake.

    A task's thread is shown by pages, newest first; pass `earlier` as `before` for the page before.
    `earlier` is None on the page with the task's first message.

    Args:
        context: The context of the use case.
        any_id: The id of a task, wait or wake.
        extras: Returns further fields of a wait; None: there are none.
        before: The message before which the page ends; None: the newest page.

    Raises:
        TaskNotFound: No task has that id.
        WaitNotFound: No wait has that id.
        InvalidArguments: No wake has that id.
    """
    if any_id.startswith("wake_"):
        return _show_wake(context, any_id)
    if any_id.startswith("wait_"):
        return _show_wait(context, any_id, extras)
    if before is not None:
        return _read_page(context, any_id, before)
    return _show_task(context, any_id)


def _show_wake(context: Context, wake_id: str) -> View:
    for wake in context.store.find_wakes(WakeQuery(wake_ids=(wake_id,))):
        return {**_format_wake(context, wake), "held": _explain_hold(wake, hold_nothing)}
    raise InvalidArguments(f"There is no wake {wake_id}; see taskmem wakes --all.")


def _show_wait(context: Context, wait_id: str, extras: WaitExtras | None) -> View:
    wait = context.store.read_wait(wait_id)
    return {
        **_format_wait(context, wait),
        **(extras(wait) if extras else {}),
        "history": [
            {**_format_event(event), "lines": list(timeline.tell_event_lines(event))}
            for event in context.store.find_events(EventQuery(wait_id=wait_id, limit=DEFAULT_ROWS))
        ],
    }


def _show_task(context: Context, task_id: str) -> View:
    facts = context.store.read_task(task_id)
    task = facts.task
    waits = context.store.find_waits(WaitQuery(task_id=task_id, limit=DEFAULT_ROWS))
    wakes = context.store.find_wakes(WakeQuery(task_id=task_id, limit=DEFAULT_ROWS))
    revisions = [_format_revision(r) for r in context.store.read_records(PlanRevision, task_id)]
    return {
        **_format_task(task),
        "line": read_line(context, task_id).model_dump(mode="json"),
        "question": facts.run.dialogue.question if facts.run else None,
        "blocked_by": list(task.blocked_by),
        "plan": list(task.plan),
        "steps": [
            {"step": step.index + 1, "text": step.text, "done": step.done} for step in task.steps
        ],
        **_read_page(context, task_id, None),
        "revisions": _fit_newest(revisions),
        "earlier_revisions": len(revisions) - len(_fit_newest(revisions)),
        "waits": [_format_wait(context, wait) for wait in waits],
        "wakes": [_format_wake(context, wake) for wake in wakes],
        **ledger.describe_ledger(entries := context.store.read_records(LedgerEntry, task_id)),
        "proofs": [each.model_dump(mode="json") for each in list_proofs(entries, facts.artifacts)],
        "metadata": {
            **dict(task.metadata),
            "active_wait_ids": list(task.linkage.active_wait_ids),
            "last_wait_event_at": to_epoch(task.linkage.last_wait_event_at),
            "last_wait_state": task.linkage.last_wait_state,
        },
    }


def _read_page(context: Context, task_id: str, before: int | None) -> View:
    """Return the newest messages before one, as many as fit into an answer."""
    read = context.store.read_records(Message, task_id, DEFAULT_ROWS, before=before)
    shown = _fit_newest([_format_message(message) for message in read])
    whole = len(shown) == len(read) < DEFAULT_ROWS
    earlier = None if whole else read[-len(shown)].message_id
    return {"messages": shown, "earlier": earlier}


def _fit_newest(rows: Sequence[View]) -> list[JsonValue]:
    """Return the last rows that fit into an answer; the very last always does."""
    room, kept = PAGE_BYTES, 0
    for row in reversed(rows):
        room -= len(json.dumps(row, ensure_ascii=False).encode())
        if room < 0 and kept:
            break
        kept += 1
    return [*rows[len(rows) - kept :]]


def list_waits(context: Context, params: Mapping[str, object]) -> list[JsonValue]:
    """Return the open waits of this home, newest first; with `all` also those that have ended."""
    status = None if params.get("all") else WaitStatus.WATCHING
    query = WaitQuery(status=status, limit=read_limit(params))
    return [_format_wait(context, wait) for wait in context.store.find_waits(query)]


def list_wakes(context: Context, params: Mapping[str, object], holds: Holds) -> list[JsonValue]:
    """Return the wakes of this home that are due or sent, newest first; with `all` every wake."""
    states = None if params.get("all") else callers.OWED_STATES
    found = context.store.find_wakes(WakeQuery(states=states, limit=read_limit(params)))
    return [{**_format_wake(context, wake), "held": _explain_hold(wake, holds)} for wake in found]


def _explain_hold(wake: Wake, holds: Holds) -> str | None:
    """Return why a due wake is not sent now; None: it is, or it is not due."""
    if callers.is_kept(wake):
        return callers.describe_kept(wake)
    held = holds(wake.session_key) if wake.state is WakeState.DUE else None
    return None if held is None else held.why


def list_runs(context: Context, params: Mapping[str, object]) -> list[JsonValue]:
    """Return the open runs of this home, newest first; with `all` also those that have ended.

    `task_id`: only the runs of this task. Without it, runs of implicit tasks are left out.
    """
    states = None if params.get("all") else OPEN_STATES
    task_id = _read_task_id(params)
    lookup.guard_home(context, task_id or "")
    query = RunQuery(states=states, task_id=task_id)
    if task_id is None:
        query = query.model_copy(update={"implicit": False})
    found = find_runs(context, query, read_limit(params))
    tasks = {run.task_id for run in found}
    facts = {each: context.find_task(each) for each in tasks}
    names = {each: "" if told is None else told.task.name for each, told in facts.items()}
    return [_format_run(run, names[run.task_id]) for run in found]


def _format_run(run: Run, task_name: str) -> View:
    owner = None if run.owner is None else run.owner.model_dump(mode="json")
    return {
        **_format_fields(run, "run_id task_id"),
        "task_name": task_name,
        **_format_fields(run, "state why"),
        "question": run.dialogue.question,
        **_format_fields(run, "role session_key"),
        "owner": owner,
        **_format_fields(run, "token lease_until"),
        **_format_fields(run.progress, "checkpoints calls"),
        **_format_fields(run.limits, "rounds idle_rounds tries provider_failures"),
        **_format_fields(run, "told_session created_at changed_at seen_at started_at ended_at"),
    }


def list_events(context: Context, params: Mapping[str, object]) -> list[JsonValue]:
    """Return the newest events of this home, oldest first; `task_id`: only those of this task.

    Of a log that homes share, those of others among the newest are left out.

    Raises:
        TaskNotFound: The task is another home's.
    """
    task_id = _read_task_id(params)
    lookup.guard_home(context, task_id or "")
    found = context.store.find_events(EventQuery(task_id=task_id, limit=read_limit(params)))
    is_own = cache(partial(lookup.is_of_home, context))
    return [_format_event(e) for e in found if is_own(e.task_id or e.wait_id or "")]


def list_plugins(context: Context) -> list[JsonValue]:
    """Return every plug-in found, with its state."""
    return [
        {
            "name": plugin.name,
            "state": plugin.state,
            "distribution": plugin.distribution,
            "hooks": list(plugin.hooks),
            "last_error": plugin.last_error,
            "cause": plugin.cause,
        }
        for plugin in context.plugin_host.plugins
    ]


def _read_task_id(params: Mapping[str, object]) -> str | None:
    task_id = params.get("task_id")
    return task_id if isinstance(task_id, str) else None


def read_limit(params: Mapping[str, object]) -> int:
    """Return the number of rows that a list is asked for.

    Raises:
        InvalidArguments: It is no whole number, or too large.
    """
    limit = params.get("limit", DEFAULT_ROWS)
    if isinstance(limit, bool) or not isinstance(limit, int):
        limit = 0
    if not 1 <= limit <= MOST_ROWS:
        raise InvalidArguments(
            f"limit must be a whole number from 1 to {MOST_ROWS:,}; give such a one."
        )
    return limit


def _format_task(task: Task) -> View:
    return {
        **_format_fields(
            task,
            "task_id name status implicit original_request session_key host "
            "created_at updated_at last_stuck_alert_at",
        ),
        "stuck_alerts": task.alerts,
        "stuck_due_at": format_iso_millis(task.stuck_due_at),
    }


def _format_message(message: Message) -> View:
    return _format_fields(message, "message_id role by_call msg_type content created_at")


def _format_revision(revision: PlanRevision) -> View:
    return {
        "id": revision.revision_id,
        **_format_fields(revision, "old_plan new_plan reason author created_at"),
    }


def _format_wait(context: Context, wait: Wait) -> View:
    seen = wait.last_observation
    if wait.status is WaitStatus.WATCHING:
        now = context.wait_watcher.read_observation(wait.wait_id)
        seen = scrub(now) if now else seen
    return {
        **_format_fields(wait, "wait_id status target wake_when task_id session_key host"),
        "timeout": wait.timeout_seconds,
        "poll_interval": wait.poll_seconds,
        **_format_fields(wait, "round created_at armed_at deadline_at ended_at"),
        "last_observation": seen,
        "who": callers.describe_agent(context.sessions, wait.host, wait.session_key),
    }


def _format_wake(context: Context, wake: Wake) -> View:
    known = _format_fields(
        wake,
        "wake_id key state cause session_key host task_id wait_id attempts last_error "
        "created_at due_at sent_at acknowledged_at transport note text",
    )
    return {**known, "who": callers.describe_agent(context.sessions, wake.host, wake.session_key)}


def _format_event(event: Event) -> View:
    known = _format_fields(event, "event_id at kind task_id wait_id run_id")
    return {**known, "says": timeline.tell_event(event), "data": dict(event.data)}


def _format_fields(row: Value, names: str) -> View:
    """Return the named fields of a row; times become texts."""
    found = {name: getattr(row, name) for name in names.split()}
    return {
        name: format_iso_millis(value) if isinstance(value, datetime) else value
        for name, value in found.items()
    }
