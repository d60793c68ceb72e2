"""One pass over the tasks due for a stuck check; agents of stuck tasks get a wake."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Final

from openclaw_taskmem.domain.changes import stuck
from openclaw_taskmem.domain.runs.current_run import OPEN_STATES
from openclaw_taskmem.engine import run_history
from openclaw_taskmem.engine.context import Context, Decision
from taskmem_hookspecs import (
    Change,
    EventQuery,
    RunQuery,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    Task,
    TaskFacts,
    TaskQuery,
    WakeQuery,
    WakeState,
)
from taskmem_hookspecs.errors import Conflict
from taskmem_hookspecs.roles import FOREVER

log = logging.getLogger(__name__)
PATIENCE_SECONDS: Final = 3.0
"""Seconds for which plug-ins may build packets in one pass; then the core builds them alone."""
BATCH: Final = 200
"""Tasks that one pass checks; the next pass takes the rest."""
_MOST_WAKES: Final = 2_000
"""Unsent wakes that are counted; those of alerts are fewer."""
_LONGEST_QUEUE: Final = timedelta(days=1)
_RECENT_ROWS: Final = 200
"""Newest log entries and wakes of a task that are read."""


def sweep_due_tasks(context: Context) -> int:
    """Check the tasks that are due, and return how many there were.

    A task whose alert could not be sent soon is put off. A task that cannot be checked is logged;
    the others are checked all the same.
    """
    due = context.store.find_tasks(TaskQuery(due_by=context.clock.now(), limit=BATCH))
    patience = context.clock.monotonic() + PATIENCE_SECONDS
    late = _postpone_tasks(context, due)
    for task_id in (task.task_id for task in due if task.task_id not in late):
        if context.stopping.is_set():
            break
        plain = context.clock.monotonic() > patience
        try:
            reason = context.update_task(task_id, partial(_check_task, context, plain=plain))
            if reason is not None:
                log.warning("%s was handed to a role: %s", task_id, reason)
        except (StoreBusy, StoreFull, StoreUnavailable):
            raise
        except Exception:
            log.exception("could not check %s; going on with the other tasks", task_id)
    return len(due)


def _postpone_tasks(context: Context, due: Sequence[Task]) -> Collection[str]:
    """Put off the tasks whose alerts could not be sent soon; return their ids.

    They are due again after those that were put off before, a number at a time.
    """
    if not due:
        return ()
    now, reaches = context.clock.now(), cache(context.reaches)
    unsent = context.store.find_wakes(WakeQuery(states=(WakeState.DUE,), limit=_MOST_WAKES))
    backlog = stuck.AlertBacklog(unsent, reaches, now)
    task_ids = tuple(task.task_id for task in due)
    going = context.store.find_runs(RunQuery(task_ids=task_ids, states=OPEN_STATES, limit=BATCH))
    runs = {run.task_id: run for run in going}
    late: dict[bool, list[Task]] = {True: [], False: []}
    for task in due:
        whose = stuck.find_alerted(task, runs.get(task.task_id))
        if not backlog.admit(task.task_id, *whose):
            late[reaches(*whose)].append(task)
    for reached, tasks in late.items():
        for start in range(0, len(tasks), stuck.MOST_UNSENT_OF_SESSION):
            some = tasks[start : start + stuck.MOST_UNSENT_OF_SESSION]
            _hold_alerts(context, some, now, reached=reached)
    return {task.task_id for tasks in late.values() for task in tasks}


def _hold_alerts(context: Context, tasks: Sequence[Task], now: datetime, *, reached: bool) -> None:
    """Hold alerts back until the next instant that is free; `reached`: of whose agents."""
    slots = context.live.alert_slots
    last = min(slots.get(reached, now), now + _LONGEST_QUEUE)
    until = max(now, last) + stuck.PACE
    held = (task.model_copy(update={"held_until": until}) for task in tasks)
    # On a conflict one was touched meanwhile: the next pass looks again.
    with suppress(Conflict):
        context.commit(Change(tasks=tuple(held)))
        slots[reached] = until


def find_next_due(context: Context) -> datetime | None:
    """Return when the next task is due for a check; None: no task will be due."""
    query = TaskQuery(due_by=FOREVER, limit=1)
    return next((task.stuck_due_at for task in context.store.find_tasks(query)), None)


def _check_task(
    context: Context, facts: TaskFacts, now: datetime, *, plain: bool
) -> Decision[str | None]:
    """Decide whether a due task is stuck, and return the change that follows.

    The result is the reason if the registrar is told that no agent of a role has claimed the task;
    else None.
    """
    task_id = facts.task.task_id
    verdict = stuck.judge_stuck(facts, now, context.policies.stuck)
    due = stuck.compute_due_time(facts.task, context.policies.stuck)
    if verdict is None or due is None or due > now:
        # Checked too early: the commit sets when to check again.
        return Change(tasks=(facts.task,)), None
    threshold = context.policies.stuck.threshold_seconds
    if (held := stuck.suppress_alert(facts, now, context.policies.outbox, threshold)) is not None:
        return Change(tasks=(held,)), None
    wakes = context.store.find_wakes(WakeQuery(task_id=task_id, limit=_RECENT_ROWS))
    if (alerted := stuck.restore_last_alert(facts.task, wakes, now)) is not None:
        return Change(tasks=(alerted,)), None
    given = stuck.alert_registrar(
        facts,
        verdict,
        wake_id=context.new_id("wake", now),
        reaches=context.reaches,
        wakes=wakes,
        now=now,
        policy=context.policies.stuck,
    )
    if given is not None:
        return given, verdict.reason
    failed = stuck.count_failures(
        context.store.find_events(EventQuery(task_id=task_id, limit=_RECENT_ROWS))
    )
    verdict = stuck.add_failures(verdict, failed, context.policies.stuck)
    due_wake = stuck.find_due_wake(facts)
    wake_id = due_wake.wake_id if due_wake else context.new_id("wake", now)
    text, rendered = run_history.render_packet(context, facts, verdict, wake_id, plain=plain)
    if due_wake is not None:
        # The last wake is still due: update its text instead of adding another, and
        # restart the cooldown.
        task = facts.task.model_copy(update={"last_stuck_alert_at": now})
        fresh = due_wake.model_copy(update={"text": text, "urgent": verdict.urgent})
        return Change(tasks=(task,), wakes=(fresh,)), None
    alert = stuck.build_alert(facts, verdict, wake_id=wake_id, text=text, packet=rendered, now=now)
    return alert, None
