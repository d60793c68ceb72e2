"""What a packet says of the past: what is done, what was cut, what was dropped.

Source: requirements E1, E3; notes of what agents get wrong after a resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openclaw_taskmem.domain import plan
from openclaw_taskmem.domain.checkpoints import History, PastCall
from openclaw_taskmem.domain.texts import clip, one_line
from taskmem_hookspecs import PlanRevision, Run, Task, Wait, WaitStatus

BYTES: Final = 160
_READS: Final = frozenset(
    {
        *("read", "ls", "find", "grep", "glob", "image", "pdf", "view"),
        *("web_search", "web_fetch", "memory_search", "memory_get"),
        *("sessions_list", "sessions_history", "session_status", "agents_list"),
        *("tool_search", "tool_describe"),
    }
)
"""Tools that leave nothing behind: doing them again does no harm."""


def done(history: History | None) -> tuple[str, ...]:
    """Return the calls that were made and have left something behind, oldest first."""
    calls = () if history is None else history.calls
    made = [call for call in calls if call.ok and call.tool not in _READS]
    return tuple(map(_name, made))


def cut(history: History | None) -> tuple[str, ...]:
    """Return the calls of which nobody knows what they did, oldest first."""
    return () if history is None else tuple(map(_name, history.unknown))


def dropped(
    task: Task, revisions: Sequence[PlanRevision], waits: Sequence[Wait]
) -> tuple[str, ...]:
    """Return what was wanted once and is not any more, oldest first."""
    now = {plan.identity(step) for step in task.plan}
    gone = dict.fromkeys(
        step
        for revision in revisions
        for step in revision.old_plan
        if plan.identity(step) not in now
    )
    steps = [f"step: {_line(step)}" for step in gone]
    called_off = [
        f"wait: {_line(wait.target)} until {_line(wait.wake_when)}"
        for wait in waits
        if wait.status is WaitStatus.CANCELLED
    ]
    return (*steps, *called_off)


def earlier(run: Run | None, history: History | None) -> int:
    """Return how many calls a run has ended besides those that its history has."""
    known = () if history is None else history.calls
    ended = sum(call.ok is not None for call in known)
    return 0 if run is None else max(run.calls - ended, 0)


def _name(call: PastCall) -> str:
    about = f": {_line(call.about)}" if call.about else ""
    ended = "" if call.exit_code is None else f" (exit {call.exit_code})"
    return f"{call.tool}{about}{ended}"


def _line(text: str) -> str:
    return clip(one_line(text), BYTES)
