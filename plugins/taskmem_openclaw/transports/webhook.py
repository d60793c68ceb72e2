"""Transport `openclaw-hooks`: OpenClaw's webhooks, if the operator has enabled them.

A call takes milliseconds. The text reaches the agent as data, and arrival is not certain.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from taskmem_hookspecs import Wake, WakeReceipt, WakeUndelivered
from taskmem_openclaw import configuration
from taskmem_openclaw.transports.auto import ReachMixin, TransportUnavailable, require_own_gateway

if TYPE_CHECKING:
    import httpx

REQUEST_SECONDS: Final = 10.0
"""Time limit of each part of a request, such as connecting."""
_TOKEN_REFUSALS: Final = (401, 403)
_NOT_FOUND: Final = 404
TABLES: Final = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
"""Linux's tables of TCP sockets. Source: proc_net_tcp(5)."""
_LISTEN_STATE: Final = "0A"
_LOOPBACK_ADDRESSES: Final = frozenset(
    {
        "0100007F",
        "00000000",
        "0" * 32,
        "0000000000000000FFFF00000100007F",
        "0000000000000000FFFF000000000000",
    }
)
"""Listening addresses that receive connections to 127.0.0.1, as little-endian hex."""


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
                timeout=REQUEST_SECONDS,
                trust_env=False,
                verify=False,  # noqa: S501
            ) as client:
                answer = await client.post(
                    f"{hooks.url}/wake",
                    json=body,
                    headers={"Authorization": f"Bearer {hooks.token}"},
                )
        except httpx.ConnectError as error:
            raise TransportUnavailable(
                f"Nobody listens at {hooks.url}; the wake goes out when the gateway is started.",
                waits=True,
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise WakeUndelivered(
                f"The webhook at {hooks.url} failed ({type(error).__name__}); see that "
                "the gateway runs."
            ) from error
        if answer.status_code in _TOKEN_REFUSALS:
            raise TransportUnavailable(
                f"The webhook at {hooks.url} refuses its token (hooks.token); restart "
                "the gateway, or mend the token in OpenClaw's configuration."
            )
        if answer.status_code == _NOT_FOUND:
            raise TransportUnavailable(
                f"There is no webhook at {hooks.url}; see hooks.path in OpenClaw's configuration."
            )
        if not answer.is_success:
            answer_text = " ".join(answer.text.split())[:200]
            raise WakeUndelivered(
                f"The webhook at {hooks.url} answered {answer.status_code}: {answer_text}. "
                "See OpenClaw's hooks settings."
            )
        return WakeReceipt(delivered_at=datetime.now(UTC))


def find_stranger(port: int) -> int | None:
    """Return the id of a user, other than us and root, who listens on 127.0.0.1:port.

    None: there is none, or the system does not say (no `/proc`, as on macOS). A listener that
    starts after this check is not seen.
    """
    try:
        owners = _list_owners(port)
    except (OSError, ValueError, IndexError):
        return None
    return min(owners - {0, os.geteuid()}, default=None)


def _list_owners(port: int) -> set[int]:
    """Return the user ids whose sockets receive connections to 127.0.0.1:port."""
    first, *rest = TABLES
    text = first.read_text("ascii")
    for table in rest:
        if table.exists():
            text += table.read_text("ascii")
    owners: set[int] = set()
    for line in text.splitlines():
        fields = line.split()
        address, _, number = fields[1].partition(":")
        if (
            fields[3] == _LISTEN_STATE
            and int(number, 16) == port
            and address in _LOOPBACK_ADDRESSES
        ):
            owners.add(int(fields[7]))
    return owners
