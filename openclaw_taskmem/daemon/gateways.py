"""Track the connected gateways, their sessions and turns, and apply the events they report.

All times in events are in milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
)

from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.domain.callers import (
    GATEWAY,
    MOST_BOOTS,
    GatewayPresence,
    RunningWork,
    find_key_fault,
    is_named_gateway,
)
from openclaw_taskmem.domain.changes.continuation import Origin, Turn
from openclaw_taskmem.domain.effects.checkpoints import CallEndEntry, CallStartEntry
from openclaw_taskmem.domain.tasks.ledger import FileTouch
from openclaw_taskmem.domain.text.texts import format_iso_millis
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.domain.wakes.outbox import Hold
from openclaw_taskmem.engine import gateway_reports, turns
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.ledger import FileActivity
from openclaw_taskmem.engine.turns import EventCursor, ReportContext, read_cursor
from openclaw_taskmem.tools import catalog
from taskmem_hookspecs import (
    FileChange,
    InvalidArguments,
    Owner,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    TaskmemError,
)
from taskmem_hookspecs.errors import Conflict
from taskmem_hookspecs.packet import ConversationMessage

_LABEL_CHARS: Final = 200
"""Maximum length of a tool's or call's name, in characters."""
MOST_EVENTS: Final = 1000
"""Maximum number of events in one report."""
Key = Annotated[str, Field(max_length=10_000)]
Keys = Annotated[tuple[Key, ...], Field(max_length=10_000)]


def _clip_text(value: object) -> object:
    """Keep the first 10,000 characters; replace half a surrogate pair at the end."""
    if not isinstance(value, str):
        return value
    return value[:10_000].encode(errors="replace").decode()


def _replace_surrogates(value: object) -> object:
    """Replace lone surrogates, which cannot be encoded."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _clip_label(value: object) -> object:
    """Keep the first `_LABEL_CHARS` characters."""
    legible = _clip_text(value)
    return legible[:_LABEL_CHARS] if isinstance(legible, str) else legible


def _check_key(key: str) -> str:
    fault = find_key_fault(key)
    if fault is not None:
        raise ValueError(fault)
    return key


Kept = Annotated[str, AfterValidator(_check_key)]
"""A key that the store indexes, such as a session key."""
_ReportedText = Annotated[str, BeforeValidator(_clip_text)]
Words = Annotated[str, BeforeValidator(_replace_surrogates)]
Label = Annotated[str, BeforeValidator(_clip_label)]


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    number: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """Sequence number within a gateway's start; None: the event has none, and is handled each time
    it is reported."""


class RunningWorkReport(BaseModel):
    """A command or sub-agent that a gateway runs for a session, outside its turn."""

    kind: Literal["command", "sub_agent"]
    name: Label
    about: _ReportedText = ""
    age: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Since its start, as far as the gateway's plug-in knows."""


_AllStillRunning = Annotated[tuple[RunningWorkReport, ...], Field(max_length=100)]


class GatewayStarted(_Event):
    """A gateway has started, or has reconnected to its daemon."""

    kind: Literal["gateway"]
    boot: Key
    """Unique for each start of the gateway or of its plug-in."""
    age: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Since that start."""
    host: Key | None = None
    """Id of the OpenClaw, as in `Wake.host`; None: not reported."""
    transport: Key
    version: Key
    main: Key
    """Session for wakes that name none."""
    running: Keys = ()
    """Sessions with a running turn, as in every event of a turn."""
    fingerprints: Annotated[dict[Key, Key], Field(max_length=1000)] = {}
    """Fingerprints of the inputs of each agent's prompt, by agent id."""
    at_work: Annotated[dict[Key, _AllStillRunning], Field(max_length=10_000)] = {}
    """Commands and sub-agents that it runs, by session."""


class GatewayStopped(_Event):
    """A gateway shuts down in order."""

    kind: Literal["gateway_stopped"]


class SessionActivity(_Event):
    """An event that shows a session at work."""

    session_key: Kept
    agent_id: Kept | None = None
    folder: Key | None = None
    """Working directory of the agent."""
    fingerprint: Key | None = None
    """Fingerprint of the inputs of the agent's prompt."""


class TurnStarted(SessionActivity):
    """A turn has begun."""

    kind: Literal["turn_started"]
    running: Keys = ()
    origin: Origin = Origin.OTHER


class TouchedFile(BaseModel):
    """A file that a tool created, changed or removed."""

    path: Key
    change: FileChange


class _ToolActivity(SessionActivity):
    """A tool call and the folders it uses."""

    folders: Annotated[tuple[Key, ...], Field(max_length=100)] = ()
    """Absolute paths of the folders it uses."""
    command: bool = False
    """True if it may change any file in them, as a command may."""


class ToolStarted(_ToolActivity):
    """A tool call has begun."""

    kind: Literal["tool_started"]
    call_id: Label
    tool: Label
    about: _ReportedText = ""
    method: Label | None = None
    """HTTP method or action of the call."""
    request: _ReportedText | None = None
    """The user's words in this turn; None: no user began it."""


class ConversationLine(_Event):
    """A message of the conversation."""

    role: Literal["user", "assistant"]
    text: _ReportedText


class ToolCalled(_ToolActivity):
    """A tool call has ended."""

    kind: Literal["tool_called"]
    call_id: Label = ""
    tool: Label = ""
    about: _ReportedText = ""
    method: Label | None = None
    outcome: _ReportedText = ""
    given: Key = ""
    """Digest of its arguments."""
    result: Key = ""
    """Digest of its result."""
    exit_code: int | None = None
    failed: bool = False
    ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    touched: Annotated[tuple[TouchedFile, ...], Field(max_length=1000)] = ()
    """Files that the tool reports as changed, with absolute paths."""
    said: Annotated[tuple[ConversationLine, ...], Field(max_length=1000)] = ()
    """Messages of the conversation since the previous call."""


class ModelAnswered(_Event):
    """The agent acts in a turn that took delivered messages, so they have arrived."""

    kind: Literal["answered"]
    session_key: Key
    deliveries: Keys = ()
    """Those messages, by `delivery_id`."""


class TurnNotStarted(_Event):
    """The gateway accepted a turn from us and gave it up before it began."""

    kind: Literal["turn_not_started"]
    session_key: Key
    deliveries: Keys = ()
    """The messages for it, by `delivery_id`."""
    error: _ReportedText
    """The reason, in the gateway's words."""


class TurnEndReport(SessionActivity):
    """A turn has ended."""

    kind: Literal["turn_ended"]
    running: Keys = ()
    deliveries: Keys = ()
    """Messages that the turn took and no `answered` event named, by `delivery_id`."""
    error: _ReportedText | None = None
    """Why no model answered; None: one did."""
    origin: Origin = Origin.OTHER
    failed: _ReportedText | None = None
    """Why the gateway gave up the turn, even after a model answered."""
    reason: _ReportedText | None = None
    """The kind of that failure, as in `ProviderFailureKind`; None, or another word: not known."""
    aborted: bool = False
    """True if the turn was stopped."""
    stopped: bool = False
    """True if our plug-in stopped it on the daemon's order."""
    cut: bool = False
    """True if the gateway shut down during the turn."""
    said: _ReportedText = ""
    """The end of the agent's last reply; empty: it had nothing to say to its user."""
    words: Words = ""
    """The whole reply if we began the turn, since the gateway then shows it to nobody."""
    calls: Annotated[int, Field(ge=0)] = 0
    """Number of tool calls in the turn."""
    children: Annotated[int, Field(ge=0)] = 0
    """Number of the session's sub-agents that still run."""
    at_work: _AllStillRunning = ()
    """Commands and sub-agents that the gateway runs for the session."""
    awaited: Annotated[tuple[_ReportedText, ...], Field(max_length=100)] = ()
    """Commands that the gateway runs in the background for the session."""
    scheduled: Annotated[tuple[_ReportedText, ...], Field(max_length=1000)] = ()
    """Automations of the session's agent that run in the gateway, or may within the hour."""


class AwaitedEnded(SessionActivity):
    """A command or sub-agent that a session may have waited for has ended."""

    kind: Literal["awaited_ended"]
    name: Label
    how: _ReportedText = ""
    """How it ended, in the gateway's words."""


class QuestionAnswered(_Event):
    """A user has answered a question by a button or in words."""

    kind: Literal["question_answered"]
    key: Key
    answer: _ReportedText


class OtherEvent(_Event):
    """Any other event, which is only counted and shown by `taskmem status`."""

    kind: Literal["compacted", "session_started", "session_ended"]
    session_key: Key | None = None


Work = TurnStarted | ToolStarted | ToolCalled | TurnEndReport | AwaitedEnded
"""Events that show a session at work."""
Event = (
    OtherEvent
    | GatewayStarted
    | GatewayStopped
    | ModelAnswered
    | TurnNotStarted
    | QuestionAnswered
    | Work
)

_EVENTS: Final = TypeAdapter(Annotated[list[dict[str, Any]], Field(max_length=MOST_EVENTS)])
_STILL_RUNNING: Final = TypeAdapter(_AllStillRunning)
_KINDS: Final[Mapping[str, type[Event]]] = {
    kind: form
    for form in get_args(Event)
    for kind in get_args(form.model_fields["kind"].annotation)
}


def parse_still_running(given: object) -> tuple[RunningWorkReport, ...] | None:
    """Return the work that a gateway reports for a session; None if it is missing or invalid."""
    try:
        return None if given is None else _STILL_RUNNING.validate_python(given)
    except ValidationError:
        return None


def parse_report(params: Mapping[str, object]) -> list[Event]:
    """Return the events of a report in order, without those of unknown kinds.

    Raises:
        InvalidArguments: One of them is not a valid event.
    """
    try:
        events = _EVENTS.validate_python(params.get("events"))
        forms = ((_KINDS.get(str(event.get("kind"))), event) for event in events)
        return [form.model_validate(event) for form, event in forms if form is not None]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(["events", *map(str, first["loc"])])
        reason = first["msg"].removeprefix("Value error, ")
        raise InvalidArguments(f"In a report, {place}: {reason}.") from None


# --- what events change ---------------------------------------------------------------------


log = logging.getLogger(__name__)

_PREFIX: Final = "taskmem__"
"""Prefix that a host adds to the names of our tools."""
_LONGEST_CALL_MS: Final = 1e9
"""Maximum duration of a call that is believed, in milliseconds (about eleven days)."""
_OWN_TOOLS: Final = frozenset(tool.name for tool in catalog.TOOLS)


def _apply_work(context: Context, report: ReportContext, event: Work) -> bool:
    """Apply an event to its session's run; return False if its turn must stop.

    Of a call of our own tools, only that the session is active, since the task's thread records
    what they do. A call without a run counts towards an implicit task. A turn that was cut by the
    gateway's shutdown is left to its next start.
    """
    match event:
        case TurnStarted():
            turns.end_left_tasks(context, report, event.origin)
            return turns.record_turn_start(context, report, event.origin)
        case ToolStarted() | ToolCalled() if _is_passed_over(event):
            turns.claim_or_renew_run(context, report)
        case ToolStarted():
            begun = CallStartEntry(
                call_id=event.call_id, tool=event.tool, about=event.about, method=event.method
            )
            if not turns.record_call_start(context, report, begun, _build_file_activity(event)):
                turns.note_call(context, report, begun, event.request)
        case ToolCalled():
            ended, files = _build_call_end(event), _build_file_activity(event)
            digests = {"given": event.given, "result": event.result}
            if not turns.record_call_end(context, report, ended, files, **digests):
                turns.note_call_end(context, report, ended)
        case AwaitedEnded():
            turns.resume_awaiting_run(context, report, event.name, event.how)
        case TurnEndReport():
            turns.forget_calls(context, report)
            if not event.cut:
                turns.settle_turn_end(context, report, _build_turn(event))
    return True


def _build_call_end(event: ToolCalled) -> CallEndEntry:
    return CallEndEntry(
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


def _build_turn(event: TurnEndReport) -> Turn:
    return Turn(
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


def _build_file_activity(
    event: ToolStarted | ToolCalled,
) -> FileActivity:
    """Return what the call may have changed in files."""
    deed = FileActivity(
        call_id=event.call_id or None,
        folders=event.folders,
        command=event.command,
        text=event.about if event.command else "",
    )
    if isinstance(event, ToolStarted):
        return deed
    touched = tuple(FileTouch(path=t.path, change=t.change) for t in event.touched)
    seconds = min(event.ms, _LONGEST_CALL_MS) / 1000
    return deed.model_copy(update={"touched": touched, "seconds": seconds})


def _is_passed_over(event: ToolStarted | ToolCalled) -> bool:
    """Return True for a call of our own tools, and for an end that names no call."""
    own = event.tool.removeprefix(_PREFIX) in _OWN_TOOLS
    return own or (isinstance(event, ToolCalled) and not event.call_id)


# --- connected gateways --------------------------------------------------------------------


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
        events = parse_report(params)
        async with self._in_order:
            for event in events:
                goes_on = await self._take_new_event(connection, event)
                if not goes_on and isinstance(event, TurnStarted):
                    stop.append(event.session_key)
        return {"stop": stop} if stop else {}

    async def _take_new_event(self, connection: object, event: Event) -> bool:
        """Handle an event unless it was handled before; return False if its turn must stop."""
        presence = self._known.get(connection)
        if presence is None or event.number is None:
            return await self._take_unless_refused(connection, event, None)
        done = await self._read_cursor(presence.boot)
        if event.number <= done.number:
            return event.number not in done.stopped
        done = done.model_copy(update={"number": event.number})
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
        self._seen.setdefault(connection, Counter())[event.kind] += 1
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
                await self._apart(
                    gateway_reports.take_answer, self._context, event.key, event.answer
                )
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

    async def _record_work(self, connection: object, event: Work, done: EventCursor | None) -> bool:
        """Apply an event to its session's run, on a thread; return False if its turn must stop."""
        owner = self.find_owner(connection, event.session_key, event.agent_id)
        if owner is None:
            return True
        presence, session = self._known[connection], event.session_key.lower()
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
        return await self._apart(_apply_work, self._context, report, event)

    def note_still_running(
        self,
        connection: object,
        session_key: str,
        reports: Sequence[RunningWorkReport],
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

    async def _register_gateway(self, connection: object, event: GatewayStarted) -> None:
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
        event: ModelAnswered | TurnNotStarted | TurnEndReport,
        error: str | None,
    ) -> None:
        if event.deliveries:
            settle, deliveries = gateway_reports.settle_turn_wakes, frozenset(event.deliveries)
            await self._apart(settle, self._context, event.session_key, deliveries, error)

    def _update_running(self, connection: object, running: Sequence[str]) -> None:
        presence = self._known.get(connection)
        if presence is None:
            return
        self._known[connection] = presence.with_running(running, self._context.clock.now())
        if presence.running.keys() - set(running):
            self._free()
