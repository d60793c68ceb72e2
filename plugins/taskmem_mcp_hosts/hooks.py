"""Hooks for MCP hosts: the check of those that are set up."""

from __future__ import annotations

from collections.abc import Sequence

from taskmem_hookspecs import DoctorCheck, hookimpl


@hookimpl
def health_checks() -> Sequence[DoctorCheck]:
    """Return the check of every such host that is set up."""
    from taskmem_mcp_hosts.doctor import HostsCheck

    return [HostsCheck()]
