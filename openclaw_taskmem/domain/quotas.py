"""How much one agent may make, and one task may hold.

The figures are above what was measured to work well, so that no honest agent meets
them. People are not bound, nor is what the daemon writes.
"""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.domain.callers import Caller, find_session_agent
from openclaw_taskmem.domain.reachability import GATEWAY, list_host_names
from openclaw_taskmem.domain.task_update import UpdateRequest
from taskmem_hookspecs import Maker, Task
from taskmem_hookspecs.errors import LimitReached

TASKS: Final = 25_000
"""Open tasks of one agent after which it registers none."""
WAITS: Final = 5_000
"""Open waits of one agent after which it starts none."""
MESSAGES: Final = 200_000
"""Messages of a task after which agents add none."""


def find_maker(caller: Caller) -> Maker | None:
    """Return with whose tasks and waits a caller's count; None: nobody counts them.

    Of a gateway each agent is one, whatever its sessions. Of another host the session
    is what its agent says, so that all agents there are one, as in their shells.
    """
    if caller.host is None:  # a person, or the program itself
        return None
    agent = find_session_agent(caller.session_key) if caller.kind == GATEWAY else None
    return Maker(hosts=list_host_names(caller.host), agent=agent)


def guard_tasks(count: int) -> None:
    """Refuse one more task of an agent that has so many open ones.

    Raises:
        LimitReached: It has as many as one may.
    """
    if count >= TASKS:
        raise LimitReached(
            f"You have {TASKS:,} open tasks, as many as one agent may; end those that "
            'are over with task_update, status "completed" or "cancelled" (task_list '
            "shows them), before you register another. Nothing was written."
        )


def guard_waits(count: int) -> None:
    """Refuse one more wait of an agent that has so many open ones.

    Raises:
        LimitReached: It has as many as one may.
    """
    if count >= WAITS:
        raise LimitReached(
            f"You have {WAITS:,} open waits, as many as one agent may; cancel those "
            "that you do not need with wait_cancel, or let some end, before you start "
            "another. Nothing was written."
        )


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


def guard_update(task: Task, wish: UpdateRequest) -> None:
    """Refuse words with which an update does not end its task, where that is full.

    Raises:
        LimitReached: It has as many messages as a task may.
    """
    ends = wish.status is not None and wish.status.terminal and not task.status.terminal
    if (wish.message is not None or wish.ask is not None) and not ends:
        guard_words(task, wish.caller)
