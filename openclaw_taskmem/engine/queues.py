"""What a role could claim now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from openclaw_taskmem.engine.runs import goes_on
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import Run, RunState, Task, TaskNotFound, TaskStatus

PAGE: Final = 50
"""Queued runs that are read at first; doubled while nothing among them is found."""


def find_claimable(shell: Shell, role: str) -> Task | None:
    """Return what was queued first for a role, and can be claimed; None: nothing.

    What is queued for anybody is not meant for this role, and does not count.
    """
    now = shell.clock.now()
    for run in _queue(shell, role):
        with suppress(TaskNotFound):
            facts = shell.store.read_task(run.task_id)
            same = facts.run is not None and facts.run.run_id == run.run_id
            queued = same and facts.run is not None and facts.run.state
            if (
                queued is RunState.QUEUED
                and facts.task.status is TaskStatus.ACTIVE
                and not goes_on(shell, facts, now)
            ):
                return facts.task
    return None


def _queue(shell: Shell, role: str) -> Iterator[Run]:
    """Yield the runs that are queued for a role alone, oldest first."""
    start, limit = 0, PAGE
    while True:
        queued = shell.store.queued_runs(role, limit)
        yield from (run for run in queued[start:] if run.role == role)
        if len(queued) < limit:
            return
        start, limit = limit, limit * 2
