"""Decide which agents' wakes OpenClaw gets: its own, never those of another host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskmem_hookspecs import WakeUndelivered
from taskmem_openclaw import configuration

OPENCLAW: Final = "openclaw"
"""Prefix of `Wake.host` for an agent in a gateway with our plug-in; a colon and the id follow."""
BUNDLE: Final = "mcp:openclaw-bundle-mcp"
"""`Wake.host` for an agent that uses our MCP server through OpenClaw's MCP client."""


def is_openclaw_agent(host: str | None) -> bool:
    """Return whether the agent runs in OpenClaw; True if its host is unknown."""
    return host in (None, BUNDLE) or host.partition(":")[0] == OPENCLAW


class ReachMixin:
    """Makes a transport take wakes for all agents of OpenClaw."""

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Return whether the agent runs in OpenClaw; no session means the main one."""
        del session_key
        return is_openclaw_agent(host)


def parse_gateway(host: str | None) -> str | None:
    """Return the gateway in which the agent runs; None: any gateway may do."""
    return host if host and host.startswith(f"{OPENCLAW}:") else None


def require_own_gateway(host: str | None, environ: Mapping[str, str]) -> None:
    """Refuse a wake for an agent in another OpenClaw than the configured one.

    Raises:
        WakeUndelivered: The wake must wait for its own gateway.
    """
    gateway = parse_gateway(host)
    if gateway is None:
        return
    try:
        file = configuration.find_state_folder(environ) / "taskmem" / "host.id"
        own = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        own = None
    if gateway != f"{OPENCLAW}:{own}":
        raise WakeUndelivered(
            "Its agent runs in another OpenClaw than the one that is configured here; "
            "start that one."
        )
