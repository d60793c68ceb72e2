"""Whose wakes OpenClaw is given: those of its own agents, and of no other host's."""

from __future__ import annotations

from typing import Final

OPENCLAW: Final = "openclaw"
"""What `Wake.host` begins with for an agent of a gateway with our plug-in: then comes
a colon, and which OpenClaw it is."""
BUNDLE: Final = "mcp:openclaw-bundle-mcp"
"""The same for one that has our MCP server: OpenClaw's client of such servers."""


def runs_there(host: str | None) -> bool:
    """Whether an agent runs in OpenClaw, as far as is known."""
    return host in (None, BUNDLE) or host.partition(":")[0] == OPENCLAW


def gateway_of(host: str | None) -> str | None:
    """Return the gateway that an agent runs in; None: any may be it."""
    return host if host and host.startswith(f"{OPENCLAW}:") else None
