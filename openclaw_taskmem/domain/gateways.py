"""What is known of the gateway, and when a session is not to be disturbed.

OpenClaw resumes what a restart has cut by itself, beginning 2 to 5 seconds after its
start (measured with 2026.9.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

from openclaw_taskmem.domain.reachability import GATEWAY
from openclaw_taskmem.domain.texts import clip, format_iso, to_one_line
from taskmem_hookspecs import Task, TaskStatus, Value
from taskmem_hookspecs.value import Instant

BOOTS: Final = 8
"""Starts that are remembered, for more than one gateway may find the same daemon."""
SETTLES: Final = timedelta(seconds=12)
"""How long a gateway that has just started is left to its own recovery."""
LONGEST_TURN: Final = timedelta(hours=1)
"""After which a turn whose end was never told holds nobody any more; a wake for one
that runs still waits in the gateway."""


class GatewayPresence(Value):
    """A gateway as its plug-in reports it."""

    boot: str
    """One per start."""
    transport: str
    """The transport by which its plug-in takes wakes."""
    version: str
    """The plug-in's version."""
    host: str = GATEWAY
    """Where its agents run, as in `Wake.host`."""
    started_at: Instant
    main_session: str
    """The session of a wake that names none."""
    fingerprints: Mapping[str, str] = {}
    """Of what shapes each agent's prompt, by the agent's id."""
    running: Mapping[str, Instant] = {}
    """The sessions in which a turn runs, and since when that is known."""

    def with_running(self, sessions: Iterable[str], now: datetime) -> GatewayPresence:
        """Return it with the sessions in which a turn runs now."""
        running = {key: self.running.get(key, now) for key in sessions}
        return self.model_copy(update={"running": running})


class RunningWork(Value):
    """What a gateway runs for a session, beside its turn."""

    kind: Literal["command", "sub_agent"]
    name: str
    """Of a command its session of `exec`, of a sub-agent its session's key."""
    about: str
    """The command, or what the sub-agent was told to do; empty: not known."""
    since: Instant

    def format_line(self) -> str:
        """Return it as a line."""
        kind = {"command": "exec session", "sub_agent": "sub-agent"}[self.kind]
        about = f": {clip(to_one_line(self.about), 200)}" if self.about else ""
        return f"{kind} {self.name}{about}, since {format_iso(self.since)}"


class Hold(Value):
    """Why a session is left alone just now."""

    why: str
    until: Instant | None = None
    """When it ends by itself, if nobody ends it before; None: it does not."""


def find_hold(
    gateways: Iterable[GatewayPresence], session_key: str | None, now: datetime
) -> Hold | None:
    """Return why no wake may go to a session now; None: it may.

    Where no gateway is known nobody is held: there is nobody to ask. A clock that is
    set back ends a hold, rather than stretching it.
    """
    for gateway in gateways:
        settled = gateway.started_at + SETTLES
        if gateway.started_at <= now < settled:
            why = "the gateway has just started, and resumes its own turns first"
            return Hold(why=why, until=settled)
        since = gateway.running.get(session_key or gateway.main_session)
        if since is not None and since <= now < since + LONGEST_TURN:
            why = "a turn of the session is running"
            return Hold(why=why, until=since + LONGEST_TURN)
    return None


def find_transport(host: str | None, gateways: Iterable[GatewayPresence]) -> str | None:
    """Return by which transport the gateway takes wakes that an agent runs in.

    None: that gateway is not connected, or its agent runs elsewhere.
    """
    return next((each.transport for each in gateways if each.host == host), None)


def find_open_task(tasks: Iterable[Task], session_key: str, since: datetime | None) -> Task | None:
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
