"""What people and programs look at: tasks, wakes, waits, events and plug-ins as JSON.

Source: design §6, "`--json` prints one JSON document".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain import ledger
from openclaw_taskmem.domain.scrub import scrub
from openclaw_taskmem.domain.texts import epoch, iso_millis
from openclaw_taskmem.engine.shell import Shell
from openclaw_taskmem.engine.wakes import Holds
from taskmem_hookspecs import (
    Event,
    InvalidArguments,
    Message,
    PlanRevision,
    Run,
    RunState,
    Task,
    Wait,
    WaitStatus,
    Wake,
    WakeState,
)

View = dict[str, JsonValue]
MOST: Final = 1000
"""Rows that a list shows unless it is told otherwise."""
LARGEST: Final = 1_000_000
"""Rows that a list may be asked for."""

Kept = Callable[[Wait], View]
"""Returns what is kept of a wait beside its row."""

_OWED = (WakeState.DUE, WakeState.SENT)
_OPEN = tuple(state for state in RunState if not state.terminal)


def counts(shell: Shell) -> View:
    """Return how much there is, by state."""
    found = shell.store.count()
    return {
        "tasks": {state.value: number for state, number in found.tasks.items()},
        "waits": {state.value: number for state, number in found.waits.items()},
        "wakes": {state.value: number for state, number in found.wakes.items()},
        "runs": {state.value: number for state, number in found.runs.items()},
        "events": found.events,
        "plugins": len([p for p in shell.seams.plugins if p.state == "on"]),
    }


def unsent(shell: Shell) -> int:
    """Return how many wakes of this home are owed that could not be sent so far."""
    due = shell.store.list_wakes((WakeState.DUE,), None, MOST, shell.only)
    return sum(wake.last_error is not None for wake in due)


def show(shell: Shell, any_id: str, kept: Kept | None = None) -> View:
    """Return a task, or a wait, with all that hangs on it.

    Args:
        shell: Where they are.
        any_id: Of either.
        kept: What is told of a wait besides.

    Raises:
        TaskNotFound: No task has that id.
        WaitNotFound: No wait has that id.
    """
    if any_id.startswith("wait_"):
        return _show_wait(shell, any_id, kept)
    return _show_task(shell, any_id)


def _show_wait(shell: Shell, wait_id: str, kept: Kept | None) -> View:
    wait = shell.store.read_wait(wait_id)
    return {
        **_wait(shell, wait),
        **(kept(wait) if kept else {}),
        "history": [_event(e) for e in shell.store.wait_events(wait_id, MOST)],
    }


def _show_task(shell: Shell, task_id: str) -> View:
    task = shell.store.read_task(task_id).task
    waits = shell.store.list_waits(None, task_id, MOST)
    wakes = shell.store.list_wakes(None, task_id, MOST)
    return {
        **_task(task),
        "plan": list(task.plan),
        "steps": [
            {"step": step.index + 1, "text": step.text, "done": step.done}
            for step in task.steps
        ],
        "messages": [_message(m) for m in shell.store.read_thread(task_id)],
        "revisions": [_revision(r) for r in shell.store.read_revisions(task_id)],
        "waits": [_wait(shell, wait) for wait in waits],
        "wakes": [_wake(wake) for wake in wakes],
        **ledger.describe(shell.store.read_ledger(task_id)),
        "metadata": {
            **dict(task.metadata),
            "active_wait_ids": list(task.linkage.active_wait_ids),
            "last_wait_event_at": epoch(task.linkage.last_wait_event_at),
            "last_wait_state": task.linkage.last_wait_state,
        },
    }


def waits(shell: Shell, params: Mapping[str, object]) -> list[JsonValue]:
    """Return the open waits, newest first; with `all` the ended ones too."""
    status = None if params.get("all") else WaitStatus.WATCHING
    found = shell.store.list_waits(status, None, _limit(params))
    return [_wait(shell, wait) for wait in found]


def wakes(shell: Shell, params: Mapping[str, object], holds: Holds) -> list[JsonValue]:
    """Return the wakes that are due or sent, newest first; with `all` every one."""
    states = None if params.get("all") else _OWED
    found = shell.store.list_wakes(states, None, _limit(params))
    return [{**_wake(wake), "held": _held(wake, holds)} for wake in found]


def _held(wake: Wake, holds: Holds) -> str | None:
    """Return why a wake that is due is not sent now; None: it is not held."""
    held = holds(wake.session_key) if wake.state is WakeState.DUE else None
    return None if held is None else held.why


def runs(shell: Shell, params: Mapping[str, object]) -> list[JsonValue]:
    """Return the runs that have not ended, newest first; with `all` every one."""
    states = None if params.get("all") else _OPEN
    task_id = params.get("task_id")
    wanted = task_id if isinstance(task_id, str) else None
    found = shell.store.list_runs(states, wanted, _limit(params))
    tasks = {run.task_id for run in found}
    names = {each: shell.store.read_task(each).task.name for each in tasks}
    return [_run(run, names[run.task_id]) for run in found]


def _run(run: Run, task_name: str) -> View:
    return {
        "run_id": run.run_id,
        "task_id": run.task_id,
        "task_name": task_name,
        "state": run.state,
        "why": run.why,
        "role": run.role,
        "session_key": run.session_key,
        "owner": None if run.owner is None else run.owner.model_dump(mode="json"),
        "token": run.token,
        "lease_until": iso_millis(run.lease_until),
        "checkpoints": run.checkpoints,
        "calls": run.calls,
        "rounds": run.rounds,
        "idle_rounds": run.idle_rounds,
        "tries": run.tries,
        "provider_failures": run.provider_failures,
        "told_session": run.told_session,
        "created_at": iso_millis(run.created_at),
        "changed_at": iso_millis(run.changed_at),
        "seen_at": iso_millis(run.seen_at),
        "started_at": iso_millis(run.started_at),
        "ended_at": iso_millis(run.ended_at),
    }


def events(shell: Shell, params: Mapping[str, object]) -> list[JsonValue]:
    """Return the newest entries of the audit log, oldest first."""
    task_id = params.get("task_id")
    wanted = task_id if isinstance(task_id, str) else None
    return [_event(e) for e in shell.store.last_events(wanted, _limit(params))]


def plugins(shell: Shell) -> list[JsonValue]:
    """Return every plug-in found, and how it fares."""
    return [
        {
            "name": plugin.name,
            "state": plugin.state,
            "distribution": plugin.distribution,
            "hooks": list(plugin.hooks),
            "last_error": plugin.last_error,
        }
        for plugin in shell.seams.plugins
    ]


def _limit(params: Mapping[str, object]) -> int:
    limit = params.get("limit", MOST)
    if isinstance(limit, bool) or not isinstance(limit, int):
        limit = 0
    if not 1 <= limit <= LARGEST:
        raise InvalidArguments(
            f"limit must be a whole number from 1 to {LARGEST:,}; give such a one."
        )
    return limit


def _task(task: Task) -> View:
    return {
        "task_id": task.task_id,
        "name": task.name,
        "status": task.status,
        "session_key": task.session_key,
        "created_at": iso_millis(task.created_at),
        "updated_at": iso_millis(task.updated_at),
        "last_stuck_alert_at": iso_millis(task.last_stuck_alert_at),
        "stuck_alerts": task.alerts,
        "stuck_due_at": iso_millis(task.stuck_due_at),
    }


def _message(message: Message) -> View:
    return {
        "message_id": message.message_id,
        "role": message.role,
        "msg_type": message.msg_type,
        "content": message.content,
        "created_at": iso_millis(message.created_at),
    }


def _revision(revision: PlanRevision) -> View:
    return {
        "id": revision.revision_id,
        "old_plan": list(revision.old_plan),
        "new_plan": list(revision.new_plan),
        "reason": revision.reason,
        "author": revision.author,
        "created_at": iso_millis(revision.created_at),
    }


def _wait(shell: Shell, wait: Wait) -> View:
    seen = wait.last_observation
    if wait.status is WaitStatus.WATCHING:
        now = shell.watching.observation(wait.wait_id)
        seen = scrub(now) if now else seen
    return {
        "wait_id": wait.wait_id,
        "status": wait.status,
        "target": wait.target,
        "wake_when": wait.wake_when,
        "task_id": wait.task_id,
        "session_key": wait.session_key,
        "timeout": wait.timeout_seconds,
        "poll_interval": wait.poll_seconds,
        "round": wait.round,
        "created_at": iso_millis(wait.created_at),
        "armed_at": iso_millis(wait.armed_at),
        "deadline_at": iso_millis(wait.deadline_at),
        "ended_at": iso_millis(wait.ended_at),
        "last_observation": seen,
    }


def _wake(wake: Wake) -> View:
    return {
        "wake_id": wake.wake_id,
        "key": wake.key,
        "state": wake.state,
        "cause": wake.cause,
        "session_key": wake.session_key,
        "task_id": wake.task_id,
        "wait_id": wake.wait_id,
        "attempts": wake.attempts,
        "last_error": wake.last_error,
        "created_at": iso_millis(wake.created_at),
        "due_at": iso_millis(wake.due_at),
        "sent_at": iso_millis(wake.sent_at),
        "acknowledged_at": iso_millis(wake.acknowledged_at),
        "transport": wake.transport,
        "note": wake.note,
        "text": wake.text,
    }


def _event(event: Event) -> View:
    return {
        "event_id": event.event_id,
        "at": iso_millis(event.at),
        "kind": event.kind,
        "task_id": event.task_id,
        "wait_id": event.wait_id,
        "run_id": event.run_id,
        "data": dict(event.data),
    }
