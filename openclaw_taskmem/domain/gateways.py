"""Decide when a gateway's session must not be disturbed.

After a restart OpenClaw resumes the turns that were cut by itself, 2 to 5 seconds after its start
(measured with 2026.9.6).
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
"""Starts to remember; several gateways may use the same daemon."""
SETTLES: Final = timedelta(seconds=12)
"""How long a gateway that has just started is left to its own recovery."""
LONGEST_TURN: Final = timedelta(hours=1)
"""Age at which a turn whose end was not reported no longer holds wakes back. If it still runs, the
wake waits in the gateway."""


class GatewayPresence(Value):
    """A gateway as its plug-in reports it."""

    boot: str
    """Id of its current start."""
    transport: str
    """Transport that delivers wakes to its plug-in."""
    version: str
    """The plug-in's version."""
    host: str = GATEWAY
    """Name of the host, as in `Wake.host`."""
    started_at: Instant
    main_session: str
    """Session for wakes that name none."""
    fingerprints: Mapping[str, str] = {}
    """Digest of what shapes an agent's prompt, by the agent's id."""
    running: Mapping[str, Instant] = {}
    """Sessions in which a turn runs, with since when that is known."""

    def with_running(self, sessions: Iterable[str], now: datetime) -> GatewayPresence:
        """Set the sessions in which a turn runs now."""
        running = {key: self.running.get(key, now) for key in sessions}
        return self.model_copy(update={"running": running})


class RunningWork(Value):
    """A command or sub-agent that a gateway runs for a session, beside its turn."""

    kind: Literal["command", "sub_agent"]
    name: str
    """A command's `exec` session, or a sub-agent's session key."""
    about: str
    """The command, or the sub-agent's task; empty: not known."""
    since: Instant

    def format_line(self) -> str:
        """Write it as a line."""
        kind = {"command": "exec session", "sub_agent": "sub-agent"}[self.kind]
        about = f": {clip(to_one_line(self.about), 200)}" if self.about else ""
        return f"{kind} {self.name}{about}, since {format_iso(self.since)}"


class Hold(Value):
    """Why no wake may go to a session now."""

    why: str
    until: Instant | None = None
    """When it ends by itself at the latest; None: it does not."""


def find_hold(
    gateways: Iterable[GatewayPresence], session_key: str | None, now: datetime
) -> Hold | None:
    """Return why no wake may go to a session now; None: it may.

    Without a connected gateway there is no hold. A clock that is set back ends a hold.
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
    """Return the transport of the gateway in which an agent runs.

    None: that gateway is not connected, or the agent runs elsewhere.
    """
    return next((each.transport for each in gateways if each.host == host), None)


def find_open_task(tasks: Iterable[Task], session_key: str, since: datetime | None) -> Task | None:
    """Return the active task to remind a session's agent of; None: there is none.

    It is the one touched last. `since` is when the agent may have forgotten it: if the task was
    touched later, no reminder is needed. None: the agent asked for a reminder.
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
