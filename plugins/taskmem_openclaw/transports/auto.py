"""Transport `auto`: the best available way to the gateway."""

from __future__ import annotations

from collections.abc import Sequence

from taskmem_hookspecs import Wake, WakeReceipt, WakeTransport, WakeUndelivered
from taskmem_openclaw.transports.own_agents import is_openclaw_agent


class TransportUnavailable(WakeUndelivered):
    """This transport is not available; another one may be."""


class FirstAvailable:
    """Tries transports in order until one is available and takes the wake."""

    name = "auto"

    def __init__(self, rungs: Sequence[WakeTransport]) -> None:
        """Set the transports, best first."""
        self._rungs = rungs

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Return whether the agent runs in OpenClaw, in a known session.

        Transports that do not name the session are used only if the operator chose them.
        """
        return session_key is not None and is_openclaw_agent(host)

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Deliver by the first available transport; the note names the unavailable ones.

        If an available transport fails, no other is tried: it would deliver at the wrong moment, or
        twice.

        Raises:
            WakeUndelivered: No transport is available, or delivery failed. The message has all
                reasons.
            WakeRefused: An available transport will never take it.
        """
        tried: list[str] = []
        for rung in self._rungs:
            try:
                receipt = await rung.deliver(wake)
            except TransportUnavailable as error:
                tried.append(f"{rung.name}: {error}")
            except WakeUndelivered as error:
                raise WakeUndelivered(
                    _join_sentences(*tried, f"{rung.name}: {error}"), error.retry_seconds
                ) from error
            else:
                note = _join_sentences(*tried, receipt.note or "")
                return receipt.model_copy(update={"transport": rung.name, "note": note or None})
        raise WakeUndelivered(_join_sentences(*tried))


def _join_sentences(*said: str) -> str:
    return " ".join(part for part in said if part)
