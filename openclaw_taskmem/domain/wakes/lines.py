"""Describe a wake in one line for people, in the chat of the session whose turn it starts.

The line says what was seen and what is next. The agent reads the wake itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openclaw_taskmem.domain.callers import registrars
from openclaw_taskmem.domain.conditions.targets import describe_target
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.text.texts import clip, format_short_duration, to_plain_line
from openclaw_taskmem.domain.wakes import notices
from taskmem_hookspecs import Run, Task, Value, Wait, WaitStatus, Wake, WakeCause

SEEN_BYTES: Final = 160
"""Longest excerpt of a wait's last observation."""
LINE_BYTES: Final = 400


class WakeFacts(Value):
    """The facts for the line of one wake."""

    wake: Wake
    task: Task | None = None
    """The wake's task; None: none."""
    run: Run | None = None
    """The task's open run; None: none."""
    wait: Wait | None = None
    """The wait that has ended; None: the wake is not of a wait."""


def describe_wakes(found: Sequence[WakeFacts]) -> str:
    """Write the line for wakes that share a message; those without room are counted.

    Empty: there is nothing to show.
    """
    lines = [*filter(None, dict.fromkeys(map(describe_wake, found)))]
    if not lines:
        return ""
    for kept in range(len(lines), 1, -1):
        rest = len(lines) - kept
        line = " ".join((*lines[:kept], *([f"And {rest} more."] if rest else ())))
        if clip(line, LINE_BYTES) == line:
            return line
    more = f" And {len(lines) - 1} more." if len(lines) > 1 else ""
    return f"{clip(lines[0], LINE_BYTES - 20)}{more}"


def describe_wake(facts: WakeFacts) -> str:
    """Say in a sentence what was seen and what is next.

    Of an implicit task only the end of a wait is shown.
    """
    task, wait = facts.task, facts.wait
    if registrars.is_for_registrar(facts.wake):
        return registrars.format_line(facts.wake)
    if task is not None and task.implicit:
        if facts.wake.cause is not WakeCause.WAIT:
            return ""
        task = None
    if facts.wake.cause is WakeCause.WAIT and wait is not None:
        about, event = describe_target(wait.target), _describe_end(wait)
    elif task is None:
        return "The agent goes on."
    elif facts.wake.cause is WakeCause.STUCK:
        silent = (facts.wake.created_at - task.updated_at).total_seconds()
        about, event = (
            notices.format_task_name(task),
            f"no progress for {format_short_duration(silent)}",
        )
    elif facts.run is not None and facts.run.why == RunReason.ANSWERED:
        return f"{notices.format_task_name(task)}: its agent has your answer."
    else:
        about, event = notices.format_task_name(task), _describe_turn(facts.run)
    parts = [part for part in (event, _describe_next(task)) if part]
    return f"{about}: {'; '.join(parts) or 'the agent goes on'}."


def _describe_end(wait: Wait) -> str:
    ended = wait.ended_at or wait.changed_at
    took = format_short_duration((ended - wait.armed_at).total_seconds())
    seen = clip(to_plain_line(wait.last_observation or ""), SEEN_BYTES).rstrip(".")
    if wait.status is WaitStatus.RESOLVED:
        return f"{seen} after {took}" if seen else f"waited {took}, and it came"
    more = f" ({seen})" if seen else ""
    if wait.status is WaitStatus.ERROR:
        return f"it can no longer be watched{more}"
    return f"waited {took} in vain{more}"


def _describe_turn(run: Run | None) -> str:
    """Say why a run goes on; empty: its turn ended before its task."""
    if run is None:
        return ""
    if run.why == RunReason.BACKGROUND:
        return "begun in the background"
    if run.why == RunReason.RESET:
        return "started again"
    if run.limits.provider_failures:
        return "the last turn failed at the model's provider"
    if run.limits.idle_rounds:
        return "the last turn brought nothing new"
    return ""


def _describe_next(task: Task | None) -> str:
    """Say what is next for a task; empty: nothing is known."""
    if task is None or task.status.terminal:
        return ""
    current = compute_progress(task).current
    if current is None:
        return "its steps are done"
    return f"on to step {current + 1} of {len(task.plan)}"
