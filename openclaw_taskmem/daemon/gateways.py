"""Track the connected gateways, their sessions and turns, and apply the events they report."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, TypeVar

from pydantic import JsonValue

from openclaw_taskmem.daemon import gateway_events
from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.domain.callers import (
    GATEWAY,
    MOST_BOOTS,
    GatewayPresence,
    RunningWork,
    is_named_gateway,
)
from openclaw_taskmem.domain.effects.checkpoints import CallEndEntry, CallStartEntry
from openclaw_taskmem.domain.tasks.ledger import FileTouch
from openclaw_taskmem.domain.text.texts import format_iso_millis
from openclaw_taskmem.domain.turns import Turn
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.domain.wakes.outbox import Hold
from openclaw_taskmem.engine import gateway_reports, turns
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.ledger import FileActivity
from openclaw_taskmem.engine.turns import CallDigests, EventCursor, ReportContext, read_cursor
from openclaw_taskmem.tools import catalog
from taskmem_hookspecs import Owner, StoreBusy, StoreFull, StoreUnavailable, TaskmemError
from taskmem_hookspecs.errors import Conflict
from taskmem_hookspecs.packet import ConversationMessage

_PREFIX: Final = "taskmem__"
"""Prefix that a host adds to the names of our tools."""
_LONGEST_CALL_MS: Final = 1e9
"""Maximum duration of a call that is believed, in milliseconds (about eleven days)."""
_OWN_TOOLS: Final = frozenset(tool.name for tool in catalog.TOOLS)


def _handle_turn_start(
    context: Context, report: ReportContext, event: gateway_events.TurnStarted
) -> bool:
    """Record that a turn has begun; return False if it must be stopped."""
    turns.end_left_tasks(context, report, event.origin)
    return turns.record_turn_start(context, report, event.origin)


def _handle_call_start(
    context: Context, report: ReportContext, event: gateway_events.ToolStarted
) -> None:
    """Record that a tool call has begun; for our own tools, only that the session is active.

    The task's thread records what our own tools do. A call without a run counts towards an implicit
    task.
    """
    if _is_own_tool(event.tool):
        turns.claim_or_renew_run(context, report)
    else:
        entry = CallStartEntry(
            call_id=event.call_id, tool=event.tool, about=event.about, method=event.method
        )
        if not turns.record_call_start(context, report, entry, _build_file_activity(event)):
            turns.note_call(context, report, entry, event.request)


def _handle_call_end(
    context: Context, report: ReportContext, event: gateway_events.ToolCalled
) -> None:
    """Record how a tool call ended; for our own tools, only that the session is active."""
    if not event.call_id or _is_own_tool(event.tool):
        turns.claim_or_renew_run(context, report)
        return
    entry = CallEndEntry(
        call_id=event.call_id,
        tool=event.tool,
        about=event.about,
        method=event.method,
        outcome=event.outcome,
        ok=not event.failed and event.exit_code in (None, 0),
        exit_code=event.exit_code,
        milliseconds=round(event.ms),
        said=tuple(ConversationMessage(role=line.role, text=line.text) for line in event.said),
    )
    call = CallDigests(given=event.given, result=event.result)
    if not turns.record_call_end(context, report, entry, call, _build_file_activity(event)):
        turns.note_call_end(context, report, entry)


def _handle_turn_end(
    context: Context, report: ReportContext, event: gateway_events.TurnEndReport
) -> None:
    """Decide what follows a turn; one cut by the gateway's shutdown is left to its next start."""
    turns.forget_calls(context, report)
    if event.cut:
        return
    turn = Turn(
        origin=event.origin,
        error=event.failed,
        reason=event.reason,
        aborted=event.aborted and not event.stopped,
        stopped=event.stopped,
        said=event.said,
        words=event.words,
        calls=event.calls,
        children=event.children,
        commands=event.awaited,
        scheduled=event.scheduled,
        awaited_age=min((each.age for each in event.at_work), default=0.0) / 1000,
    )
    turns.settle_turn_end(context, report, turn)


def _handle_awaited_end(
    context: Context, report: ReportContext, event: gateway_events.AwaitedEnded
) -> None:
    """Resume the run of a session whose background command or sub-agent has ended."""
    turns.resume_awaiting_run(context, report, event.name, event.how)


def _build_file_activity(
    event: gateway_events.ToolStarted | gateway_events.ToolCalled,
) -> FileActivity:
    """Return what the call may have changed in files."""
    deed = FileActivity(
        call_id=event.call_id or None,
        folders=event.folders,
        command=event.command,
        text=event.about if event.command else "",
    )
    if isinstance(event, gateway_events.ToolStarted):
        return deed
    touched = tuple(FileTouch(path=t.path, change=t.change) for t in event.touched)
    return deed.model_copy(
        update={"touched": touched, "seconds": min(event.ms, _LONGEST_CALL_MS) / 1000}
    )


def _is_own_tool(tool: str) -> bool:
    return tool.removeprefix(_PREFIX) in _OWN_TOOLS


# --- connected gateways --------------------------------------------------------------------


W = TypeVar("W", bound=gateway_events.SessionActivity)

log = logging.getLogger(__name__)

_LARGEST_AGE_MS: Final = 1e12
"""Maximum age of a gateway that is believed, in milliseconds (about thirty years)."""
_RETRIED_ERRORS: Final = (Conflict, StoreBusy, StoreFull, StoreUnavailable)
"""Store errors after which the gateway reports the event again."""


class Gateways:
    """The connected gateways and the sessions in which a turn runs.

    Lives on the event loop; changes to the store run on threads.
    """

    def __init__(self, context: Context, apart: OffLoopCaller, free: Callable[[], None]) -> None:
        self._context = context
        self._apart = apart
        self._free = free
        self._known: dict[object, GatewayPresence] = {}
        self._seen: dict[object, Counter[str]] = {}
        self._still_running: dict[object, dict[str, tuple[RunningWork, ...]]] = {}
        """Commands and sub-agents that each gateway has reported, by session."""
        self._done: dict[str, EventCursor] = {}
        """The last event handled of each of the latest gateway starts."""
        self._unsure: set[str] = set()
        """Starts with a failed event, which may have been committed all the same."""
        self._in_order = asyncio.Lock()
        """Held while a report is handled, so that a repeated one waits for the first."""

    async def take_report(self, connection: object, params: Mapping[str, object]) -> JsonValue:
        """Handle the events of one connection in order; return the sessions whose turns must stop.

        Raises:
            InvalidArguments: One of them is not a valid event; none is handled.
            Conflict, StoreBusy, StoreFull, StoreUnavailable: The store failed; the gateway reports
                the events again.
        """
        stop: list[JsonValue] = []
        events = gateway_events.parse_report(params)
        async with self._in_order:
            for event in events:
                goes_on = await self._take_new_event(connection, event)
                if not goes_on and isinstance(event, gateway_events.TurnStarted):
                    stop.append(event.session_key)
        return {"stop": stop} if stop else {}

    async def _take_new_event(self, connection: object, event: gateway_events.Event) -> bool:
        """Handle an event unless it was handled before; return False if its turn must stop."""
        presence = self._known.get(connection)
        if presence is None or event.number is None:
            return await self._take_unless_refused(connection, event, None)
        done = await self._read_cursor(presence.boot)
        if event.number <= done.number:
            return event.number not in done.stopped
        done = done.advance_to(event.number)
        try:
            goes_on = await self._take_unless_refused(connection, event, done)
        except BaseException:
            self._unsure.add(presence.boot)
            raise
        self._remember_cursor(done if goes_on else done.add_stopped_turn())
        return goes_on

    def _remember_cursor(self, done: EventCursor) -> None:
        """Remember the last handled event of a start; forget all but the latest starts."""
        self._done.pop(done.boot, None)
        self._done[done.boot] = done
        for boot in [*self._done][:-MOST_BOOTS]:
            del self._done[boot]
            self._unsure.discard(boot)

    async def _read_cursor(self, boot: str) -> EventCursor:
        """Return the last handled event of a gateway start."""
        if boot not in self._done or boot in self._unsure:
            cursor = await self._apart(read_cursor, self._context, boot)
            here = self._done.get(boot, cursor)
            self._remember_cursor(max(here, cursor, key=lambda each: each.number))
            self._unsure.discard(boot)
        return self._done[boot]

    async def _take_unless_refused(
        self, connection: object, event: gateway_events.Event, done: EventCursor | None
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

    async def _take_event(
        self, connection: object, event: gateway_events.Event, done: EventCursor | None
    ) -> bool:
        """Handle an event; return False if its turn must stop."""
        self._seen.setdefault(connection, Counter())[event.kind] += 1
        match event:
            case gateway_events.OtherEvent():
                pass
            case gateway_events.GatewayStarted():
                await self._register_gateway(connection, event)
            case gateway_events.ModelAnswered():
                await self._acknowledge_deliveries(event, None)
            case gateway_events.TurnNotStarted():
                await self._acknowledge_deliveries(event, event.error)
            case gateway_events.GatewayStopped():
                self.forget_gateway(connection)
            case gateway_events.QuestionAnswered():
                await self._apart(
                    gateway_reports.take_answer, self._context, event.key, event.answer
                )
            case _:
                return await self._take_work_event(connection, event, done)
        return True

    async def _take_work_event(
        self, connection: object, event: gateway_events.Work, done: EventCursor | None
    ) -> bool:
        """Handle an event of a session at work; return False if its turn must stop."""
        match event:
            case gateway_events.TurnStarted():
                self._update_running(connection, event.running)
                return await self._record_work(_handle_turn_start, connection, event, done)
            case gateway_events.ToolStarted():
                return await self._record_work(_handle_call_start, connection, event, done)
            case gateway_events.ToolCalled():
                return await self._record_work(_handle_call_end, connection, event, done)
            case gateway_events.AwaitedEnded():
                return await self._record_work(_handle_awaited_end, connection, event, done)
            case gateway_events.TurnEndReport():
                try:
                    await self._acknowledge_deliveries(event, event.error)
                    return await self._record_work(_handle_turn_end, connection, event, done)
                finally:
                    # The turn has ended, even if that could not be saved now.
                    self._update_running(connection, event.running)

    def find_owner(
        self, connection: object, session_key: str | None, agent_id: str | None
    ) -> Owner | None:
        """Return the owner as which a gateway's agent claims runs; None if it is unknown."""
        presence = self._known.get(connection)
        if presence is None or session_key is None:
            return None
        session = session_key.lower()
        sessions = self._context.sessions
        agent = sessions.find_agent(session) if sessions.is_own(session) else None
        named = (agent or "").removeprefix(sessions.prefix) or "main"
        return Owner(
            role=agent_id or named,
            session_key=session,
            boot=presence.boot,
            home=self._context.store.scope,
            host=presence.host if is_named_gateway(presence.host) else None,
        )

    def find_host(self, connection: object) -> str:
        """Return the host of a gateway's agents, as in `Wake.host`."""
        presence = self._known.get(connection)
        return presence.host if presence else GATEWAY

    def is_in_turn(self, connection: object, session_key: str | None) -> bool:
        """Return True if a turn of the session runs, or if that is unknown."""
        presence = self._known.get(connection)
        if presence is None or session_key is None:
            return True
        return session_key.lower() in presence.running

    def find_turn_start(self, connection: object, session_key: str | None) -> datetime | None:
        """Return when the session's running turn began; None if none is known."""
        presence = self._known.get(connection)
        return presence.running.get((session_key or "").lower()) if presence else None

    @property
    def presences(self) -> Sequence[GatewayPresence]:
        """The connected gateways; safe in any thread."""
        return tuple(self._known.values())

    async def _record_work(
        self,
        work: Callable[[Context, ReportContext, W], bool | None],
        connection: object,
        event: W,
        done: EventCursor | None,
    ) -> bool:
        """Apply an event to its session's run, on a thread.

        Returns False if its turn must stop, which only a `turn_started` event can cause.
        """
        owner = self.find_owner(connection, event.session_key, event.agent_id)
        if owner is None:
            return True
        presence, session = self._known[connection], event.session_key.lower()
        if isinstance(event, gateway_events.TurnEndReport):
            # No event reports the end of a sub-agent between two turns.
            commands = [each for each in event.at_work if each.kind == "command"]
            self.note_still_running(connection, event.session_key, commands)
        elif isinstance(event, gateway_events.AwaitedEnded):
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
        return await self._apart(work, self._context, report, event) is not False

    def note_still_running(
        self,
        connection: object,
        session_key: str,
        reports: Sequence[gateway_events.RunningWorkReport],
    ) -> None:
        """Remember the commands and sub-agents that a gateway runs for a session."""
        if connection not in self._known:
            return
        session, now = session_key.lower(), self._context.clock.now()
        running = tuple(
            RunningWork(
                kind=each.kind,
                name=each.name,
                about=each.about,
                since=now - timedelta(milliseconds=min(each.age, _LARGEST_AGE_MS)),
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
        self._seen.pop(connection, None)
        if self._known.pop(connection, None) is not None:
            self._free()

    def build_hold_finder(self) -> Callable[[str | None], Hold | None]:
        """Return a function that says why a session must not be disturbed now; for any thread."""
        presences = self.presences
        now = self._context.clock.now()
        return lambda session_key: outbox.find_hold(presences, session_key, now)

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
                "reported": {**self._seen.get(connection, Counter())},
            }
            for connection, each in tuple(self._known.items())
        ]

    async def _register_gateway(
        self, connection: object, event: gateway_events.GatewayStarted
    ) -> None:
        # Its clock may differ from ours, so it reports an age.
        age = timedelta(milliseconds=min(event.age, _LARGEST_AGE_MS))
        presence = GatewayPresence(
            boot=event.boot,
            transport=event.transport,
            version=event.version,
            host=event.host or GATEWAY,
            started_at=self._context.clock.now() - age,
            main_session=event.main,
            fingerprints=event.fingerprints,
        ).with_running(event.running, self._context.clock.now())
        self._known[connection] = presence
        self._forget_still_running(connection)
        for session, reports in event.at_work.items():
            self.note_still_running(connection, session, reports)
        log.info("a gateway has come, start %s", presence.boot)
        others = {each.boot for each in self.presences} - {presence.boot}
        await self._apart(gateway_reports.handle_gateway_start, self._context, presence, others)
        self._free()

    async def _acknowledge_deliveries(
        self,
        event: gateway_events.ModelAnswered
        | gateway_events.TurnNotStarted
        | gateway_events.TurnEndReport,
        error: str | None,
    ) -> None:
        if event.deliveries:
            deliveries = frozenset(event.deliveries)
            await self._apart(
                gateway_reports.settle_turn_wakes,
                self._context,
                event.session_key,
                deliveries,
                error,
            )

    def _update_running(self, connection: object, running: Sequence[str]) -> None:
        presence = self._known.get(connection)
        if presence is None:
            return
        self._known[connection] = presence.with_running(running, self._context.clock.now())
        if presence.running.keys() - set(running):
            self._free()
