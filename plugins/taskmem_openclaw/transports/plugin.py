"""Transport `openclaw-plugin`: wakes through the plug-in, in milliseconds and acknowledged.

The wake's text is put before the session's next turn, where it survives a restart, and a turn is
started. The plug-in reports when a turn has taken the wake.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from taskmem_hookspecs import Wake, WakeReceipt, WakeRefused, WakeUndelivered
from taskmem_openclaw import configuration, plugin_socket
from taskmem_openclaw.transports.auto import (
    ReachMixin,
    TransportUnavailable,
    parse_gateway,
    read_phase,
)

_NEWS: Final = "The agent goes on."
"""Line for people when the wake has none."""
_RECOVERY_SECONDS: Final = 5.0
"""Delay before the retry if OpenClaw is about to recover the session. Seconds."""


class PluginTransport(ReachMixin):
    """Delivers wakes through our plug-in in the gateway."""

    name = "openclaw-plugin"

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        seconds: float = plugin_socket.REQUEST_SECONDS,
        patience: float = plugin_socket.LOAD_SECONDS,
    ) -> None:
        """Set the environment and the time limits.

        `seconds` limits one delivery; `patience`, how long the gateway may take to load the plug-
        in.
        """
        self._environ = environ
        self._seconds = seconds
        self._patience = patience

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Put a wake before the next turn of its session, and start a turn.

        Raises:
            TransportUnavailable: The gateway has no plug-in that takes wakes.
            WakeUndelivered: It was not done, for example because the gateway is not running, has
                only just loaded the plug-in or first recovers the session, because an earlier wake
                still waits, or because the agent is in another OpenClaw.
            WakeRefused: There is no such session.
        """
        try:
            answer: Mapping[str, Any] = await plugin_socket.ask_session_gateway(
                self._environ,
                "wake",
                self._seconds,
                session_key=wake.session_key,
                host=parse_gateway(wake.host),
                key=wake.key,
                delivery_id=wake.delivery_id,
                text=wake.text,
                message=_NEWS if wake.line is None else wake.line,
            )
        except plugin_socket.PluginNotListening as error:
            raise await self._build_absence_error(str(error)) from error
        except plugin_socket.PluginRequestFailed as error:
            raise WakeUndelivered(f"The plug-in did not take it: {error}.") from error
        if "refused" in answer:
            raise WakeRefused(f"{answer['refused']} Register the task in a living one.")
        if "elsewhere" in answer:
            raise WakeUndelivered(
                "The gateway that its agent runs in is not connected here; start it.", waits=True
            )
        if "waits_for" in answer:
            raise WakeUndelivered(
                "An earlier wake of the session still waits for its turn "
                f"({answer['waits_for']}); this one follows it.",
                waits=True,
            )
        if "recovers" in answer:
            raise WakeUndelivered(
                "OpenClaw is about to go on with the turn of the session that its "
                "restart has cut; this wake follows it.",
                retry_seconds=_RECOVERY_SECONDS,
                waits=True,
            )
        how = str(answer.get("turn"))
        return WakeReceipt(
            delivered_at=datetime.now(UTC),
            note=None if how == "ordinary" else f"turn: {how}",
        )

    async def _build_absence_error(self, sentence: str) -> WakeUndelivered:
        """Return the error for a plug-in that does not listen.

        If the configuration may want the plug-in, no other transport is tried until the gateway
        has started and the plug-in could have listened since: it would deliver before the gateway
        has settled, without acknowledgement, and perhaps without beginning a turn.
        """
        sentence = sentence[:1].upper() + sentence[1:]
        if not configuration.may_want_plugin(self._environ):
            return TransportUnavailable(
                f"{sentence}, and OpenClaw is not set up to load it; see: taskmem setup openclaw.",
                waits=True,
            )
        config = configuration.read_config(self._environ)
        port = None
        if config is not None:
            port = configuration.find_local_port(config, self._environ)
        phase = "started" if port is None else await read_phase(port)
        if phase == "away":
            return WakeUndelivered(
                f"No gateway listens at 127.0.0.1:{port}; the wake goes out when one is started.",
                waits=True,
            )
        if await plugin_socket.wait_for_listener(
            plugin_socket.find_socket(self._environ), self._patience
        ):
            return WakeUndelivered(
                "The gateway has only just loaded the plug-in.", retry_seconds=0.0, waits=True
            )
        if phase == "starting":
            return WakeUndelivered(
                "The gateway is still starting, stops, or is too busy to answer; the wake follows "
                "when its plug-in listens.",
                waits=True,
            )
        return TransportUnavailable(
            f"{sentence}, though one runs and is to load it; see: taskmem doctor."
        )
