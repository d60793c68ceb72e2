"""How much one agent may make, and one task may hold.

The figures are above what was measured to work well, so that no honest agent meets
them. People are not bound, nor is what the daemon writes.
"""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.updates import Wish
from taskmem_hookspecs import Task
from taskmem_hookspecs.errors import LimitReached

MESSAGES: Final = 200_000
"""Messages of a task after which agents add none."""


def is_full(task: Task, caller: Caller) -> bool:
    """Whether a caller adds no message to a task any more."""
    return task.message_count >= MESSAGES and not caller.is_user


def guard_words(task: Task, caller: Caller, way: str = "leave your words out") -> None:
    """Refuse an agent's words to a task that is full; `way`: what it does instead.

    Raises:
        LimitReached: It has as many messages as a task may.
    """
    if is_full(task, caller):
        raise LimitReached(
            f"{task.task_id} has {task.message_count:,} messages, and agents add none "
            f"after {MESSAGES:,}; {way}, or register a new task with task_register and "
            "go on there. Nothing was written."
        )


def guard_update(task: Task, wish: Wish) -> None:
    """Refuse words with which an update does not end its task, where that is full.

    Raises:
        LimitReached: It has as many messages as a task may.
    """
    ends = wish.status is not None and wish.status.terminal and not task.status.terminal
    if (wish.message is not None or wish.ask is not None) and not ends:
        guard_words(task, wish.caller)
