"""Limit the open tasks and waits of an agent, and the messages of a task.

The limits are above what was measured to work well, so that no honest agent meets them. They do not
apply to people and to the daemon itself.
"""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.domain.callers import GATEWAY, Caller, list_host_names
from openclaw_taskmem.domain.changes.task_update import UpdateRequest
from openclaw_taskmem.domain.errors import LimitReached
from taskmem_hookspecs import Maker, SessionNames, Task

MOST_TASKS: Final = 25_000
"""Most open tasks of one agent."""
MOST_WAITS: Final = 5_000
"""Most open waits of one agent."""
MOST_MESSAGES: Final = 200_000
"""Most messages of a task; agents add none after that."""


def find_maker(caller: Caller, sessions: SessionNames) -> Maker | None:
    """Return whose tasks and waits are counted with a caller's; None: they are not counted.

    Each agent of a gateway is counted by itself. All agents of another host are counted together,
    with their shells, because their sessions are only what they say.
    """
    if caller.host is None:  # a person, or the program itself
        return None
    agent = sessions.find_agent(caller.session_key) if caller.kind == GATEWAY else None
    return Maker(hosts=list_host_names(caller.host), agent=agent)


def guard_tasks(count: int) -> None:
    """Refuse one more task of an agent with so many open ones.

    Raises:
        LimitReached: The agent has the most that it may have.
    """
    if count >= MOST_TASKS:
        raise LimitReached(
            f"You have {MOST_TASKS:,} open tasks, as many as one agent may; end those that "
            'are over with task_update, status "completed" or "cancelled" (task_list '
            "shows them), before you register another. Nothing was written."
        )


def guard_waits(count: int) -> None:
    """Refuse one more wait of an agent with so many open ones.

    Raises:
        LimitReached: The agent has the most that it may have.
    """
    if count >= MOST_WAITS:
        raise LimitReached(
            f"You have {MOST_WAITS:,} open waits, as many as one agent may; cancel those "
            "that you do not need with wait_cancel, or let some end, before you start "
            "another. Nothing was written."
        )


def is_full(task: Task, caller: Caller) -> bool:
    """True if a caller may add no message to a task."""
    return task.message_count >= MOST_MESSAGES and not caller.is_user


def guard_words(task: Task, caller: Caller, way: str = "leave your words out") -> None:
    """Refuse an agent's message to a task that is full; `way`: what to do instead.

    Raises:
        LimitReached: The task has the most messages that it may have.
    """
    if is_full(task, caller):
        raise LimitReached(
            f"{task.task_id} has {task.message_count:,} messages, and agents add none "
            f"after {MOST_MESSAGES:,}; {way}, or register a new task with task_register and "
            "go on there. Nothing was written."
        )


def guard_update(task: Task, wish: UpdateRequest) -> None:
    """Refuse an update with a message to a task that is full, unless it ends the task.

    Raises:
        LimitReached: The task has the most messages that it may have.
    """
    if task.message_count < MOST_MESSAGES:
        return
    ends = wish.status is not None and wish.status.terminal and not task.status.terminal
    if (wish.message is not None or wish.ask is not None) and not ends:
        guard_words(task, wish.caller)
