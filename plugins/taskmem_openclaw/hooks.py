"""Hooks of the OpenClaw plug-in: transports, agent host, sensor, reader and the doctor's checks."""

from __future__ import annotations

from collections.abc import Sequence

from taskmem_hookspecs import (
    AgentHost,
    DoctorCheck,
    Reader,
    Sensor,
    Target,
    WakeTransport,
    hookimpl,
)
from taskmem_openclaw.transports import BEST_AVAILABLE, OPENCLAW_TRANSPORTS


@hookimpl(trylast=True)
def wake_transport(name: str) -> WakeTransport | None:
    """Return the transport with this name: `openclaw`, one way into it, or `stdout`; else None."""
    if name in ("auto", BEST_AVAILABLE):
        from taskmem_openclaw.transports.auto import FirstAvailable

        rungs = map(_build_transport, OPENCLAW_TRANSPORTS)
        return FirstAvailable([rung for rung in rungs if rung is not None])
    return _build_transport(name)


@hookimpl(trylast=True)
def wake_transport_names() -> Sequence[str]:
    """Name the ways into OpenClaw, and `stdout`."""
    return (BEST_AVAILABLE, *OPENCLAW_TRANSPORTS, "stdout")


@hookimpl(trylast=True)
def agent_host() -> AgentHost:
    """Return the host that notifies users and stops turns through the plug-in in the gateway."""
    from taskmem_openclaw.agent_host import OpenClawHost

    return OpenClawHost()


@hookimpl(trylast=True)
def wait_sensor(target: Target) -> Sensor | None:
    """Return the sensor for `pty:NAME` targets: commands that OpenClaw's `exec` runs.

    None: another kind of target, such as `pty:file:…`.
    """
    if target.scheme != "pty" or ":" in target.name:
        return None
    from taskmem_openclaw.background_commands import ExecSensor

    return ExecSensor()


@hookimpl(trylast=True)
def reader() -> Reader:
    """Return the reader that asks the user's own model through the plug-in in the gateway."""
    from taskmem_openclaw.reader import HostReader

    return HostReader()


@hookimpl(trylast=True)
def health_checks() -> Sequence[DoctorCheck]:
    """Return the checks of the links to OpenClaw, and of a test wake."""
    from taskmem_openclaw.doctor.live_proof import WakeProof
    from taskmem_openclaw.doctor.rows import OpenClawCheck

    return [OpenClawCheck(), WakeProof()]


def _build_transport(name: str) -> WakeTransport | None:
    match name:
        case "openclaw-plugin":
            from taskmem_openclaw.transports.plugin import PluginTransport

            return PluginTransport()
        case "openclaw-hooks":
            from taskmem_openclaw.transports.webhook import WebhookTransport

            return WebhookTransport()
        case "openclaw-cli":
            from taskmem_openclaw.transports.cli import OpenClawCli

            return OpenClawCli()
        case "stdout":
            from taskmem_openclaw.transports.stdout import Stdout

            return Stdout()
        case _:
            return None
