"""Tells the agents' host what the log has for it, until it was told or given up."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from openclaw_taskmem.daemon.threads import Apart
from openclaw_taskmem.domain import events
from openclaw_taskmem.engine import say
from openclaw_taskmem.engine.say import Errand
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import AgentHost, Event, WakeRefused, WakeUndelivered

log = logging.getLogger(__name__)

FIRST_REST: Final = timedelta(seconds=2)
"""After which what could not be told is tried again; doubled while it cannot."""
LONGEST_REST: Final = timedelta(seconds=30)
PATIENCE: Final = timedelta(minutes=15)
"""After which what cannot be told is given up; its entry in the log stays."""
SECONDS: Final = 10.0
"""How long the host may take for one entry."""


class _Owed(NamedTuple):
    """An entry that is to be told, and how old it is."""

    event: Event
    age: float
    """In seconds by the wall, when it was read; below 0: the wall went back since."""
    read: float
    """When that was, by the monotonic clock."""


class Herald:
    """One errand, in order for each session, and no session waits for another.

    One pass at a time, from the event loop.
    """

    def __init__(
        self, shell: Shell, host: AgentHost | None, apart: Apart, errand: Errand
    ) -> None:
        """Take the log's side, whom to tell, and threads; None: there is nobody."""
        self._shell = shell
        self._host = host
        self._apart = apart
        self._errand = errand
        self._rest = FIRST_REST
        self._owed: dict[str | None, list[_Owed]] = {}
        """What each session is yet to be told."""
        self._since: dict[str | None, float] = {}
        """Since when nothing can be told to a session, by the monotonic clock."""
        self._read = self._kept = -1
        """How far the log was read, and up to where that is kept; -1: not known."""

    async def one_pass(self) -> datetime | None:
        """Tell what is due; return when to look again, None: nothing is due."""
        more = await self._listen()
        ready = [*self._owed]
        while ready:
            firsts = (self._told(self._owed[session][0]) for session in ready)
            told = await asyncio.gather(*firsts)
            ready = [
                session
                for session, done in zip(ready, told, strict=True)
                if self._settled(session, told=done)
            ]
            await self._keep()
        await self._keep()
        now = self._shell.clock.now()
        again = now + self._rest if self._owed else None
        self._rest = min(self._rest * 2, LONGEST_REST) if self._owed else FIRST_REST
        return now if more else again

    async def _listen(self) -> bool:
        """Read on in the log; False: there was nothing new."""
        if self._read < 0:
            self._read = await self._apart(say.place, self._shell, self._errand)
            self._kept = self._read
        fresh, place = await self._apart(say.due, self._shell, self._errand, self._read)
        now, read = self._shell.clock.now(), self._shell.clock.monotonic()
        for event in fresh:
            one = _Owed(event, (now - event.at).total_seconds(), read)
            self._owed.setdefault(say.session_of(event), []).append(one)
        self._read, before = place, self._read
        return place != before

    def _settled(self, session: str | None, *, told: bool) -> bool:
        """Note how telling a session went; True: it has more to be told now."""
        now = self._shell.clock.monotonic()
        left = self._owed[session]
        if told:
            self._since.pop(session, None)
            left = left[1:]
        else:
            since = self._since.setdefault(session, now)
            patience = PATIENCE.total_seconds()
            late = [e for e in left if now - max(since, e.read) >= patience]
            for event, _, _ in late:
                log.warning(
                    "event %d (%s) was not told to %s in %s, and is given up",
                    event.event_id,
                    event.kind,
                    session,
                    PATIENCE,
                )
            left = [e for e in left if e not in late]
        if left:
            self._owed[session] = left
        else:
            del self._owed[session]
            self._since.pop(session, None)
        return told and bool(left)

    async def _keep(self) -> None:
        """Keep up to where all was told: what follows is told again after a crash."""
        firsts = (left[0].event.event_id - 1 for left in self._owed.values())
        place = min(firsts, default=self._read)
        if place != self._kept:
            await self._apart(say.told, self._shell, self._errand, place)
            self._kept = place

    async def _told(self, owed: _Owed) -> bool:
        """Whether an event needs no telling any more."""
        event = owed.event
        if self._host is None:
            return True
        session, line = say.session_of(event), str(event.data.get("line", ""))
        stops = event.kind == events.TURN_STOPPED
        if stops and owed.age < 0:
            log.info(
                "the clock went back since event %d: whose turn it is to stop is "
                "not known, and none in %s is",
                event.event_id,
                session,
            )
            return True
        age = owed.age + self._shell.clock.monotonic() - owed.read
        try:
            async with asyncio.timeout(SECONDS):
                if stops:
                    await self._host.stop(str(session), age)
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
