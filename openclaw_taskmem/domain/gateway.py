"""What is known of the gateway, and when a session is not to be disturbed.

OpenClaw resumes what a restart has cut by itself, beginning 2 to 5 seconds after its
start (measured with 2026.9.6).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from taskmem_hookspecs import Task, TaskStatus, Value
from taskmem_hookspecs.model import Instant

SETTLES: Final = timedelta(seconds=12)
"""How long a gateway that has just started is left to its own recovery."""


class Presence(Value):
    """A gateway as its plug-in reports it."""

    boot: str
    """One per start."""
    transport: str
    """The transport by which its plug-in takes wakes."""
    version: str
    """The plug-in's version."""
    started_at: Instant
    main_session: str
    """The session of a wake that names none."""
    running: frozenset[str] = frozenset()
    """The sessions in which a turn runs."""


class Hold(Value):
    """Why a session is left alone just now."""

    why: str
    until: Instant | None = None
    """None: until the gateway says so."""


def hold(
    gateways: Iterable[Presence], session_key: str | None, now: datetime
) -> Hold | None:
    """Return why no wake may go to a session now; None: it may.

    A session that no gateway is known for is never held: there is nobody to ask.
    """
    for gateway in gateways:
        settled = gateway.started_at + SETTLES
        if now < settled:
            why = "the gateway has just started, and resumes its own turns first"
            return Hold(why=why, until=settled)
        if (session_key or gateway.main_session) in gateway.running:
            return Hold(why="a turn of the session is running")
    return None


def open_task(
    tasks: Iterable[Task], session_key: str, since: datetime | None
) -> Task | None:
    """Return the task that a session's agent must be reminded of; None: there is none.

    It is the one that moved last, of those that are active. `since` is when the agent
    may have forgotten it: a task that it has reported on after that is no news. None:
    it asked for it.
    """
    open_ = [
        task
        for task in tasks
        if task.session_key == session_key and task.status is TaskStatus.ACTIVE
    ]
    latest = max(open_, key=lambda task: (task.updated_at, task.task_id), default=None)
    if latest is not None and since is not None and latest.updated_at > since:
        return None
    return latest
