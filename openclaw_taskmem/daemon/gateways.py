"""Track the connected gateways, their sessions and turns, and take the events they report."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Final

from pydantic import JsonValue

import taskmem_setup
from openclaw_taskmem.daemon.gateway_events import (
    AwaitedEnded,
    Event,
    GatewayStarted,
    GatewayStopped,
    ModelAnswered,
    OtherEvent,
    QuestionAnswered,
    RunningWorkReport,
    SubAgentEnded,
    SubAgentStarted,
    SubAgentWork,
    TurnEndReport,
    TurnNotStarted,
    TurnStarted,
    Work,
    apply_sub_agent_work,
    apply_work,
    parse_report,
)
from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.domain.callers import (
    GATEWAY,
    MOST_BOOTS,
    GatewayPresence,
    RunningWork,
    is_named_gateway,
)
from openclaw_taskmem.domain.text.texts import format_iso_millis
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.domain.wakes.outbox import Hold
from openclaw_taskmem.engine import gateway_reports, sub_agents
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.run_guards import find_preceding_chat
from openclaw_taskmem.engine.turns import EventCursor, ReportContext, read_cursor
from taskmem_hookspecs import Owner, StoreBusy, StoreFull, StoreUnavailable, TaskmemError
from taskmem_hookspecs.errors import Conflict

log = logging.getLogger(__name__)

_LARGEST_AGE_MS: Final = 1e12
"""Maximum age of a gateway that is believed, in milliseconds (about thirty years)."""
_SETUP_REST: Final = timedelta(seconds=2)
"""Delay before the daemon looks again whether set-up has ended."""
_RETRIED_ERRORS: Final = (Conflict, StoreBusy, StoreFull, StoreUnavailable)
"""Store errors after which the gateway reports the event again."""


def _parse_age(milliseconds: float) -> timedelta:
    return timedelta(milliseconds=min(milliseconds, _LARGEST_AGE_MS))


class Gateways:
    """The connected gateways and the sessions in which a turn runs.

    Lives on the event loop; changes to the store run on threads.
    """

    def __init__(
        self, context: Context, run_in_thread: OffLoopCaller, free: Callable[[], None]
    ) -> None:
        self._context = context
        self._run_in_thread = run_in_thread
        self._free = free
        self._presences: dict[object, GatewayPresence] = {}
        self._event_counts: dict[object, Counter[str]] = {}
        self._still_running: dict[object, dict[str, tuple[RunningWork, ...]]] = {}
        """Commands and sub-agents that each gateway has reported, by session."""
        self._cursors: dict[str, EventCursor] = {}
        """The last event handled of each of the latest gateway starts."""
        self._uncertain_boots: set[str] = set()
        """Starts with a failed event, which may have been committed all the same."""
        self._report_lock = asyncio.Lock()
        """Held while a report is handled, so that a repeated one waits for the first."""

    async def take_report(self, connection: object, params: Mapping[str, object]) -> JsonValue:
        """Handle the events of one connection in order; return the sessions whose turns must stop.

        A gateway that has connected is told which of its sub-agents it is to look up: they were at
        work, and it does not name them.

        Raises:
            InvalidArguments: One of them is not a valid event; none is handled.
            Conflict, StoreBusy, StoreFull, StoreUnavailable: The store failed; the gateway reports
                the events again.
        """
        stop: list[JsonValue] = []
        unheard: Sequence[str] = ()
        events = parse_report(params)
        async with self._report_lock:
            for event in events:
                goes_on = await self._take_new_event(connection, event)
                if not goes_on and isinstance(event, TurnStarted):
                    stop.append(event.session_key)
                if isinstance(event, GatewayStarted):
                    unheard = await self._list_unheard(connection, event)
        answer: dict[str, JsonValue] = {"stop": stop} if stop else {}
        return {**answer, "unheard": [*unheard]} if unheard else answer

    async def _list_unheard(self, connection: object, event: GatewayStarted) -> Sequence[str]:
        """Return the sub-agents that were at work in a gateway and that it does not name."""
        working = chain.from_iterable(event.at_work.values())
        running = {each.name for each in working if each.kind == "sub_agent"}
        find = sub_agents.list_unheard
        return await self._run_in_thread(find, self._context, self.find_host(connection), running)

    async def _take_new_event(self, connection: object, event: Event) -> bool:
        """Handle an event unless it was handled before; return False if its turn must stop."""
        presence = self._presences.get(connection)
        if presence is None or event.number is None:
            return await self._take_unless_refused(connection, event, None)
        done = await self._read_cursor(presence.boot)
        if event.number <= done.number:
            return event.number not in done.stopped
        done = done.model_copy(update={"number": event.number})
        try:
            goes_on = await self._take_unless_refused(connection, event, done)
        except BaseException:
            self._uncertain_boots.add(presence.boot)
            raise
        self._remember_cursor(done if goes_on else done.add_stopped_turn())
        return goes_on

    def _remember_cursor(self, done: EventCursor) -> None:
        """Remember the last handled event of a start; forget all but the latest starts."""
        self._cursors.pop(done.boot, None)
        self._cursors[done.boot] = done
        for boot in [*self._cursors][:-MOST_BOOTS]:
            del self._cursors[boot]
            self._uncertain_boots.discard(boot)

    async def _read_cursor(self, boot: str) -> EventCursor:
        """Return the last handled event of a gateway start."""
        if boot not in self._cursors or boot in self._uncertain_boots:
            cursor = await self._run_in_thread(read_cursor, self._context, boot)
            here = self._cursors.get(boot, cursor)
            self._remember_cursor(max(here, cursor, key=lambda each: each.number))
            self._uncertain_boots.discard(boot)
        return self._cursors[boot]

    async def _take_unless_refused(
        self, connection: object, event: Event, done: EventCursor | None
    ) -> bool:
        """Handle an event; skip it if it is refused.

        A retry would be refused again and block the events behind it.
        """
        try:
            return await self._take_event(connection, event, done)
        except _RETRIED_ERRORS:
            raise
        except TaskmemError as error:
            session = getattr(event, "session_key", None)
            log.warning("a gateway's %s of %s was refused: %s", event.kind, session, error)
            return True

    async def _take_event(self, connection: object, event: Event, done: EventCursor | None) -> bool:
        """Handle an event; return False if its turn must stop."""
        self._event_counts.setdefault(connection, Counter())[event.kind] += 1
        match event:
            case OtherEvent():
                pass
            case GatewayStarted():
                await self._register_gateway(connection, event)
            case GatewayStopped():
                self.forget_gateway(connection)
            case ModelAnswered():
                await self._acknowledge_deliveries(event, None)
            case TurnNotStarted():
                await self._acknowledge_deliveries(event, event.error)
            case QuestionAnswered():
                await self._run_in_thread(
                    gateway_reports.take_answer, self._context, event.key, event.answer
                )
            case SubAgentStarted() | SubAgentEnded():
                await self._record_sub_agent(connection, event, done)
            case TurnEndReport():
                try:
                    await self._acknowledge_deliveries(event, event.error)
                    return await self._record_work(connection, event, done)
                finally:
                    # The turn has ended, even if that could not be saved now.
                    self._update_running(connection, event.running)
            case _:
                if isinstance(event, TurnStarted):
                    self._update_running(connection, event.running)
                return await self._record_work(connection, event, done)
        return True

    def find_owner(
        self, connection: object, session_key: str | None, agent_id: str | None
    ) -> Owner | None:
        """Return the owner as which a gateway's agent claims runs; None if it is unknown."""
        presence = self._presences.get(connection)
        if presence is None or session_key is None:
            return None
        session = session_key.lower()
        sessions = self._context.sessions
        named = sessions.find_agent_name(session) or "main"
        return Owner(
            role=agent_id or named,
            session_key=session,
            boot=presence.boot,
            home=self._context.store.scope,
            host=presence.host if is_named_gateway(presence.host) else None,
        )

    def find_host(self, connection: object) -> str:
        """Return the host of a gateway's agents, as in `Wake.host`."""
        presence = self._presences.get(connection)
        return presence.host if presence else GATEWAY

    def is_in_turn(self, connection: object, session_key: str | None) -> bool:
        """Return True if a turn of the session runs, or if that is unknown."""
        presence = self._presences.get(connection)
        if presence is None or session_key is None:
            return True
        return session_key.lower() in presence.running

    def find_turn_start(self, connection: object, session_key: str | None) -> datetime | None:
        """Return when the session's running turn began; None if none is known."""
        presence = self._presences.get(connection)
        return presence.running.get((session_key or "").lower()) if presence else None

    @property
    def presences(self) -> Sequence[GatewayPresence]:
        """The connected gateways; safe in any thread."""
        return tuple(self._presences.values())

    async def _record_work(self, connection: object, event: Work, done: EventCursor | None) -> bool:
        """Apply an event to its session's run, on a thread; return False if its turn must stop."""
        owner = self.find_owner(connection, event.session_key, event.agent_id)
        if owner is None:
            return True
        presence, session = self._presences[connection], event.session_key.lower()
        if isinstance(event, TurnEndReport):
            # No event reports the end of a sub-agent between two turns.
            commands = [each for each in event.at_work if each.kind == "command"]
            self.note_still_running(connection, event.session_key, commands)
        elif isinstance(event, AwaitedEnded):
            mine = self._still_running.get(connection, {}).get(session, ())
            others = tuple(each for each in mine if each.name != event.name)
            self._keep_still_running(connection, session, others)
        report = ReportContext(
            owner=owner,
            gateway_started_at=presence.started_at,
            in_turn=event.session_key in presence.running,
            turn_since=presence.running.get(event.session_key),
            folder=event.folder,
            fingerprint=event.fingerprint,
            reported=done,
        )
        return await self._run_in_thread(apply_work, self._context, report, event)

    async def _record_sub_agent(
        self, connection: object, event: SubAgentWork, done: EventCursor | None
    ) -> None:
        """Keep what becomes of a sub-agent, on a thread."""
        owner = self.find_owner(connection, event.session_key, event.agent_id)
        if owner is not None:
            owner = owner.model_copy(update={"host": self.find_host(connection)})
            report = ReportContext(owner=owner, reported=done)
            await self._run_in_thread(apply_sub_agent_work, self._context, report, event)

    def note_still_running(
        self,
        connection: object,
        session_key: str,
        reports: Sequence[RunningWorkReport],
    ) -> None:
        """Remember the commands and sub-agents that a gateway runs for a session."""
        if connection not in self._presences:
            return
        session, now = session_key.lower(), self._context.clock.now()
        running = tuple(
            RunningWork(
                kind=each.kind,
                name=each.name,
                about=each.about,
                since=now - _parse_age(each.age),
            )
            for each in reports
        )
        self._keep_still_running(connection, session, running)

    def _keep_still_running(
        self, connection: object, session: str, running: tuple[RunningWork, ...]
    ) -> None:
        self._still_running.setdefault(connection, {})[session] = running
        parts = (each.get(session, ()) for each in self._still_running.values())
        self._context.live.running_work[session] = tuple(chain.from_iterable(parts))
        if not self._context.live.running_work[session]:
            del self._context.live.running_work[session]

    def _forget_still_running(self, connection: object) -> None:
        for session in [*self._still_running.get(connection, ())]:
            self._keep_still_running(connection, session, ())
        self._still_running.pop(connection, None)

    def forget_gateway(self, connection: object) -> None:
        """Forget a gateway whose connection has closed."""
        self._forget_still_running(connection)
        self._event_counts.pop(connection, None)
        if self._presences.pop(connection, None) is not None:
            self._free()

    def build_hold_finder(self) -> Callable[[str | None], Hold | None]:
        """Return a function that says why a session must not be disturbed now; for any thread."""
        presences = self.presences
        now = self._context.clock.now()
        home = self._context.home_folder
        if home and taskmem_setup.is_running(Path(home)):
            set_up = Hold(why="set-up is running, and goes first", until=now + _SETUP_REST)
            return lambda _: set_up
        is_busy = any(each.running for each in presences)

        def find_hold(session_key: str | None) -> Hold | None:
            chat = find_preceding_chat(self._context, session_key) if is_busy else None
            return outbox.find_hold(presences, session_key, now, chat)

        return find_hold

    def build_view(self) -> list[JsonValue]:
        """Return the state of each gateway for `taskmem status`; for any thread."""
        return [
            {
                "boot": each.boot,
                "transport": each.transport,
                "version": each.version,
                "started_at": format_iso_millis(each.started_at),
                "main_session": each.main_session,
                "running": [*sorted(each.running)],
                "reported": {**self._event_counts.get(connection, Counter())},
            }
            for connection, each in tuple(self._presences.items())
        ]

    async def _register_gateway(self, connection: object, event: GatewayStarted) -> None:
        # Its clock may differ from ours, so it reports ages.
        now = self._context.clock.now()
        began = {key: now - _parse_age(age) for key, age in event.turn_ages.items()}
        presence = GatewayPresence(
            boot=event.boot,
            transport=event.transport,
            version=event.version,
            host=event.host or GATEWAY,
            started_at=now - _parse_age(event.age),
            main_session=event.main,
            fingerprints=event.fingerprints,
            running=began,
        ).with_running(event.running, now)
        self._presences[connection] = presence
        self._forget_still_running(connection)
        for session, reports in event.at_work.items():
            self.note_still_running(connection, session, reports)
        log.info("gateway connected, start %s", presence.boot)
        others = {each.boot for each in self.presences} - {presence.boot}
        await self._run_in_thread(
            gateway_reports.handle_gateway_start, self._context, presence, others
        )
        self._free()

    async def _acknowledge_deliveries(
        self,
        event: ModelAnswered | TurnNotStarted | TurnEndReport,
        error: str | None,
    ) -> None:
        if event.deliveries:
            settle, deliveries = gateway_reports.settle_turn_wakes, frozenset(event.deliveries)
            await self._run_in_thread(settle, self._context, event.session_key, deliveries, error)

    def _update_running(self, connection: object, running: Sequence[str]) -> None:
        presence = self._presences.get(connection)
        if presence is None:
            return
        self._presences[connection] = presence.with_running(running, self._context.clock.now())
        if presence.running.keys() - set(running):
            self._free()
