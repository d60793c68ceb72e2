"""Whose wakes OpenClaw is given: those of its own agents, and of no other host's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskmem_hookspecs import WakeUndelivered
from taskmem_openclaw import configuration

OPENCLAW: Final = "openclaw"
"""What `Wake.host` begins with for an agent of a gateway with our plug-in: then comes
a colon, and which OpenClaw it is."""
BUNDLE: Final = "mcp:openclaw-bundle-mcp"
"""The same for one that has our MCP server: OpenClaw's client of such servers."""


def is_openclaw_agent(host: str | None) -> bool:
    """Whether an agent runs in OpenClaw, as far as is known."""
    return host in (None, BUNDLE) or host.partition(":")[0] == OPENCLAW


class ReachMixin:
    """A way into OpenClaw that takes wakes for all of its agents."""

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Whether an agent runs in OpenClaw; without a session it is the main one."""
        del session_key
        return is_openclaw_agent(host)


def parse_gateway(host: str | None) -> str | None:
    """Return the gateway that an agent runs in; None: any may be it."""
    return host if host and host.startswith(f"{OPENCLAW}:") else None


def require_own_gateway(host: str | None, environ: Mapping[str, str]) -> None:
    """Refuse a wake for an agent of another OpenClaw than the one that is configured.

    Raises:
        WakeUndelivered: It waits for its own gateway.
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
