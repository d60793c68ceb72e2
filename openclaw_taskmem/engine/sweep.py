"""One pass over the tasks that are due to be looked at: who is stuck is owed a wake."""

from __future__ import annotations

import logging
from datetime import datetime
from functools import partial
from typing import Final

from openclaw_taskmem.domain import stuck
from openclaw_taskmem.engine import packets
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import (
    FOREVER,
    Change,
    EventQuery,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    TaskQuery,
    WakeQuery,
)

log = logging.getLogger(__name__)
PATIENCE_SECONDS: Final = 3.0
"""How long plug-ins may build packets in one pass; then the core does it alone."""
BATCH: Final = 200
"""Tasks that one pass looks at; the next pass takes the rest."""
RECENT: Final = 200
"""Entries of a task's log, and wakes of it, that are looked at."""


def sweep_due_tasks(shell: Shell) -> int:
    """Look at the tasks that are due, and return how many were looked at.

    A task that cannot be judged is logged; it never keeps the others from being
    seen.
    """
    due = shell.store.find_tasks(TaskQuery(due_by=shell.clock.now(), limit=BATCH))
    patience = shell.clock.monotonic() + PATIENCE_SECONDS
    for task_id in (task.task_id for task in due):
        if shell.stopping.is_set():
            break
        plain = shell.clock.monotonic() > patience
        try:
            shell.retry_on_conflict(task_id, partial(_check_task, shell, task_id, plain=plain))
        except (StoreBusy, StoreFull, StoreUnavailable):
            raise
        except Exception:
            log.exception("%s could not be looked at; the others are", task_id)
    return len(due)


def find_next_due(shell: Shell) -> datetime | None:
    """Return when the next task is to be looked at; None: none ever is."""
    query = TaskQuery(due_by=FOREVER, limit=1)
    return next((task.stuck_due_at for task in shell.store.find_tasks(query)), None)


def _check_task(shell: Shell, task_id: str, *, plain: bool) -> None:
    facts = shell.store.read_task(task_id)
    now = shell.clock.now()
    verdict = stuck.judge_stuck(facts, now, shell.stuck)
    due = stuck.compute_due_time(facts.task, shell.stuck)
    if verdict is None or due is None or due > now:
        # Looked at too early: the commit writes when to look again.
        shell.commit(Change(tasks=(facts.task,)))
        return
    threshold = shell.stuck.threshold_seconds
    if (held := stuck.suppress_alert(facts, now, shell.outbox, threshold)) is not None:
        shell.commit(Change(tasks=(held,)))
        return
    given = stuck.alert_registrar(
        facts,
        verdict,
        wake_id=shell.new_id("wake", now),
        reaches=shell.reaches,
        list_told=partial(shell.store.find_wakes, WakeQuery(task_id=task_id, limit=RECENT)),
        now=now,
        policy=shell.stuck,
    )
    if given is not None:
        log.warning("%s was handed to a role: %s", task_id, verdict.reason)
        shell.commit(given)
        return
    failed = stuck.count_failures(
        shell.store.find_events(EventQuery(task_id=task_id, limit=RECENT))
    )
    verdict = stuck.add_failures(verdict, failed, shell.stuck)
    owed = stuck.find_due_wake(facts)
    wake_id = owed.wake_id if owed else shell.new_id("wake", now)
    text, told = packets.render_packet(shell, facts, verdict, wake_id, plain=plain)
    if owed is not None:
        # Still undelivered: the wake that is owed tells the newer story, and the
        # cooldown starts again, for the agent has heard nothing yet.
        task = facts.task.model_copy(update={"last_stuck_alert_at": now})
        fresh = owed.model_copy(update={"text": text, "urgent": verdict.urgent})
        shell.commit(Change(tasks=(task,), wakes=(fresh,)))
        return
    shell.commit(
        stuck.build_alert(facts, verdict, wake_id=wake_id, text=text, packet=told, now=now)
    )
