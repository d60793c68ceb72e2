"""Decide when no wake may go to a session.

After a restart OpenClaw resumes the turns that were cut by itself, 2 to 5 seconds after its start
(measured with 2026.9.6).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain.callers.gateway_presence import GatewayPresence
from taskmem_hookspecs import Value
from taskmem_hookspecs.value import Instant

SETTLES: Final = timedelta(seconds=12)
"""How long a gateway that has just started is left to its own recovery."""
LONGEST_TURN: Final = timedelta(hours=1)
"""Age at which a turn whose end was not reported no longer holds wakes back. If it still runs, the
wake waits in the gateway."""


class Hold(Value):
    """Why no wake may go to a session now."""

    why: str
    until: Instant | None = None
    """When it ends by itself at the latest; None: it does not."""


def find_hold(
    gateways: Iterable[GatewayPresence], session_key: str | None, now: datetime
) -> Hold | None:
    """Return why no wake may go to a session now; None: it may.

    Without a connected gateway there is no hold. A clock that is set back ends a hold.
    """
    for gateway in gateways:
        settled = gateway.started_at + SETTLES
        if gateway.started_at <= now < settled:
            why = "the gateway has just started, and resumes its own turns first"
            return Hold(why=why, until=settled)
        since = gateway.running.get(session_key or gateway.main_session)
        if since is not None and since <= now < since + LONGEST_TURN:
            why = "a turn of the session is running"
            return Hold(why=why, until=since + LONGEST_TURN)
    return None
