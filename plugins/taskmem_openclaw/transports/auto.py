"""`auto`: the best way to the gateway that is there."""

from __future__ import annotations

from collections.abc import Sequence

from taskmem_hookspecs import Wake, WakeReceipt, WakeTransport, WakeUndelivered
from taskmem_openclaw.transports.own_agents import is_openclaw_agent


class TransportUnavailable(WakeUndelivered):
    """This way to the gateway is not there; another one may be."""


class FirstAvailable:
    """Tries one transport after the other, until one is there and takes it."""

    name = "auto"

    def __init__(self, rungs: Sequence[WakeTransport]) -> None:
        """Take the transports, the best first."""
        self._rungs = rungs

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Whether an agent runs in OpenClaw, in a session that is known.

        The operator has named no way, so none that leaves the session out is taken.
        """
        return session_key is not None and is_openclaw_agent(host)

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Deliver by the first that is there; its note names those that were not.

        A transport that is there and does not take the wake has the last word: another
        one would only bring it at the wrong moment, or twice.

        Raises:
            WakeUndelivered: None is there, or it did not arrive; it says what each one
                said.
            WakeRefused: One that is there says that it never will.
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
