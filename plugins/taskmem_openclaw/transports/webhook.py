"""Transport `openclaw-hooks`: OpenClaw's webhooks, if the operator has enabled them.

A call takes milliseconds. The text reaches the agent as data, and arrival is not certain.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from taskmem_hookspecs import Wake, WakeReceipt, WakeUndelivered
from taskmem_openclaw import configuration
from taskmem_openclaw.transports.auto import TransportUnavailable
from taskmem_openclaw.transports.listeners import find_stranger
from taskmem_openclaw.transports.own_agents import ReachMixin, require_own_gateway

if TYPE_CHECKING:
    import httpx

SECONDS: Final = 10.0
"""Time limit of each part of a request, such as connecting."""
_REFUSED: Final = (401, 403)
_MISSING: Final = 404


class WebhookTransport(ReachMixin):
    """Delivers wakes by `POST /hooks/wake`."""

    name = "openclaw-hooks"

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Set the environment and the HTTP transport; None: the network."""
        self._environ = environ
        self._transport = transport

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Queue a wake in the gateway and start a turn.

        Raises:
            TransportUnavailable: Webhooks are off, nothing or another user listens, or the path or
                token is wrong.
            WakeUndelivered: The gateway did not take it, or the agent is in another OpenClaw.
        """
        import httpx

        require_own_gateway(wake.host, self._environ)
        hooks = configuration.find_webhooks(self._environ)
        if hooks is None:
            raise TransportUnavailable("Webhooks are not switched on in OpenClaw's configuration.")
        stranger = await asyncio.to_thread(find_stranger, hooks.port)
        if stranger is not None:
            raise TransportUnavailable(
                f"User {stranger} listens at {hooks.url}, who is not us, so the token "
                "was not sent; end that process, or run the gateway as this user."
            )
        body = {"text": wake.text, "mode": "now"}
        if wake.session_key is not None:
            body["sessionKey"] = wake.session_key
        try:
            # The webhook is plain HTTP on loopback, so no certificates are loaded.
            async with httpx.AsyncClient(
                transport=self._transport,
                timeout=SECONDS,
                trust_env=False,
                verify=False,  # noqa: S501
            ) as client:
                answer = await client.post(
                    f"{hooks.url}/wake",
                    json=body,
                    headers={"Authorization": f"Bearer {hooks.token}"},
                )
        except httpx.ConnectError as error:
            raise TransportUnavailable(f"Nobody listens at {hooks.url}.") from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise WakeUndelivered(
                f"The webhook at {hooks.url} failed ({type(error).__name__}); see that "
                "the gateway runs."
            ) from error
        if answer.status_code in _REFUSED:
            raise TransportUnavailable(
                f"The webhook at {hooks.url} refuses its token (hooks.token); restart "
                "the gateway, or mend the token in OpenClaw's configuration."
            )
        if answer.status_code == _MISSING:
            raise TransportUnavailable(
                f"There is no webhook at {hooks.url}; see hooks.path in OpenClaw's configuration."
            )
        if not answer.is_success:
            said = " ".join(answer.text.split())[:200]
            raise WakeUndelivered(
                f"The webhook at {hooks.url} answered {answer.status_code}: {said}. "
                "See OpenClaw's hooks settings."
            )
        return WakeReceipt(delivered_at=datetime.now(UTC))  # noqa: TID251
