"""The invariants of a single commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from taskmem_hookspecs import TaskStatus, WakeCause
from tests.simulation.machine import Machine
from tests.simulation.mirror import Commit

WHOLE_PACKET: Final = 4096


def no_alert_for_a_terminal_task(_: Machine, commit: Commit) -> Iterator[str]:
    """A new alert is for a task that is active once it is written."""
    for wake in commit.change.wakes:
        if wake.cause is WakeCause.STUCK and commit.wakes_before[wake.wake_id] is None:
            task = commit.mirror.tasks[wake.task_id or ""]
            if task.status is not TaskStatus.ACTIVE:
                yield f"{wake.wake_id} alerts {task.task_id}, which is {task.status}"


def no_alert_while_a_wait_is_open(_: Machine, commit: Commit) -> Iterator[str]:
    """A new alert is for a task that waits for nothing."""
    for wake in commit.change.wakes:
        if wake.cause is WakeCause.STUCK and commit.wakes_before[wake.wake_id] is None:
            if commit.mirror.open_waits[wake.task_id or ""]:
                yield f"{wake.wake_id} alerts {wake.task_id}, which waits"


def at_most_one_alert_per_cooldown(machine: Machine, commit: Commit) -> Iterator[str]:
    """Two alerts of a task lie a cooldown apart by the wall clock or the machine's own."""
    for wake in commit.change.wakes:
        if wake.cause is not WakeCause.STUCK or commit.wakes_before[wake.wake_id] is not None:
            continue
        own = commit.mirror.list_wakes(wake.task_id or "")
        others = [w for w in own if w.cause is WakeCause.STUCK and w.wake_id != wake.wake_id]
        if others:
            last = others[-1]
            wall = (wake.created_at - last.created_at).total_seconds()
            passed = commit.monotonic - machine.seen_at[last.wake_id]
            if max(wall, passed) < machine.stuck.cooldown_seconds - 0.001:
                yield f"{wake.wake_id} follows {last.wake_id} after {wall:.0f} s"


def active_wait_ids_equal_open_waits(_: Machine, commit: Commit) -> Iterator[str]:
    """A task's metadata names just the waits that are watching, at every instant."""
    touched = {t.task_id for t in commit.change.tasks}
    touched |= {w.task_id for w in commit.change.waits if w.task_id is not None}
    for task_id in sorted(touched):
        said = commit.mirror.tasks[task_id].linkage.active_wait_ids
        if sorted(said) != sorted(commit.mirror.open_waits[task_id]):
            yield f"{task_id} names {said}, not {list(commit.mirror.open_waits[task_id])}"


def ended_tasks_stay_ended(_: Machine, commit: Commit) -> Iterator[str]:
    """What has ended keeps its status, or becomes active again."""
    for task in commit.change.tasks:
        before = commit.tasks_before[task.task_id]
        if before is not None and before.status.terminal:
            if task.status not in (before.status, TaskStatus.ACTIVE):
                yield f"{task.task_id} was {before.status} and is {task.status}"


COMMIT_RULES: Final = (
    no_alert_for_a_terminal_task,
    no_alert_while_a_wait_is_open,
    at_most_one_alert_per_cooldown,
    active_wait_ids_equal_open_waits,
    ended_tasks_stay_ended,
)
