"""The gateways that are connected, and what runs in them, as their plug-ins report it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, Literal

from openclaw_taskmem.domain.callers.reachability import GATEWAY
from openclaw_taskmem.domain.text.texts import clip, format_iso, to_one_line
from taskmem_hookspecs import Value
from taskmem_hookspecs.value import Instant

BOOTS: Final = 8
"""Starts to remember; several gateways may use the same daemon."""


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


def find_transport(host: str | None, gateways: Iterable[GatewayPresence]) -> str | None:
    """Return the transport of the gateway in which an agent runs.

    None: that gateway is not connected, or the agent runs elsewhere.
    """
    return next((each.transport for each in gateways if each.host == host), None)
