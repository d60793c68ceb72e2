"""Wakes by OpenClaw's command line, or on the daemon's own output."""

from __future__ import annotations

from taskmem_hookspecs import WakeTransport, hookimpl


@hookimpl(trylast=True)
def wake_transport(name: str) -> WakeTransport | None:
    """Provide `openclaw-cli`, which is also what `auto` means, and `stdout`."""
    if name in ("auto", "openclaw-cli"):
        from taskmem_openclaw.cli import OpenClawCli

        return OpenClawCli()
    if name == "stdout":
        from taskmem_openclaw.stdout import Stdout

        return Stdout()
    return None
