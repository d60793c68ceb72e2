"""The gateways that are connected: what they report, and whom they hold."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.daemon import reports
from openclaw_taskmem.daemon.threads import Apart
from openclaw_taskmem.domain import gateway
from openclaw_taskmem.domain.gateway import Hold, Presence
from openclaw_taskmem.domain.texts import iso_millis
from openclaw_taskmem.engine import gateway as engine
from openclaw_taskmem.engine.shell import Shell

log = logging.getLogger(__name__)

OLDEST: Final = 1e12
"""Milliseconds that a gateway may have run, some thirty years."""


class Gateways:
    """Knows who is connected, and in which sessions a turn runs.

    Lives on the event loop; what a report changes in the store is done on threads.
    """

    def __init__(self, shell: Shell, apart: Apart, free: Callable[[], None]) -> None:
        """Take the store's side, threads, and whom to tell that a hold may be over."""
        self._shell = shell
        self._apart = apart
        self._free = free
        self._known: dict[object, Presence] = {}
        self._seen: dict[object, Counter[str]] = {}

    async def report(
        self, connection: object, params: Mapping[str, object]
    ) -> JsonValue:
        """Take the events of one connection, in order.

        Raises:
            InvalidArguments: One of them is no event; then none counts.
        """
        for event in reports.parse(params):
            self._seen.setdefault(connection, Counter())[event.kind] += 1
            match event:
                case reports.Noted():
                    pass
                case reports.Started():
                    await self._started(connection, event)
                case reports.TurnStarted():
                    self._runs(connection, event.running)
                case reports.Answered():
                    await self._took(event, None)
                case reports.TurnEnded():
                    try:
                        await self._took(event, event.error)
                    finally:
                        # The turn is over, also where that cannot be written now.
                        self._runs(connection, event.running)
                case reports.Stopped():
                    self.left(connection)
        return {}

    def left(self, connection: object) -> None:
        """Forget a gateway whose connection has ended."""
        self._seen.pop(connection, None)
        if self._known.pop(connection, None) is not None:
            self._free()

    def holds(self) -> Callable[[str | None], Hold | None]:
        """Return what says, of a session, why it is left alone now; for any thread."""
        known: Sequence[Presence] = tuple(self._known.values())
        now = self._shell.clock.now()
        return lambda session_key: gateway.hold(known, session_key, now)

    def view(self) -> list[JsonValue]:
        """Return what is known of each gateway, for people and programs; any thread."""
        return [
            {
                "boot": each.boot,
                "transport": each.transport,
                "version": each.version,
                "started_at": iso_millis(each.started_at),
                "main_session": each.main_session,
                "running": [*sorted(each.running)],
                "reported": {**self._seen.get(connection, Counter())},
            }
            for connection, each in tuple(self._known.items())
        ]

    async def _started(self, connection: object, event: reports.Started) -> None:
        # Its clock and ours need not agree, so it says how old it is.
        age = timedelta(milliseconds=min(event.age, OLDEST))
        known = Presence(
            boot=event.boot,
            transport=event.transport,
            version=event.version,
            started_at=self._shell.clock.now() - age,
            main_session=event.main,
        ).runs(event.running, self._shell.clock.now())
        self._known[connection] = known
        log.info("a gateway has come, start %s", known.boot)
        await self._apart(engine.started, self._shell, known)
        self._free()

    async def _took(
        self, event: reports.Answered | reports.TurnEnded, error: str | None
    ) -> None:
        if event.deliveries:
            deliveries = frozenset(event.deliveries)
            await self._apart(
                engine.turn_ended, self._shell, event.session_key, deliveries, error
            )

    def _runs(self, connection: object, running: Sequence[str]) -> None:
        known = self._known.get(connection)
        if known is None:
            return
        self._known[connection] = known.runs(running, self._shell.clock.now())
        if known.running.keys() - set(running):
            self._free()
