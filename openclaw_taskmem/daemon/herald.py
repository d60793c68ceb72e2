"""Tells the agents' host what the log has for it, in order, until it was told."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.daemon.threads import Apart
from openclaw_taskmem.domain import events
from openclaw_taskmem.engine import say
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import AgentHost, Event, WakeRefused, WakeUndelivered

log = logging.getLogger(__name__)

FIRST_REST: Final = timedelta(seconds=2)
"""After which a host that was away is tried again; doubled while it is."""
LONGEST_REST: Final = timedelta(seconds=30)
SECONDS: Final = 10.0
"""How long the host may take for one line."""


class Herald:
    """One pass at a time, from the event loop."""

    def __init__(self, shell: Shell, host: AgentHost | None, apart: Apart) -> None:
        """Take the log's side, whom to tell, and threads; None: there is nobody."""
        self._shell = shell
        self._host = host
        self._apart = apart
        self._rest = FIRST_REST

    async def one_pass(self) -> datetime | None:
        """Tell what is due; return when to look again, None: nothing is due."""
        fresh, place = await self._apart(say.due, self._shell)
        for event in fresh:
            if not await self._told(event):
                again = self._shell.clock.now() + self._rest
                self._rest = min(self._rest * 2, LONGEST_REST)
                return again
            self._rest = FIRST_REST
            await self._apart(say.told, self._shell, event.event_id)
        if place:
            await self._apart(say.told, self._shell, place)
        return self._shell.clock.now() if place else None

    async def _told(self, event: Event) -> bool:
        """Whether an event needs no telling any more."""
        if self._host is None:
            return True
        session, line = str(event.data["session_key"]), str(event.data.get("line", ""))
        try:
            async with asyncio.timeout(SECONDS):
                if event.kind == events.TURN_STOPPED:
                    await self._host.stop(session)
                else:
                    await self._host.say(session, line)
        except (WakeUndelivered, TimeoutError) as error:
            log.debug("the host was not told of event %d: %s", event.event_id, error)
            return False
        except WakeRefused as error:
            log.info("the host takes nothing for %s: %s", session, error)
        except Exception:
            log.exception("the host could not be told of event %d", event.event_id)
        return True
