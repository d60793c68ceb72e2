"""What a person may do with a task: the actions of the page, the command line and the chat."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain import current_run
from taskmem_hookspecs import Run, RunState, TaskFacts, TaskStatus


class UserAction(StrEnum):
    """An act of a person on a task."""

    ANSWER = "answer"
    """Answer its agent's question; takes words."""
    APPROVE = "approve"
    """Accept its work in a review, which completes it."""
    SEND_BACK = "send_back"
    """Send it back from a review; takes words."""
    ACCEPT = "accept"
    """Complete it although its completion was refused."""
    RESUME = "resume"
    """Let its agent go on."""
    PAUSE = "pause"
    """Set it aside."""
    CANCEL = "cancel"
    """Call it off."""


NEEDS_WORDS: Final = (UserAction.ANSWER, UserAction.SEND_BACK)
"""Actions that mean nothing without words."""


def list_actions(facts: TaskFacts, *, asks: bool) -> tuple[UserAction, ...]:
    """Return what a person may do with a task, the likeliest first.

    `asks`: True if its question to the user is open.
    """
    task, run = facts.task, facts.run
    if task.status is TaskStatus.COMPLETED:
        return ()
    if task.status.terminal:
        return (UserAction.RESUME,)
    found: list[UserAction] = []
    if run is not None and run.state is RunState.REVIEW:
        found += (UserAction.APPROVE, UserAction.SEND_BACK)
    elif asks and run is not None and current_run.has_open_question(run):
        found.append(UserAction.ANSWER)
    elif task.status is TaskStatus.PAUSED or (run is not None and _is_stopped(run)):
        found.append(UserAction.RESUME)
    if task.doubts:
        found.append(UserAction.ACCEPT)
    if task.status is TaskStatus.ACTIVE:
        found.append(UserAction.PAUSE)
    return (*found, UserAction.CANCEL)


def _is_stopped(run: Run) -> bool:
    """True if a run is blocked, and its agent does not have the user's answer already."""
    return run.state is RunState.BLOCKED and not current_run.can_take_answer(run)
