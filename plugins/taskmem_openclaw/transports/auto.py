"""Transport `openclaw`, the best available way to the gateway; and which agents' wakes it gets.

These are those of its own agents, never those of another host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final, Literal

from taskmem_hookspecs import Wake, WakeReceipt, WakeTransport, WakeUndelivered
from taskmem_openclaw import configuration
from taskmem_openclaw.transports import BEST_AVAILABLE

_OPENCLAW: Final = "openclaw"
"""Prefix of `Wake.host` for an agent in a gateway with our plug-in; a colon and the id follow."""
BUNDLE: Final = "mcp:openclaw-bundle-mcp"
"""`Wake.host` for an agent that uses our MCP server through OpenClaw's MCP client."""
GLANCE_SECONDS: Final = 2.0
"""Time limit for the gateway to say whether it has started. Seconds."""


class TransportUnavailable(WakeUndelivered):
    """This transport is not available; another one may be."""


class FirstAvailable:
    """Tries transports in order until one is available and takes the wake."""

    name = BEST_AVAILABLE

    def __init__(self, rungs: Sequence[WakeTransport]) -> None:
        """Set the transports, best first."""
        self._rungs = rungs

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Return whether the agent runs in OpenClaw, in a known session.

        Transports that do not name the session are used only if the operator chose them.
        """
        return session_key is not None and _is_openclaw_agent(host)

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Deliver by the first available transport; the note names the unavailable ones.

        If an available transport fails, no other is tried: it would deliver at the wrong moment, or
        twice.

        Raises:
            WakeUndelivered: No transport is available, or delivery failed. The message has all
                reasons, or only what the wake waits for though nothing is wrong.
            WakeRefused: An available transport will never take it.
        """
        tried: list[str] = []
        waiting: WakeUndelivered | None = None
        for rung in self._rungs:
            try:
                receipt = await rung.deliver(wake)
            except TransportUnavailable as error:
                tried.append(f"{rung.name}: {error}")
                waiting = waiting or (error if error.waits else None)
            except WakeUndelivered as error:
                if error.waits or waiting:
                    raise (waiting or error) from error
                raise WakeUndelivered(
                    _join_sentences(*tried, f"{rung.name}: {error}"), error.retry_seconds
                ) from error
            else:
                note = _join_sentences(*tried, receipt.note or "")
                return receipt.model_copy(update={"transport": rung.name, "note": note or None})
        raise waiting or WakeUndelivered(_join_sentences(*tried))


def _join_sentences(*sentences: str) -> str:
    return " ".join(part for part in sentences if part)


def _is_openclaw_agent(host: str | None) -> bool:
    """Return whether the agent runs in OpenClaw; True if its host is unknown."""
    return host in (None, BUNDLE) or host.partition(":")[0] == _OPENCLAW


class ReachMixin:
    """Makes a transport take wakes for all agents of OpenClaw."""

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Return whether the agent runs in OpenClaw; no session means the main one."""
        del session_key
        return _is_openclaw_agent(host)


def parse_gateway(host: str | None) -> str | None:
    """Return the gateway in which the agent runs; None: any gateway may do."""
    return host if host and host.startswith(f"{_OPENCLAW}:") else None


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
    if gateway != f"{_OPENCLAW}:{own}":
        raise WakeUndelivered(
            "Its agent runs in another OpenClaw than the one that is configured here; "
            "start that one.",
            waits=True,
        )


async def is_gateway_away(environ: Mapping[str, str]) -> bool:
    """Return whether no gateway listens at the local port that is configured; False: unknown."""
    config = configuration.read_config(environ)
    port = None if config is None else configuration.find_local_port(config, environ)
    return port is not None and await read_phase(port) == "away"


async def read_phase(port: int) -> Literal["away", "starting", "started"]:
    """Ask the gateway on a loopback port how far its start is.

    One that is about to stop, or too busy to answer, counts as starting; one that does not say, as
    started. Source: https://github.com/openclaw/openclaw/blob/main/docs/gateway/health.md, "HTTP
    probes".
    """
    import httpx

    try:
        # Loading certificates takes 6 MB and 25 ms, and this is plain HTTP on loopback.
        async with httpx.AsyncClient(
            timeout=GLANCE_SECONDS,
            trust_env=False,
            verify=False,  # noqa: S501
        ) as client:
            answer = await client.get(f"http://127.0.0.1:{port}/startupz")
    except httpx.ConnectError:
        return "away"
    except httpx.TimeoutException:
        return "starting"
    except httpx.HTTPError:
        return "started"
    return "starting" if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE else "started"
